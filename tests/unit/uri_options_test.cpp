// SPDX-License-Identifier: MIT
// Options behind the '?' of a URI, and how they meet those that a program sets.
#include <string>

#include <mortise/uri.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using mortise::ClientOptions;
using mortise::milliseconds;
using mortise::detail::parse_uri;
using support::contains;

namespace {

ClientOptions applied(std::string const& uri, ClientOptions options = {}) {
  apply(parse_uri(uri), options);
  return options;
}

std::string refused(std::string const& query) {
  CAPTURE(query);
  return refusal([&] { (void)parse_uri("redis://user:s3cret@h?" + query); });
}

}  // namespace

TEST_CASE("every option of a URI reaches its field") {
  auto const options = applied(
      "redis://h/2?client_name=me%3A7&command_timeout=250ms&connect_timeout=2s&retry_for=1m&replicas=2&replicas_timeout=0.4ms");
  CHECK(options.client_name == "me:7");
  CHECK(options.command_timeout == milliseconds{250});
  CHECK(options.connect_timeout == milliseconds{2000});
  CHECK(options.retry_for == milliseconds{60'000});
  CHECK(options.replicas == 2);
  CHECK(options.replicas_timeout == milliseconds{1});
  CHECK(applied("unix:///s?retry_for=3s&db=1").retry_for == milliseconds{3000});
}

TEST_CASE("a URI without options leaves everything at its default") {
  ClientOptions const defaults;
  auto const options = applied("redis://h");
  CHECK(options.client_name == defaults.client_name);
  CHECK(options.command_timeout == defaults.command_timeout);
  CHECK(options.connect_timeout == defaults.connect_timeout);
  CHECK(options.retry_for == defaults.retry_for);
  CHECK(options.replicas == defaults.replicas);
  CHECK(options.replicas_timeout == defaults.replicas_timeout);
  CHECK(options.username.empty());
  CHECK(options.password.empty());
}

TEST_CASE("what the program sets wins over the URI") {
  std::string const uri =
      "redis://h?client_name=uri&command_timeout=1ms&connect_timeout=1ms&retry_for=1ms&replicas=1&replicas_timeout=1ms";
  ClientOptions const set{.command_timeout = milliseconds{20},
                          .connect_timeout = milliseconds{30},
                          .retry_for = milliseconds{40},
                          .client_name = "program",
                          .replicas = 5,
                          .replicas_timeout = milliseconds{60}};
  auto const options = applied(uri, set);
  CHECK(options.client_name == "program");
  CHECK(options.command_timeout == milliseconds{20});
  CHECK(options.connect_timeout == milliseconds{30});
  CHECK(options.retry_for == milliseconds{40});
  CHECK(options.replicas == 5);
  CHECK(options.replicas_timeout == milliseconds{60});
}

TEST_CASE("an option may be given once") {
  for (std::string const option : {"client_name=x", "command_timeout=1s", "connect_timeout=1s", "retry_for=1s", "replicas=1", "replicas_timeout=1s"}) {
    CHECK_NOTHROW(parse_uri("redis://h?" + option));
    CHECK_THAT(refused(option + '&' + option), contains(option.substr(0, option.find('=')) + ": given twice"));
  }
}

TEST_CASE("an unknown option is named, and so are those there are") {
  auto const text = refused("tls=yes");
  CHECK_THAT(text, contains("unknown option \"tls\"") && contains("command_timeout") && contains("db"));
  CHECK_THAT(refused("Db=1"), contains("unknown option"));
  CHECK_THAT(refused("password=hunter2"), contains("unknown option \"password\"") && !contains("hunter2"));
  CHECK(refused(std::string(5000, 'x') + "=1").size() < 300);
}

TEST_CASE("options are written name=value") {
  for (std::string const query : {"db", "=1", "&", "db=1&", "&db=1", "db=1&&replicas=1"})
    CHECK_THAT(refused(query), contains("must be written name=value"));
  CHECK_THAT(refused("db=1;replicas=2"), contains("db: must be a number"));
}

TEST_CASE("a duration needs a unit and must be positive") {
  for (std::string const option : {"command_timeout", "connect_timeout", "retry_for", "replicas_timeout"}) {
    CHECK_THAT(refused(option + "=250"), contains(option + " \"250\": has no unit"));
    CHECK_THAT(refused(option + "=0s"), contains(option + " is 0ms: must be positive"));
    CHECK_THAT(refused(option + "=-1s"), contains(option) && contains("must not be negative"));
    CHECK_THAT(refused(option + "="), contains(option) && contains("must be a number with a unit"));
    CHECK_THAT(refused(option + "=300000000000d"), contains(option) && contains("is too long"));
  }
}

TEST_CASE("replicas is a number, and a client name one that Redis takes") {
  for (std::string const value : {"", "-1", "x", "2147483648", "1s"})
    CHECK_THAT(refused("replicas=" + value), contains("replicas: must be a number from 0 to 2147483647"));
  CHECK(applied("redis://h?replicas=2147483647").replicas == 2147483647);
  CHECK_THAT(refused("client_name=a%20b"), contains("client_name has a space"));
  CHECK_THAT(refused("client_name=" + std::string(129, 'x')), contains("at most 128"));
  CHECK(applied("redis://h?client_name=a+b%26c%3D").client_name == "a+b&c=");
}

TEST_CASE("no refusal of an option prints the password") {
  for (std::string const query : {"x=1", "db=x", "replicas=x", "command_timeout=5", "client_name=%00", "db", "db=%", "client_name=me@home"})
    CHECK_THAT(refused(query), !contains("s3cret") && !contains("user:"));
}
