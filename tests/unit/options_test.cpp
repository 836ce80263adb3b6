// SPDX-License-Identifier: MIT
// Options: the defaults that are promised, and each rule at its border.
#include <chrono>
#include <string>

#include <mortise/options.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using namespace std::chrono_literals;
using mortise::ClientOptions;
using mortise::LockOptions;
using mortise::milliseconds;
using mortise::detail::checked;
using support::contains;

TEST_CASE("the defaults are those of the documentation, and are allowed") {
  auto const client = checked(ClientOptions{});
  CHECK(client.command_timeout == 1s);
  CHECK(client.connect_timeout == 1s);
  CHECK(client.retry_for == 10s);
  CHECK(client.client_name.empty());
  CHECK(client.replicas == 0);
  CHECK(client.replicas_timeout == 100ms);
  CHECK_FALSE(client.observer);
  auto const lock = checked(LockOptions{});
  CHECK(lock.ttl == 10s);
  CHECK(lock.renew);
  CHECK_FALSE(lock.max_hold);
}

TEST_CASE("a TTL is from 3 ms to 10 years") {
  CHECK(checked(LockOptions{.ttl = 3ms}).ttl == 3ms);
  CHECK(checked(LockOptions{.ttl = 24h * 3650}).ttl == 24h * 3650);
  CHECK_THAT(refusal([] { checked(LockOptions{.ttl = 0ms}); }), contains("ttl is 0ms: must be positive"));
  CHECK_THAT(refusal([] { checked(LockOptions{.ttl = -5ms}); }), contains("ttl is -5ms: must be positive"));
  CHECK_THAT(refusal([] { checked(LockOptions{.ttl = 2ms}); }), contains("ttl is 2ms: must be at least 3ms"));
  CHECK_THAT(refusal([] { checked(LockOptions{.ttl = 24h * 3650 + 1ms}); }), contains("must be at most 10 years"));
  CHECK_THAT(refusal([] { checked(LockOptions{.ttl = milliseconds::max()}); }), contains("at most 10 years"));
  CHECK_THAT(refusal([] { checked(LockOptions{.ttl = milliseconds::min()}); }), contains("must be positive"));
}

TEST_CASE("max_hold must be positive if it is given") {
  CHECK(checked(LockOptions{.max_hold = 1ms}).max_hold == 1ms);
  CHECK(checked(LockOptions{.max_hold = milliseconds::max()}).max_hold == milliseconds::max());
  CHECK_THAT(refusal([] { checked(LockOptions{.max_hold = 0ms}); }), contains("max_hold is 0ms: must be positive"));
  CHECK_THAT(refusal([] { checked(LockOptions{.max_hold = -1ms}); }), contains("max_hold is -1ms"));
}

TEST_CASE("every timeout of a client must be positive, and its longest value is allowed") {
  struct Row {
    char const* name;
    milliseconds ClientOptions::*field;
  };
  auto const row = GENERATE(values<Row>({
      {"command_timeout", &ClientOptions::command_timeout},
      {"connect_timeout", &ClientOptions::connect_timeout},
      {"retry_for", &ClientOptions::retry_for},
      {"replicas_timeout", &ClientOptions::replicas_timeout},
  }));
  for (auto const wrong : {0ms, -1ms, milliseconds::min()}) {
    ClientOptions options;
    options.*row.field = wrong;
    CHECK_THAT(refusal([&] { checked(options); }), support::starts_with(row.name) && contains("must be positive"));
  }
  for (auto const right : {1ms, milliseconds{2'143'000}, milliseconds{25 * 24h}, milliseconds::max()}) {
    ClientOptions options;
    options.*row.field = right;
    CHECK(checked(options).*row.field == right);
  }
}

TEST_CASE("replicas must not be negative") {
  CHECK(checked(ClientOptions{.replicas = 3}).replicas == 3);
  CHECK_THAT(refusal([] { checked(ClientOptions{.replicas = -1}); }), contains("replicas is -1"));
}

TEST_CASE("a client name is what Redis takes as one") {
  auto const with_name = [](std::string name) { return checked(ClientOptions{.client_name = std::move(name)}).client_name; };
  CHECK(with_name("worker-7:1234") == "worker-7:1234");
  CHECK(with_name("!~#%") == "!~#%");
  CHECK(with_name(std::string(128, 'x')).size() == 128);
  CHECK_THAT(refusal([&] { with_name(std::string(129, 'x')); }), contains("129 bytes: at most 128"));
  for (std::string const name : {"a b", "a\n", "\t", "\x7f", "\xc3\xa9"})
    CHECK_THAT(refusal([&] { with_name(name); }), contains("client_name has a space"));
  CHECK_THAT(refusal([&] { with_name(std::string("a\0b", 3)); }), contains("client_name has a space"));
}

TEST_CASE("any bytes are a user name and a password, and none of them is ever in a refusal") {
  ClientOptions options{.username = "us er\n", .password = "hunter2"};
  CHECK(checked(options).password == "hunter2");
  options.replicas = -1;
  CHECK_THAT(refusal([&] { checked(options); }), !contains("hunter2") && !contains("us er"));
}
