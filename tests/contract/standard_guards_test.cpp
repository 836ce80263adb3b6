// SPDX-License-Identifier: MIT
// The face of a standard mutex: guards, timed tries, two locks at once, and the deadlock that is refused.
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Fence;
using mortise::Lock;
using support::Waiting;
using support::refused_as_deadlock;

TEMPLATE_TEST_CASE("lock_guard, unique_lock and scoped_lock hold the lock in their scope", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  Lock rival{store.other(), "lock"};
  Fence last{};
  auto const is_held = [&] {
    CHECK(lock.lease().held());
    CHECK(lock.fence() > last);
    CHECK(lock.lease().fence() == lock.fence());
    last = lock.fence();
    return !rival.try_lock();
  };
  {
    std::lock_guard const guard{lock};
    CHECK(is_held());
  }
  CHECK_FALSE(store.exists("lock"));
  {
    std::unique_lock guard{lock};
    CHECK(is_held());
    guard.unlock();
    CHECK_FALSE(store.exists("lock"));
    guard.lock();
    CHECK(is_held());
  }
  CHECK_FALSE(store.exists("lock"));
  {
    std::scoped_lock const guard{lock};
    CHECK(is_held());
  }
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("unique_lock waits, tries, and tries for a while", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  Lock rival{store.other(), "lock"};
  {
    std::unique_lock const guard{lock, std::try_to_lock};
    CHECK(guard.owns_lock());
    CHECK_FALSE(std::unique_lock{rival, std::try_to_lock}.owns_lock());
    CHECK_FALSE(std::unique_lock{rival, 0ms}.owns_lock());
    CHECK_FALSE(std::unique_lock{rival, std::chrono::system_clock::now() - 1s}.owns_lock());
  }
  CHECK(std::unique_lock{rival, 1min}.owns_lock());
  CHECK(std::unique_lock{rival, std::chrono::steady_clock::now() + 1min}.owns_lock());
}

TEMPLATE_TEST_CASE("try_lock_for waits for its turn and gives up at its deadline", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  lock.lock();
  Waiting hasty{[&] { return Lock{store.backend(), "lock"}.try_lock_for(300ms); }};
  REQUIRE(has_begun(store, hasty));
  store.let_pass(300ms);
  CHECK_FALSE(hasty.get());
  Lock patient{store.backend(), "lock"};
  Waiting waiting{[&] {
    bool const got = patient.try_lock_for(1min);
    if (got) patient.unlock();
    return got;
  }};
  REQUIRE(waiting.asleep());
  lock.unlock();
  CHECK(waiting.get());
}

TEMPLATE_TEST_CASE("a guard that waits gets the lock when it is unlocked", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  Lock rival{store.other(), "lock"};
  lock.lock();
  auto const fence = lock.fence();
  Waiting waiting{[&] {
    std::scoped_lock const guard{rival};
    return rival.fence();
  }};
  REQUIRE(waiting.asleep());
  lock.unlock();
  CHECK(waiting.get() > fence);
}

TEMPLATE_TEST_CASE("scoped_lock over two locks is free of deadlocks, in whatever order they are named", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  constexpr int turns = 25;
  int count = 0;
  {
    auto const work = [&](auto& first, auto& second) {
      for (int i = 0; i < turns; ++i) {
        std::scoped_lock const both{first, second};
        ++count;
      }
    };
    std::jthread const forth{[&] { work(a, b); }};
    std::jthread const back{[&] { work(b, a); }};
  }
  CHECK(count == 2 * turns);
  CHECK_FALSE(store.exists("a"));
  CHECK_FALSE(store.exists("b"));
}

TEMPLATE_TEST_CASE("a second lock by the thread that holds it is refused as a deadlock, and the first stays", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  std::unique_lock const guard{lock};
  auto const fence = lock.fence();
  CHECK(refused_as_deadlock([&] { lock.lock(); }));
  CHECK(refused_as_deadlock([&] { std::lock_guard const again{lock}; }));
  CHECK(refused_as_deadlock([&] { return lock.try_lock_for(1min); }));
  CHECK_FALSE(lock.try_lock());
  CHECK(lock.fence() == fence);
  CHECK(lock.lease().held());
}

TEMPLATE_TEST_CASE("a lock() whose lease was lost is still a lock(): locking again is a deadlock, unlock ends it", "", InRedis,
                   InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  lock.lock();
  store.let_pass(TestType::brief);
  CHECK_FALSE(lock.lease().held());
  CHECK(lock.fence() == lock.lease().fence());
  CHECK(refused_as_deadlock([&] { lock.lock(); }));
  lock.unlock();
  CHECK(errc_of([&] { lock.fence(); }) == Errc::not_held);
  lock.lock();
  lock.unlock();
}

TEMPLATE_TEST_CASE("lease and fence of a lock that is not held are refused", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  CHECK(errc_of([&] { lock.lease(); }) == Errc::not_held);
  CHECK(errc_of([&] { lock.fence(); }) == Errc::not_held);
  auto const lease = lock.acquire();  // by the other face: that lease is the caller's
  CHECK(errc_of([&] { lock.fence(); }) == Errc::not_held);
}

TEMPLATE_TEST_CASE("unlocking what is not locked does nothing", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  lock.unlock();
  auto lease = lock.acquire();
  lock.unlock();
  CHECK(lease.confirm());
}
