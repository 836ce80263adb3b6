// SPDX-License-Identifier: MIT
// URIs: what they mean, and each part written wrongly.
#include <cstdint>
#include <string>

#include <sys/un.h>

#include <mortise/uri.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using mortise::detail::parse_uri;
using mortise::detail::Uri;
using support::contains;

namespace {

std::string refused_uri(std::string const& uri) {
  CAPTURE(uri);
  return refusal([&] { (void)parse_uri(uri); });
}

}  // namespace

TEST_CASE("a redis URI gives host, port and database, or their defaults") {
  struct Row {
    std::string uri, host;
    std::uint16_t port;
    int db;
    std::string endpoint;
  };
  auto const row = GENERATE(values<Row>({
      {"redis://localhost", "localhost", 6379, 0, "localhost:6379"},
      {"redis://localhost/", "localhost", 6379, 0, "localhost:6379"},
      {"redis://localhost?", "localhost", 6379, 0, "localhost:6379"},
      {"redis://10.0.0.7:7000/15", "10.0.0.7", 7000, 15, "10.0.0.7:7000"},
      {"redis://my_host-1.example.:1", "my_host-1.example.", 1, 0, "my_host-1.example.:1"},
      {"redis://h:65535/2147483647", "h", 65535, 2147483647, "h:65535"},
      {"redis://h?db=3", "h", 6379, 3, "h:6379"},
      {"redis://h/?db=3", "h", 6379, 3, "h:6379"},
      {"REDIS://Host", "Host", 6379, 0, "Host:6379"},
      {"redis://[::1]", "::1", 6379, 0, "[::1]:6379"},
      {"redis://u:p@[2001:db8::7]:7000/2", "2001:db8::7", 7000, 2, "[2001:db8::7]:7000"},
      {"redis://[::ffff:10.0.0.1]:7", "::ffff:10.0.0.1", 7, 0, "[::ffff:10.0.0.1]:7"},
      {"redis://[fe80::1%25eth0]", "fe80::1%eth0", 6379, 0, "[fe80::1%eth0]:6379"},
  }));
  CAPTURE(row.uri);
  auto const uri = parse_uri(row.uri);
  CHECK(uri.scheme == Uri::Scheme::tcp);
  CHECK(uri.host == row.host);
  CHECK(uri.port == row.port);
  CHECK(uri.db == row.db);
  CHECK(uri.endpoint() == row.endpoint);
  CHECK(uri.path.empty());
}

TEST_CASE("a unix URI gives the path of a socket, percent-decoded") {
  struct Row {
    std::string uri, path;
    int db;
    std::string endpoint;
  };
  auto const row = GENERATE(values<Row>({
      {"unix:///run/redis.sock", "/run/redis.sock", 0, "unix:/run/redis.sock"},
      {"unix:///run/redis.sock?db=3", "/run/redis.sock", 3, "unix:/run/redis.sock"},
      {"unix://user:word@/run/redis.sock", "/run/redis.sock", 0, "unix:/run/redis.sock"},
      {"unix:///a@b.sock", "/a@b.sock", 0, "unix:/a@b.sock"},
      {"unix:///a%20b%23c%3Fd%25", "/a b#c?d%", 0, "unix:/a b#c?d%"},
      {"unix:///%ff%0a", "/\xff\n", 0, R"(unix:/\xff\x0a)"},
      {"unix:///a+b:c", "/a+b:c", 0, "unix:/a+b:c"},
  }));
  CAPTURE(row.uri);
  auto const uri = parse_uri(row.uri);
  CHECK(uri.scheme == Uri::Scheme::unix_socket);
  CHECK(uri.path == row.path);
  CHECK(uri.db == row.db);
  CHECK(uri.endpoint() == row.endpoint);
  CHECK(uri.host.empty());
}

TEST_CASE("an unknown scheme is refused by name, and no scheme by saying which there are") {
  for (std::string const scheme : {"http", "redisss", "rediss+http", "unixs"})
    CHECK_THAT(refused_uri(scheme + "://user:s3cret@h"), contains("unknown scheme \"" + scheme + '"') && contains("must be redis://, rediss://") && !contains("s3cret"));
  for (std::string const uri : {"", "localhost", "localhost:6379", "redis:", "redis:/h", "://h", "re dis://h", "u:p@h://x", "/run/redis.sock"})
    CHECK_THAT(refused_uri(uri), contains("must begin with redis://, rediss://"));
}

TEST_CASE("rediss:// is redis:// with TLS") {
  auto const uri = parse_uri("REDISS://user:word@cache.example/3");
  CHECK(uri.tls);
  CHECK(uri.host == "cache.example");
  CHECK(uri.port == 6379);
  CHECK(uri.db == 3);
  CHECK(parse_uri("rediss+cluster://a,b").tls);
  CHECK(parse_uri("rediss+cluster://a,b").scheme == Uri::Scheme::cluster);
  CHECK(parse_uri("rediss+sentinel://a,b/main").tls);
  CHECK_FALSE(parse_uri("redis+cluster://a,b").tls);
  CHECK_FALSE(parse_uri("redis://cache.example").tls);
  CHECK_FALSE(parse_uri("unix:///run/redis.sock").tls);
}

TEST_CASE("a host that is missing or not one host is refused") {
  for (std::string const uri : {"redis://", "redis:///", "redis:///3", "redis://:6379", "redis://user:word@", "redis://user:word@:1/2", "redis://?db=1"})
    CHECK_THAT(refused_uri(uri), contains("host: is empty"));
  for (std::string const uri : {"redis://a,b", "redis://a%20b", "redis://a:1,b:2", "redis://[::1", "redis://[h]", "redis://[]", "redis://[::1%00]",
                                "redis://::1", "redis://2001:db8::7:6379", "redis://]", "redis://h\xc3\xa9"})
    CHECK_THAT(refused_uri(uri), contains("host: "));
  CHECK_THAT(refused_uri("redis://::1:6379"), contains("IPv6 address must stand in brackets"));
  CHECK(parse_uri("redis://" + std::string(255, 'x')).host.size() == 255);
  CHECK_THAT(refused_uri("redis://" + std::string(256, 'x')), contains("at most 255"));
}

TEST_CASE("a port is a number from 1 to 65535 and nothing else") {
  for (std::string const port : {"", "0", "65536", "00000", "99999", "4294967297", "99999999999999999999", "-1", "+1", "7x", "x", "%31", "1.5", "0x7"})
    CHECK_THAT(refused_uri("redis://h:" + port), contains("port: must be a number from 1 to 65535"));
  CHECK_THAT(refused_uri("redis://[::1]6379"), contains("port: only :port may follow the host"));
  CHECK_THAT(refused_uri("redis://[::1]:6379:1"), contains("port: must be"));
}

TEST_CASE("a database is a number from 0 to 2147483647, given once") {
  for (std::string const db : {"2147483648", "4294967296", "-1", "+1", "x", "1x", "1/", "1/2", "0x1"}) {
    CHECK_THAT(refused_uri("redis://h/" + db), contains("db: must be a number from 0 to 2147483647"));
    CHECK_THAT(refused_uri("unix:///s?db=" + db), contains("db: must be a number from 0 to 2147483647"));
  }
  CHECK_THAT(refused_uri("redis://h/%31"), contains("db: must be"));
  CHECK_THAT(refused_uri("unix:///s?db="), contains("db: must be"));
  CHECK_THAT(refused_uri("redis://h/3?db=3"), contains("db: given twice"));
  CHECK_THAT(refused_uri("redis://h?db=1&db=2"), contains("db: given twice"));
}

TEST_CASE("a socket's path must fit the system's address, and be one") {
  constexpr auto longest = sizeof(sockaddr_un::sun_path) - 1;
  CHECK(parse_uri("unix:///" + std::string(longest - 1, 'x')).path.size() == longest);
  CHECK_THAT(refused_uri("unix:///" + std::string(longest, 'x')),
             contains("path: has " + std::to_string(longest + 1) + " bytes") && contains("at most " + std::to_string(longest)));
  CHECK_THAT(refused_uri("unix:///a%00b"), contains("path: holds a NUL byte"));
  CHECK_THAT(refused_uri("unix://"), contains("path: is empty"));
  CHECK_THAT(refused_uri("unix://user:word@"), contains("path: is empty"));
  for (std::string const uri : {"unix://run/redis.sock", "unix://redis.sock", "unix://u:p@host/s"})
    CHECK_THAT(refused_uri(uri), contains("unix:///path, with three slashes"));
}

TEST_CASE("every percent sign must begin an escape") {
  for (std::string const bad : {"%", "%4", "%zz", "%4z", "%z4", "a%", "%%41", "%+1", "%-1", "%0x41"}) {
    CHECK_THAT(refused_uri("redis://" + bad + "@h"), contains("user name: two hexadecimal digits must follow a '%'"));
    CHECK_THAT(refused_uri("redis://u:" + bad + "@h"), contains("password: two hexadecimal digits"));
    CHECK_THAT(refused_uri("unix:///" + bad), contains("path: two hexadecimal digits"));
    CHECK_THAT(refused_uri("redis://h?client_name=" + bad), contains("options: two hexadecimal digits"));
  }
  CHECK(parse_uri("unix:///%4a%4A").path == "/JJ");
}

TEST_CASE("spaces, control characters and '#' must be encoded") {
  for (std::string const uri : {"redis://h\n", "redis://h ", "redis://h/0\r\n", "unix:///a b", "redis://h\t:1", "redis://h?client_name=\x7f"})
    CHECK_THAT(refused_uri(uri), contains("must be percent-encoded"));
  CHECK_THAT(refused_uri(std::string("redis://h\0x", 11)), contains("must be percent-encoded"));
  CHECK_THAT(refused_uri("redis://h#fragment"), contains("%23"));
}
