// SPDX-License-Identifier: MIT
// The clock shim: a server's and a program's wall clock move, nothing else does.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/clock_shim.hpp"
#include "support/redis_server.hpp"

#include <cstdlib>
#include <ctime>

using support::ClockShim;
using support::RedisServer;
using namespace std::chrono_literals;

namespace {

std::int64_t seconds_of(RedisServer& server) {
  return std::stoll(server.command({"TIME"}).items.at(0).text);
}

}  // namespace

TEST_CASE("the wall clock of a server jumps while it runs, both ways", "[clock_shim]") {
  ClockShim shim;
  RedisServer server{{.environment = shim.environment()}};
  CHECK(std::abs(seconds_of(server) - std::time(nullptr)) < 60);
  server.command({"SET", "key", "value", "PX", "600000"});

  shim.set_offset(-1h);
  CHECK(std::abs(seconds_of(server) + 3600 - std::time(nullptr)) < 60);
  CHECK(server.command({"PTTL", "key"}).integer > 3'600'000);
  shim.set_offset(1h);
  CHECK(std::abs(seconds_of(server) - 3600 - std::time(nullptr)) < 60);
  CHECK(server.command({"GET", "key"}).is_nil());
}

TEST_CASE("the wall clock of a program jumps and this process does not notice", "[clock_shim]") {
  ClockShim shim;
  auto const before = std::time(nullptr);
  support::ChildProcess child{support::Program{.path = "sh",
                                               .arguments = {"-c", "while read line; do date +%s; done"},
                                               .environment = shim.environment()}};
  for (auto const offset : {std::chrono::hours{0}, std::chrono::hours{24 * 400}, std::chrono::hours{-1}}) {
    shim.set_offset(offset);
    child.send_line("now");
    auto const line = child.read_line();
    REQUIRE(line);
    CHECK(std::abs(std::stoll(*line) - before - std::chrono::seconds{offset}.count()) < 60);
  }
  CHECK(std::time(nullptr) - before < 600);
}
