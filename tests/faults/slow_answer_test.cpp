// SPDX-License-Identifier: MIT
// The clock of a lease starts before its request is written: an answer that comes late makes the belief shorter, never longer.
#include <optional>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Clock;
using mortise::Errc;
using mortise::Lease;
using mortise::Lock;
using support::Direction;
using support::Waiting;
using support::wait_until;

namespace {

/// Whether the lease is believed for longer than its key lives, as far as that can be told without a race.
bool outlives_its_key(Lease const& lease, support::RedisServer& server) {
  auto const asked = Clock::now();
  auto const remaining = lease.remaining();
  auto const pttl = server.command({"PTTL", lease.name()}).integer;
  auto const passed = std::chrono::ceil<milliseconds>(Clock::now() - asked);
  return remaining > 0ms && remaining - passed > milliseconds{pttl};
}

}  // namespace

TEST_CASE("a lease whose grant, extension or renewal is answered late ends before its key does") {
  Setting here;
  Client redis{here.proxy.uri()};
  Lock lock{redis, "name", {.ttl = 900ms}};
  here.proxy.delay(Direction::reply, 150ms);
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  CHECK(lease->remaining() <= 900ms - 150ms);
  CHECK_FALSE(outlives_its_key(*lease, here.server));
  CHECK(lease->extend());
  CHECK(lease->remaining() <= 900ms - 150ms);
  CHECK_FALSE(outlives_its_key(*lease, here.server));
  auto const end = Clock::now() + 1500ms;
  int longer = 0;
  while (Clock::now() < end) {
    longer += outlives_its_key(*lease, here.server);
    std::this_thread::sleep_for(2ms);
  }
  CHECK(longer == 0);
}

TEST_CASE("a lease that is handed over by a late answer ends before its key does") {
  Setting here;
  Client near{here.server.uri()};
  Client far{here.proxy.uri()};
  Lock lock{near, "name", {.ttl = 30s}};
  Lock same{far, "name", {.ttl = 1500ms, .renew = false}};
  auto held = lock.acquire();
  here.proxy.delay(Direction::reply, 150ms);
  Waiting waiter{[&] { return same.acquire_for(20s); }};
  REQUIRE(wait_until([&] {
    for (auto const& client : here.server.client_list())
      if (client.at("flags").find('b') != std::string::npos) return true;
    return false;
  }));
  CHECK(held.release());
  auto const lease = waiter.get();
  REQUIRE(lease);
  CHECK(lease->remaining() <= 1500ms - 150ms);
  int longer = 0;
  while (lease->held()) {
    longer += outlives_its_key(*lease, here.server);
    std::this_thread::sleep_for(2ms);
  }
  CHECK(longer == 0);
}

TEST_CASE("a grant whose answer comes after its validity is none, and leaves nothing behind") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 5s}};
  Lock lock{redis, "name", {.ttl = 200ms, .renew = false}};
  REQUIRE(lock.try_acquire());
  here.proxy.delay(Direction::reply, 300ms);
  auto const error = error_of([&] { static_cast<void>(lock.try_acquire()); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::timeout);
  CHECK(wait_until([&] { return is_free(here.server, "name"); }, 10s));
  here.proxy.delay(Direction::reply, 0ms);
  CHECK(lock.acquire_for(10s));
}
