// SPDX-License-Identifier: MIT
// Losses: a holder is told, once, when its lease ends without its doing, and never when it releases.
#include <atomic>
#include <stop_token>
#include <thread>

#include "stores.hpp"

using mortise::Lease;
using mortise::Lock;

TEMPLATE_TEST_CASE("lost() fires when a lease that nobody renews has expired, and held() is false by then", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  auto lease = lock.acquire();
  std::atomic<int> told{0};
  std::atomic<bool> still_held{false};
  std::stop_callback const callback{lease.lost(), [&] {
                                      still_held = lease.held();
                                      ++told;
                                    }};
  CHECK(comes_true(store, [&] { return told != 0; }));
  CHECK_FALSE(still_held);
  CHECK_FALSE(lease.held());
  CHECK(lease.lost().stop_requested());
  CHECK_FALSE(lease.release());
  store.let_pass(TestType::brief);
  CHECK(told == 1);
}

TEMPLATE_TEST_CASE("lost() fires while the TTL still runs when a renewal finds the key deleted or taken over", "", InRedis, InMemory, InQuorum) {
  TestType store;
  constexpr auto ttl = TestType::ttl * 4;
  Lock lock{store.backend(), "lock", {.ttl = ttl}};
  auto const lease = lock.acquire();
  if (GENERATE(true, false))
    store.erase("lock");
  else
    store.occupy("lock", ttl * 10);
  auto const deleted_at = mortise::Clock::now();
  CHECK(comes_true(store, [&] { return lease.lost().stop_requested(); }, ttl));
  CHECK_FALSE(lease.held());
  if constexpr (!std::is_same_v<TestType, InMemory>) CHECK(mortise::Clock::now() - deleted_at < ttl);
}

TEMPLATE_TEST_CASE("lost() does not fire for a release, by call or by scope, nor later", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief}};
  std::atomic<int> told{0};
  std::stop_token by_scope;
  {
    auto const lease = lock.acquire();
    by_scope = lease.lost();
  }
  auto lease = lock.acquire();
  std::stop_callback const callback{lease.lost(), [&] { ++told; }};
  lease.release();
  store.let_pass(TestType::brief * 2);
  // A stall longer than a whole TTL may have lost the lease before its release: then it was told, and that is right.
  if (!lease.lost().stop_requested()) CHECK(told == 0);
  if constexpr (std::is_same_v<TestType, InMemory>) {
    CHECK(told == 0);
    CHECK_FALSE(by_scope.stop_requested());
  }
}

TEMPLATE_TEST_CASE("a callback that is registered after the loss runs at once", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  store.erase("lock");
  CHECK_FALSE(lease.confirm());
  REQUIRE(comes_true(store, [&] { return lease.lost().stop_requested(); }));
  bool told = false;
  std::stop_callback const callback{lease.lost(), [&] { told = true; }};
  CHECK(told);
}

TEMPLATE_TEST_CASE("lost() follows a lease that was moved", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto first = lock.acquire();
  auto const lost = first.lost();
  auto second = std::make_unique<Lease>(std::move(first));
  store.erase("lock");
  CHECK_FALSE(second->confirm());
  CHECK(comes_true(store, [&] { return lost.stop_requested(); }));
}

TEMPLATE_TEST_CASE("the loss of one lease leaves all others alone", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  auto lost = a.acquire();
  auto kept = b.acquire();
  store.erase("a");
  CHECK_FALSE(lost.confirm());
  CHECK(comes_true(store, [&] { return lost.lost().stop_requested(); }));
  CHECK_FALSE(kept.lost().stop_requested());
  CHECK(kept.confirm());
}

TEMPLATE_TEST_CASE("a callback of lost() may take another lock and release its own lease", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  Lock other{store.backend(), "other"};
  auto lease = lock.acquire();
  std::atomic<bool> done{false};
  std::stop_callback const callback{lease.lost(), [&] {
                                      auto const inside = other.try_acquire();
                                      lease.release();
                                      done = inside.has_value();
                                    }};
  CHECK(comes_true(store, [&] { return done.load(); }));
}
