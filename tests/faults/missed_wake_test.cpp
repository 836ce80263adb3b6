// SPDX-License-Identifier: MIT
// No waiter sleeps past its turn: neither when the release comes between its question and its sleep, nor when the holder
// dies and nobody says so.
#include <algorithm>
#include <thread>

#include "dice.hpp"
#include "setting.hpp"
#include "support/catch.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Clock;
using mortise::Lock;
using support::Direction;
using support::RedisServer;
using support::Waiting;
using support::wait_until;

TEST_CASE("a release that comes between a waiter's first answer and its sleep wakes it all the same") {
  Setting here;
  auto const seed = fresh_seed();
  CAPTURE(seed);
  Dice dice{seed};
  Client redis{here.server.uri()};
  Client far{here.proxy.uri()};  // its messages take up to 5 ms each way
  Lock lock{redis, "name", {.ttl = 30s, .renew = false}};
  Lock same{far, "name", {.ttl = 30s, .renew = false}};
  milliseconds longest{0};
  for (std::int64_t i = 0, rounds = amount("rounds", instrumented ? 40 : 100); i < rounds; ++i) {
    auto held = lock.acquire();
    here.proxy.delay(dice.in_hundred(50) ? Direction::request : Direction::reply, milliseconds{dice.up_to(5)});
    mortise::TimePoint granted{};
    Waiting waiter{[&] {
      auto const lease = same.acquire_for(20s);
      granted = Clock::now();
      return lease.has_value();
    }};
    std::this_thread::sleep_for(dice.time_up_to(20ms));
    auto const released = Clock::now();
    REQUIRE(held.release());
    REQUIRE(waiter.get());
    longest = std::max(longest, std::chrono::duration_cast<milliseconds>(granted - released));
  }
  CHECK(longest < 10s);  // nowhere near the TTL; usually a few round trips
}

TEST_CASE("a wake-up is a hint and no grant, whoever sends it and however often") {
  RedisServer server;
  Client redis{server.uri()};
  Client other{server.uri()};
  Lock lock{redis, "name", {.ttl = 30s}};
  Lock same{other, "name", {.ttl = 30s}};
  auto held = lock.acquire();
  Waiting waiter{[&] { return same.acquire_for(20s).has_value(); }};
  REQUIRE(waiter.asleep());
  auto const token = owner(server, "name");
  for (int i = 0; i < 20; ++i) {
    server.command({"RPUSH", "{name}:~wake", std::to_string(held.fence().value + static_cast<std::uint64_t>(i % 3))});
    std::this_thread::sleep_for(10ms);
    REQUIRE(owner(server, "name") == token);
  }
  CHECK_FALSE(waiter.over());
  CHECK(held.confirm());
  server.command({"DEL", "{name}:~wake"});
  CHECK(held.release());
  CHECK(waiter.get());
}

TEST_CASE("the waiters of a holder that was killed get in by its TTL, also where the server never tells of expiry") {
  auto const holders_ttl = milliseconds{1000};
  auto const make = [] {
    try {
      return std::make_unique<RedisServer>(support::ServerOptions{.config = {"enable-debug-command yes"}});
    } catch (std::exception const&) {  // before Redis 7 DEBUG needs no permission
      return std::make_unique<RedisServer>();
    }
  };
  auto const server = make();
  REQUIRE(server->command({"DEBUG", "SET-ACTIVE-EXPIRE", "0"}).is_ok());
  support::ChildProcess holder{[&](support::Channel& parent) {
    Client redis{server->uri()};
    Lock lock{redis, "name", {.ttl = holders_ttl}};
    auto const lease = lock.try_acquire();
    parent.send_line(lease ? "holds" : "does not");
    std::this_thread::sleep_for(1min);
    return 0;
  }};
  REQUIRE(holder.read_line() == "holds");
  Client redis{server->uri()};
  Lock lock{redis, "name", {.ttl = 10s}};
  Waiting first{[&] { return lock.acquire_for(20s).has_value(); }};
  REQUIRE(first.asleep());
  Client other{server->uri()};
  Lock same{other, "name", {.ttl = 10s}};
  Waiting second{[&] { return same.acquire_for(20s).has_value(); }};
  REQUIRE(second.asleep());
  auto const killed = Clock::now();
  holder.kill();
  CHECK(first.get());
  CHECK(second.get());
  CHECK(Clock::now() - killed < holders_ttl + 5s);
}
