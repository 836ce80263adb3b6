// SPDX-License-Identifier: MIT
// The thread that holds a recursive lock may lock it again; everybody else waits until the outermost unlock.
#include <mutex>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Lock;
using mortise::RecursiveLock;
using support::Waiting;

TEMPLATE_TEST_CASE("a recursive lock is locked as often as unlocked, with one fence, and released by the outermost unlock", "", InRedis,
                   InMemory, InQuorum) {
  TestType store;
  RecursiveLock lock{store.backend(), "lock"};
  RecursiveLock rival{store.other(), "lock"};
  std::unique_lock const outer{lock};
  auto const fence = lock.fence();
  {
    std::scoped_lock const inner{lock};
    CHECK(lock.try_lock());
    CHECK(lock.try_lock_for(1s));
    CHECK(lock.try_lock_until(std::chrono::steady_clock::now()));
    CHECK(lock.fence() == fence);
    for (int i = 0; i < 3; ++i) lock.unlock();
  }
  CHECK(lock.lease().held());
  CHECK(lock.fence() == fence);
  CHECK_FALSE(rival.try_lock());
  lock.unlock();
  CHECK_FALSE(store.exists("lock"));
  CHECK(errc_of([&] { static_cast<void>(lock.fence()); }) == Errc::not_held);
  lock.lock();  // for the guard
}

TEMPLATE_TEST_CASE("a recursive lock is a Lock to all others", "", InRedis, InMemory, InQuorum) {
  TestType store;
  RecursiveLock lock{store.backend(), "lock"};
  lock.lock();
  lock.lock();
  CHECK_FALSE(Lock{store.other(), "lock"}.try_acquire());
  lock.unlock();
  CHECK_FALSE(Lock{store.other(), "lock"}.try_acquire());
  lock.unlock();
  CHECK(Lock{store.other(), "lock"}.try_acquire());
}

TEMPLATE_TEST_CASE("another thread waits for a recursive lock until the outermost unlock, and cannot unlock it", "", InRedis, InMemory, InQuorum) {
  TestType store;
  RecursiveLock lock{store.backend(), "lock"};
  lock.lock();
  lock.lock();
  Waiting stranger{[&] {
    lock.unlock();
    bool const tried = lock.try_lock();
    lock.lock();
    auto const fence = lock.fence();
    lock.unlock();
    return std::pair{tried, fence};
  }};
  REQUIRE(stranger.asleep());
  auto const fence = lock.fence();
  lock.unlock();
  CHECK(lock.lease().held());
  CHECK_FALSE(stranger.over());
  lock.unlock();
  auto const [tried, later] = stranger.get();
  CHECK_FALSE(tried);
  CHECK(later > fence);
}

TEMPLATE_TEST_CASE("a re-entry does not touch the TTL, and goes on where the lease was lost", "", InRedis, InMemory, InQuorum) {
  TestType store;
  RecursiveLock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  lock.lock();
  auto const fence = lock.fence();
  store.let_pass(TestType::brief);
  lock.lock();
  CHECK_FALSE(lock.lease().held());
  CHECK(lock.fence() == fence);
  lock.unlock();
  lock.unlock();
  lock.unlock();
  CHECK(errc_of([&] { static_cast<void>(lock.fence()); }) == Errc::not_held);
  CHECK(Lock{store.other(), "lock"}.try_acquire());
}

TEMPLATE_TEST_CASE("a recursive lock is renewed until the outermost unlock", "", InRedis, InMemory, InQuorum) {
  TestType store;
  RecursiveLock lock{store.backend(), "lock", {.ttl = TestType::ttl}};
  std::lock_guard const outer{lock};
  {
    std::lock_guard const inner{lock};
  }
  for (int i = 0; i < 4; ++i) store.let_pass(TestType::ttl / 2);
  CHECK(lock.lease().held());
}
