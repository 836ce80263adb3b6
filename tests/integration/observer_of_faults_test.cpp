// SPDX-License-Identifier: MIT
// What an observer is told when things go wrong, and what becomes of what goes wrong in the observer.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "support/proxy.hpp"
#include "witness.hpp"

TEST_CASE("an unanswered renewal and an unanswered release are told, and what follows when the server is back") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.command_timeout = 300ms, .observer = witness.observer()}};
  auto lease = Lock{client, "lock", {.ttl = 30s}}.acquire();
  auto brief = Lock{client, "brief", {.ttl = 1s}}.acquire();
  redis.freeze();
  CHECK(witness.first(Kind::renewal_failed).name == "brief");
  CHECK(errc_of([&] { return lease.release(); }));
  auto const failed = witness.first(Kind::release_failed);
  CHECK(failed.name == "lock");
  CHECK(failed.fence == lease.fence());
  CHECK_FALSE(failed.reason.empty());
  redis.thaw();
  CHECK(wait_until([&] { return !redis.exists("lock"); }));  // settled in the background
}

TEST_CASE("a connection that replaces a broken one is told with its endpoint") {
  LockServer redis;
  Witness witness;
  Client client{redis.uri(), {.observer = witness.observer()}};
  Lock lock{client, "lock"};
  lock.acquire().release();
  CHECK(witness.of(Kind::reconnected).empty());
  std::this_thread::sleep_for(20ms);
  redis.kill_clients();
  lock.acquire().release();
  CHECK(witness.first(Kind::reconnected).endpoint == "127.0.0.1:" + std::to_string(redis.port()));
}

TEST_CASE("an acquisition whose answer never comes is told as a possible orphan") {
  LockServer redis;
  support::Proxy proxy{redis.port()};
  Witness witness;
  Client client{proxy.uri(), {.command_timeout = 200ms, .connect_timeout = 200ms, .observer = witness.observer()}};
  Lock lock{client, "lock"};
  lock.acquire().release();
  proxy.hold(support::Direction::reply);
  auto const error = error_of([&] { return lock.try_acquire(); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK(witness.first(Kind::orphan_possible).name == "lock");
  proxy.resume(support::Direction::reply);
  CHECK(wait_until([&] { return !redis.exists("lock"); }));
}

TEST_CASE("what an observer throws is swallowed, and a slow one is told how much it has missed") {
  LockServer redis;
  std::atomic<std::int64_t> told{0};
  std::atomic<std::int64_t> missed{0};
  std::atomic<bool> slow{true};
  Client client{redis.unix_uri(), {.observer = [&](Event const& event) {
                                     if (event.kind == Kind::dropped) missed += std::stoll(event.reason);
                                     ++told;
                                     while (slow) std::this_thread::sleep_for(1ms);
                                     throw std::runtime_error{"an observer's trouble"};
                                   }}};
  Lock lock{client, "lock"};
  constexpr int pairs = 2200;  // more than the events that are kept
  for (int i = 0; i < pairs; ++i) lock.acquire().release();
  slow = false;
  CHECK(wait_until([&] { return missed != 0 && told + missed >= 2 * pairs; }));
  CHECK(lock.try_acquire());
}

TEST_CASE("no event holds a token or a password") {
  LockServer redis{{.password = "hunter2"}};
  Witness witness;
  Client client{redis.uri(), {.client_name = "visible", .observer = witness.observer()}};
  auto lease = Lock{client, "lock", {.ttl = 300ms}}.acquire();
  redis.command({"SET", "lock", "taken"});
  witness.first(Kind::lost);
  redis.config_set("requirepass", "changed");
  redis.kill_clients();
  CHECK(errc_of([&] { return Lock{client, "lock"}.try_acquire(); }) == Errc::auth_failed);
  for (int kind = 0; kind <= static_cast<int>(Kind::dropped); ++kind)
    for (auto const& event : witness.of(static_cast<Kind>(kind)))
      CHECK_THAT(event.reason + event.endpoint + event.name, !contains("visible#") && !contains("hunter2"));
}

TEST_CASE("an unlock that is not answered throws nothing, tells the observer, and is made good when the server is back") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.command_timeout = 300ms, .observer = witness.observer()}};
  Lock lock{client, "lock", {.ttl = 1min}};
  lock.lock();
  auto const fence = lock.fence();
  redis.freeze();
  auto const took = time_of([&] { lock.unlock(); return 0; });
  CHECK(took < 5s);
  CHECK(errc_of([&] { return lock.fence(); }) == Errc::not_held);
  CHECK(witness.first(Kind::release_failed).fence == fence);
  redis.thaw();
  CHECK(wait_until([&] { return !redis.exists("lock"); }));
}

TEST_CASE("a release that nobody waits for returns while the server is frozen, and is made good when it is back") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.command_timeout = 300ms, .observer = witness.observer()}};
  auto lease = Lock{client, "lock", {.ttl = 1min}}.acquire();
  redis.freeze();
  CHECK(time_of([&] { lease.release_later(); return 0; }) < 200ms);
  CHECK(witness.first(Kind::orphan_possible).name == "lock");
  CHECK(witness.of(Kind::released).empty());
  redis.thaw();
  CHECK(witness.first(Kind::released).fence == lease.fence());
  CHECK_FALSE(redis.exists("lock"));
}
