// SPDX-License-Identifier: MIT
// User code on the herald: an observer or a lost() callback that is slow, blocks or throws harms nobody else.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Event;
using mortise::Lock;
using support::RedisServer;
using support::wait_until;

TEST_CASE("an observer with a backlog does not delay the word of a loss") {
  RedisServer server;
  Client redis{server.uri(), {.observer = [](Event const&) { std::this_thread::sleep_for(20ms); }}};
  Lock lock{redis, "name", {.ttl = 500ms, .renew = false}};
  auto const lease = lock.try_acquire();
  REQUIRE(lease);
  for (int i = 0; i < 250; ++i) REQUIRE_FALSE(lock.try_acquire());  // five seconds of events
  CHECK(wait_until([&] { return lease->lost().stop_requested(); }, 2500ms));
  CHECK_FALSE(lease->held());
}

TEST_CASE("an observer that throws is called again") {
  RedisServer server;
  std::atomic<int> events{0};
  Client redis{server.uri(), {.observer = [&](Event const&) {
                 ++events;
                 throw std::runtime_error{"not the library's affair"};
               }}};
  Lock lock{redis, "name", {.ttl = 300ms}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  CHECK(wait_until([&] { return events >= 4; }));
  CHECK(lease->held());
  CHECK(lease->release());
}

TEST_CASE("an observer that blocks keeps no lease from being renewed and no release from being done") {
  RedisServer server;
  std::atomic<bool> blocked{true};
  {
    Client redis{server.uri(), {.observer = [&](Event const&) { static_cast<void>(wait_until([&] { return !blocked; })); }}};
    Lock lock{redis, "name", {.ttl = 300ms}};
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    for (int i = 0; i < 30; ++i) {
      std::this_thread::sleep_for(40ms);
      REQUIRE(lease->held());
    }
    CHECK(lease->release());
    CHECK(lock.try_acquire());
    blocked = false;
  }
}

TEST_CASE("a lost() callback that blocks keeps no other lease from being renewed, and held() stays right") {
  RedisServer server;
  Client redis{server.uri()};
  Lock lost_soon{redis, "lost soon", {.ttl = 200ms, .renew = false}};
  Lock kept{redis, "kept", {.ttl = 300ms}};
  Lock lost_later{redis, "lost later", {.ttl = 600ms, .renew = false}};
  auto const a = lost_soon.try_acquire();
  auto const b = kept.try_acquire();
  auto const c = lost_later.try_acquire();
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(c);
  std::atomic<bool> blocked{true};
  std::atomic<bool> called{false};
  std::stop_callback const callback{a->lost(), [&] {
                                      called = true;
                                      static_cast<void>(wait_until([&] { return !blocked; }));
                                    }};
  CHECK(wait_until([&] { return called.load(); }));
  for (int i = 0; i < 25; ++i) {
    std::this_thread::sleep_for(40ms);
    REQUIRE(b->held());
  }
  CHECK_FALSE(a->held());
  CHECK_FALSE(c->held());
  blocked = false;
  CHECK(wait_until([&] { return c->lost().stop_requested(); }));
  CHECK(b->held());
}
