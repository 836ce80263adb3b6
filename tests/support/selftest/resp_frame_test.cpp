// SPDX-License-Identifier: MIT
// Message boundaries: every kind of reply, cut at every byte.
#include "support/catch.hpp"
#include "support/resp_frame.hpp"

#include <string>

using support::first_frame;

TEST_CASE("a message is whole with its last byte and not before", "[resp_frame]") {
  std::string const frame = GENERATE(values<std::string>(
      {"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$3\r\na\nb\r\n", "$-1\r\n", "$0\r\n\r\n", "*-1\r\n", "*0\r\n",
       "*2\r\n$1\r\na\r\n*2\r\n:1\r\n+b\r\n", "%1\r\n+k\r\n:1\r\n", ">2\r\n+m\r\n$1\r\nx\r\n", "_\r\n", "PING\r\n"}));
  for (std::size_t size = 0; size < frame.size(); ++size)
    CHECK_FALSE(first_frame(frame.substr(0, size)));
  CHECK(first_frame(frame) == frame.size());
  CHECK(first_frame(frame + "+next\r\n") == frame.size());
}

TEST_CASE("a length that makes no sense takes all there is", "[resp_frame]") {
  CHECK(first_frame("$99999999999999999999\r\nabc") == 26);
  CHECK(first_frame("*-7\r\nabc") == 8);
}

TEST_CASE("the words of a command are found in both notations", "[resp_frame]") {
  CHECK(support::words_of("*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n") == std::vector<std::string>{"GET", "\r\n"});
  CHECK(support::words_of("GET key\r\n") == std::vector<std::string>{"GET", "key"});
}
