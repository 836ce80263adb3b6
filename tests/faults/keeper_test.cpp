// SPDX-License-Identifier: MIT
// The keeper's own connection and clock: what befalls them must not cost anybody a lease.
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::RedisServer;
using support::wait_until;

TEST_CASE("a nudge that is never answered does not keep leases from being renewed") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 5s}};
  Lock lock{redis, "held", {.ttl = 1500ms}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  REQUIRE(here.server.command({"SET", "waited for", "a foreigner", "PX", "60000"}).is_ok());
  here.proxy.swallow_replies(1, reply_to(Asks::nudge));
  std::thread waiter{[&] {
    Lock waited{redis, "waited for"};
    CHECK_FALSE(waited.acquire_for(4s));
  }};
  waiter.join();
  CHECK(lease->held());
  CHECK_FALSE(lease->lost().stop_requested());
}

TEST_CASE("a lease that begins while the keeper waits for an answer that never comes is renewed in time") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 5s}};
  Lock lock{redis, "held", {.ttl = 400ms}};
  Lock waited{redis, "waited for"};
  REQUIRE(here.server.command({"SET", "waited for", "a foreigner", "PX", "60000"}).is_ok());
  here.proxy.record();
  here.proxy.swallow_replies(1, reply_to(Asks::nudge));
  support::Waiting waiter{[&] { return waited.acquire_for(3s).has_value(); }};
  REQUIRE(wait_until([&] { return count(here.proxy, Asks::nudge) > 0; }));  // the keeper waits for up to a second
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  auto const end = mortise::Clock::now() + 1500ms;
  while (lease->held() && mortise::Clock::now() < end) std::this_thread::sleep_for(5ms);
  CHECK(lease->held());
  CHECK_FALSE(waiter.get());
}

TEST_CASE("without a limit for commands a lease is renewed once at a time") {
  Setting here;
  here.proxy.record();
  Client redis{here.proxy.uri(), {.command_timeout = mortise::milliseconds::max()}};
  Lock lock{redis, "name", {.ttl = 300ms}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  REQUIRE(wait_until([&] { return count(here.proxy, Asks::keep) > 0; }));
  std::this_thread::sleep_for(30ms);
  CHECK(count(here.proxy, Asks::keep) <= 3);
  CHECK(lease->held());
  CHECK(lease->release());
}
