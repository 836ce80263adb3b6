// SPDX-License-Identifier: MIT
// The wall clock of a server may jump: leases end early or late there, but holders are told, fences rise, waiters get in.
#include <optional>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/clock_shim.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::RedisServer;
using support::Waiting;
using support::wait_until;

TEST_CASE("when a server's clock jumps ahead, the holder is told at its next renewal, and fences keep their order") {
  support::ClockShim shim;
  RedisServer server{{.environment = shim.environment()}};
  Client redis{server.uri()};
  Client other{server.uri()};
  Lock lock{redis, "name", {.ttl = 3s}};
  Lock same{other, "name", {.ttl = 3s}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  shim.set_offset(1h);
  auto rival = same.acquire_for(20s);
  REQUIRE(rival);
  CHECK(rival->fence() > lease->fence());
  CHECK(wait_until([&] { return lease->lost().stop_requested(); }, 10s));
  CHECK_FALSE(lease->held());
  CHECK_FALSE(lease->release());
  CHECK(rival->confirm());
  CHECK(rival->release());
  shim.set_offset(0h);
  auto const next = same.acquire_for(20s);
  REQUIRE(next);
  CHECK(next->fence() > rival->fence());
}

TEST_CASE("when a server's clock jumps back while somebody waits, the waiter gets in when the lock is free by it") {
  support::ClockShim shim;
  RedisServer server{{.environment = shim.environment()}};
  Client redis{server.uri()};
  Lock lock{redis, "name", {.ttl = 3s}};
  REQUIRE(server.command({"SET", "name", "a holder that has died", "PX", "1500"}).is_ok());
  Waiting waiter{[&] { return lock.acquire_for(30s); }};
  REQUIRE(waiter.asleep());
  shim.set_offset(-1h);
  std::this_thread::sleep_for(2s);
  CHECK_FALSE(waiter.over());  // by the server's clock it is held for an hour more
  shim.set_offset(0h);
  auto lease = waiter.get();
  REQUIRE(lease);
  CHECK(lease->held());
  CHECK(lease->confirm());
}
