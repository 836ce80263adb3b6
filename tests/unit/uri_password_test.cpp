// SPDX-License-Identifier: MIT
// Users and passwords in URIs: exact bytes come out, and none of them in a message.
#include <string>
#include <vector>

#include <mortise/uri.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using mortise::ClientOptions;
using mortise::detail::parse_uri;
using support::contains;

namespace {

std::string encoded_byte_by_byte(std::string const& text) {
  std::string result;
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    result += '%';
    result += "0123456789ABCDEF"[byte >> 4];
    result += "0123456789abcdef"[byte & 0xF];
  }
  return result;
}

std::vector<std::string> awkward() {
  using namespace std::string_literals;
  return {"@",  ":",     "/",     "#",   "%",    "+",         " ",          "?",       "&",      "=",          "[",
          "]",  "%41",   "%2541", "a b", "a+b",  "p@ss:w/rd", "redis://h/", "\xc3\xa9", "\0"s,   "a\0b"s,      "\r\n",
          "\xff\xfe", "100%", "'\"\\", "$(x)", std::string(1000, '@')};
}

}  // namespace

TEST_CASE("an awkward user name or password, encoded byte by byte, comes out exactly") {
  for (auto const& secret : awkward()) {
    CAPTURE(secret);
    auto const encoded = encoded_byte_by_byte(secret);
    for (auto const& server : {"redis://user:" + encoded + "@h:7/1", "unix://user:" + encoded + "@/s"}) {
      auto const uri = parse_uri(server);
      CHECK(uri.username == "user");
      CHECK(uri.password == secret);
    }
    auto const uri = parse_uri("redis://" + encoded + ':' + encoded + "@h");
    CHECK(uri.username == secret);
    CHECK(uri.password == secret);
    CHECK(uri.endpoint() == "h:6379");
  }
}

TEST_CASE("every byte can be encoded, and is decoded once") {
  for (int byte = 0; byte < 256; ++byte) {
    std::string const secret(1, static_cast<char>(byte));
    CHECK(parse_uri("redis://:" + encoded_byte_by_byte(secret) + "@h").password == secret);
    auto const twice = encoded_byte_by_byte(encoded_byte_by_byte(secret));
    CHECK(parse_uri("redis://:" + twice + "@h").password == encoded_byte_by_byte(secret));
  }
}

TEST_CASE("user and password are told apart by the first colon") {
  struct Row {
    std::string uri, username, password;
  };
  auto const row = GENERATE(values<Row>({
      {"redis://h", "", ""},
      {"redis://@h", "", ""},
      {"redis://:@h", "", ""},
      {"redis://user@h", "user", ""},
      {"redis://user:@h", "user", ""},
      {"redis://:word@h", "", "word"},
      {"redis://user:word@h", "user", "word"},
      {"redis://user:wo:rd:@h", "user", "wo:rd:"},
      {"redis://us%3Aer:word@h", "us:er", "word"},
      {"redis://a+b:c+d@h", "a+b", "c+d"},
      {"redis://user:p\xc3\xa4ss@h", "user", "p\xc3\xa4ss"},
      {"unix://user:word@/s", "user", "word"},
      {"unix://:word@/s", "", "word"},
  }));
  CAPTURE(row.uri);
  auto const uri = parse_uri(row.uri);
  CHECK(uri.username == row.username);
  CHECK(uri.password == row.password);
}

TEST_CASE("a message never holds a piece of the password, however the URI is broken") {
  std::string const mark = "hunter2";
  for (std::string const special : {"", "@", "/", "#", "%", "?", ":", " ", "[", "]", "&", "=", "%zz", "?x=", "/?", "://", "\n", ","})
    for (std::string const scheme : {"redis://", "unix://", "rediss://", "http://", "redis+sentinel://", "://", ""})
      for (std::string const user : {"", "user", "us/er", "us@er", "us?er"})
        for (std::string const tail : {"@h:7/1", "@h:x", "@h/x", "@h?x=1", "@h?db", "@", "@:1", "@/s?db=x", "@a,b", "@[h]", "@h#f", "@h:1@i"}) {
          auto const uri = scheme + user + ':' + mark + special + mark + tail;
          try {
            (void)parse_uri(uri);
          } catch (mortise::Error const& error) {
            CAPTURE(uri);
            CHECK(std::string{error.what()}.find(mark) == std::string::npos);
          }
        }
}

TEST_CASE("an unencoded '@', '/' or '?' in a password is told with its escape, and never taken for a host") {
  for (std::string const password : {"a/b", "a?b", "12/34", "12?34=5", "/", "?"})
    for (std::string const user : {"", "user"})
      CHECK_THAT(refusal([&] { (void)parse_uri("redis://" + user + ':' + password + "@h:6379/0"); }),
                 contains("'/' %2F") || contains("host: is empty"));
  CHECK_THAT(refusal([] { (void)parse_uri("redis://:a@b@h"); }), contains("more than one '@'") && contains("%40"));
  CHECK_THAT(refusal([] { (void)parse_uri("redis://:a#b@h"); }), contains("%23"));
}

TEST_CASE("a forgotten host does not make the password a printed port") {
  for (std::string const uri : {"redis://user:hunter2", "redis://user:123456789", "redis://user:98765", "redis://user:00000", "unix://user:hunter2", "redis://user:hunter2/0"})
    CHECK_THAT(refusal([&] { (void)parse_uri(uri); }), !contains("hunter2") && !contains("123456789") && !contains("98765") && !contains("00000"));
}

TEST_CASE("user and password of the options win over those of the URI") {
  auto const uri = parse_uri("redis://reader:one@h");
  ClientOptions untouched;
  apply(uri, untouched);
  CHECK(untouched.username == "reader");
  CHECK(untouched.password == "one");
  ClientOptions set{.username = "writer", .password = "two"};
  apply(uri, set);
  CHECK(set.username == "writer");
  CHECK(set.password == "two");
  ClientOptions secret{.password = "two"};
  apply(uri, secret);
  CHECK(secret.username == "reader");
  CHECK(secret.password == "two");
}
