// SPDX-License-Identifier: MIT
// Whichever allocation fails: a lock is held and known to be, or it is not held; nothing is left behind, nobody is stuck.
#include <atomic>
#include <optional>
#include <thread>

#include "../setting.hpp"
#include "failing_new.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lease;
using mortise::Lock;
using support::RedisServer;
using support::wait_until;

namespace {

/// Runs `call` with the n-th allocation of this thread failing, for every n until none is left to fail. `call` says how
/// often; between two runs `after(n, threw)` looks at what was left behind.
template <class Call, class After>
void for_every_allocation(Call&& call, After&& after) {
  for (std::int64_t n = 0; n < 2000; ++n) {
    bool threw = false;
    bool happened = false;
    {
      NthAllocationFails const failing{n};
      try {
        call();
      } catch (std::exception const&) {
        threw = true;
      }
      happened = failing.happened();
    }
    CAPTURE(n);
    after(threw);
    if (!happened) {
      CHECK_FALSE(threw);
      return;
    }
  }
  FAIL("there is no end to the allocations");
}

}  // namespace

TEST_CASE("whichever allocation fails, a try gives the lock or leaves nothing behind") {
  RedisServer server;
  std::optional<Client> redis;
  std::optional<Lock<>> lock;
  std::optional<Lease> lease;
  bool const fresh = GENERATE(true, false);  // threads to be started, and a connection to be made
  auto const prepare = [&] {
    lock.reset();
    redis.emplace(server.uri());
    lock.emplace(*redis, "name", mortise::LockOptions{.ttl = 60s});
  };
  prepare();
  if (!fresh) REQUIRE(lock->try_acquire());
  for_every_allocation([&] { lease = lock->try_acquire(); },
                       [&](bool threw) {
                         CHECK(threw != lease.has_value());
                         if (lease) {
                           CHECK(lease->held());
                           CHECK_FALSE(is_free(server, "name"));
                           CHECK(lease->release());
                           lease.reset();
                         }
                         CHECK(wait_until([&] { return is_free(server, "name"); }, 5s));
                         if (fresh) prepare();
                       });
}

TEST_CASE("whichever allocation fails, a wait gives the lock or leaves nothing behind and nobody in the way") {
  RedisServer server;
  Client redis{server.uri()};
  Client other{server.uri()};
  Lock lock{redis, "name", {.ttl = 60s}};
  Lock same{other, "name", {.ttl = 60s}};
  REQUIRE(lock.try_acquire());
  std::optional<Lease> lease;
  auto held = same.try_acquire();
  REQUIRE(held);
  std::atomic<bool> over{false};
  std::thread releaser;
  auto const release_soon = [&] {
    over = false;
    releaser = std::thread{[&] {
      auto connection = server.connect();
      while (!over && connection.command({"EXISTS", "{name}:~wait"}).integer == 0) std::this_thread::sleep_for(1ms);
      if (!over) std::this_thread::sleep_for(5ms);
      held->release();
    }};
  };
  release_soon();
  for_every_allocation([&] { lease = lock.acquire_for(20s); },
                       [&](bool threw) {
                         over = true;
                         releaser.join();
                         CHECK(threw != lease.has_value());
                         if (lease) {
                           CHECK(lease->held());
                           CHECK(lease->release());
                           lease.reset();
                         }
                         held = same.acquire_for(10s);
                         REQUIRE(held);
                         server.command({"DEL", "{name}:~wait"});
                         release_soon();
                       });
  over = true;
  releaser.join();
}

TEST_CASE("whichever allocation fails, a release frees the lock at last") {
  RedisServer server;
  Client redis{server.uri()};
  Lock lock{redis, "name", {.ttl = 60s}};
  bool const by_destructor = GENERATE(false, true);
  bool const reconnects = GENERATE(false, true);
  std::optional<Lease> lease;
  auto const prepare = [&] {
    lease = lock.try_acquire();
    REQUIRE(lease);
    if (!reconnects) return;
    server.kill_clients();
    std::this_thread::sleep_for(20ms);
  };
  prepare();
  for_every_allocation(
      [&] {
        if (by_destructor)
          lease.reset();
        else
          static_cast<void>(lease->release());
      },
      [&](bool threw) {
        CHECK((!by_destructor || !threw));
        lease.reset();
        CHECK(wait_until([&] { return is_free(server, "name"); }, 5s));
        server.command({"DEL", "name"});
        prepare();
      });
}

TEST_CASE("a thread that gets no memory any more still has its lock released, by the library, though its own release fails") {
  RedisServer server;
  Client redis{server.uri(), {.command_timeout = 500ms}};
  Lock lock{redis, "name", {.ttl = 60s}};
  for (std::int64_t n = 0; n < 12; ++n) {
    CAPTURE(n);
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    server.kill_clients();  // a new connection needs memory
    std::this_thread::sleep_for(20ms);
    {
      AllocationsFailAfter const failing{n};
      lease.reset();
    }
    CHECK(wait_until([&] { return is_free(server, "name"); }, 10s));
    server.command({"DEL", "name"});
  }
}

TEST_CASE("while the library's own threads get no memory, held() stays honest and the process lives") {
  RedisServer server;
  std::atomic<int> events{0};
  Client redis{server.uri(), {.observer = [&](mortise::Event const&) { ++events; }}};
  Lock lock{redis, "name", {.ttl = 400ms}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  {
    OtherThreadsFail const failing;
    for (int i = 0; i < 80; ++i) {
      if (lease->held() && is_free(server, "name") && lease->held()) FAIL("held, and gone at the server");
      std::this_thread::sleep_for(10ms);
      if (i % 20 == 10) server.kill_clients();
    }
  }
  lease.reset();
  CHECK(wait_until([&] { return lock.try_acquire().has_value(); }, 5s));
}
