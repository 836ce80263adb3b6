// SPDX-License-Identifier: MIT
// The face of std::shared_mutex: guards, threads, the deadlocks that are refused, and unlocking what is not locked.
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Fence;
using mortise::SharedLock;
using support::Waiting;
using support::refused_as_deadlock;

TEMPLATE_TEST_CASE("shared_lock and unique_lock hold a shared lock in their scope", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  SharedLock rival{store.other(), "lock"};
  {
    std::shared_lock const guard{lock};
    CHECK(lock.lease().held());
    CHECK(lock.fence() == lock.lease().fence());
    CHECK_FALSE(rival.try_lock());
    CHECK(std::shared_lock{rival, std::try_to_lock}.owns_lock());
    CHECK(std::shared_lock{rival, 1min}.owns_lock());
    CHECK_FALSE(std::unique_lock{rival, 0ms}.owns_lock());
  }
  CHECK_FALSE(store.exists("lock"));
  {
    std::unique_lock const guard{lock};
    CHECK_FALSE(rival.try_lock_shared());
    CHECK_FALSE(std::shared_lock{rival, std::chrono::steady_clock::now() - 1s}.owns_lock());
  }
  CHECK_FALSE(store.exists("lock"));
  {
    std::scoped_lock const guard{lock};
    CHECK_FALSE(rival.try_lock());
  }
  CHECK(std::unique_lock{rival, std::chrono::steady_clock::now() + 1min}.owns_lock());
}

TEMPLATE_TEST_CASE("threads read a shared lock together, each by its own lease", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  lock.lock_shared();
  Waiting other{[&] {
    std::shared_lock const guard{lock};
    return lock.lease().held();
  }};
  CHECK(other.get());
  CHECK(lock.lease().held());
  Waiting writer{[&] { return lock.try_lock(); }};
  CHECK_FALSE(writer.get());
  lock.unlock_shared();
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("to lock again what the thread holds already is refused at once, in every combination", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto const all_refused = [&] {
    CHECK(refused_as_deadlock([&] { lock.lock(); }));
    CHECK(refused_as_deadlock([&] { lock.lock_shared(); }));
    CHECK(refused_as_deadlock([&] { static_cast<void>(lock.try_lock_for(1min)); }));
    CHECK(refused_as_deadlock([&] { static_cast<void>(lock.try_lock_shared_for(1min)); }));
    CHECK_FALSE(lock.try_lock());
    CHECK_FALSE(lock.try_lock_shared());
    CHECK(lock.lease().held());
  };
  lock.lock_shared();
  all_refused();
  lock.unlock_shared();
  lock.lock();
  all_refused();
  lock.unlock();
}

TEMPLATE_TEST_CASE("two readers that both want to write are both refused, and go on reading", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto const upgrade = [&] {
    std::shared_lock const guard{lock};
    return refused_as_deadlock([&] { lock.lock(); }) && lock.lease().held();
  };
  Waiting one{upgrade};
  Waiting two{upgrade};
  CHECK(one.get());
  CHECK(two.get());
}

TEMPLATE_TEST_CASE("unlocking a shared lock that is not held, or is held the other way, does nothing", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  lock.unlock();
  lock.unlock_shared();
  lock.lock();
  lock.unlock_shared();
  Waiting stranger{[&] {
    lock.unlock();
    lock.unlock_shared();
    return errc_of([&] { static_cast<void>(lock.lease()); });
  }};
  CHECK(stranger.get() == Errc::not_held);
  CHECK(lock.lease().held());
  CHECK_FALSE(SharedLock{store.other(), "lock"}.try_lock_shared());
  lock.unlock();
  lock.unlock();
  CHECK(errc_of([&] { static_cast<void>(lock.fence()); }) == Errc::not_held);
  lock.lock_shared();
  lock.unlock();
  CHECK(lock.lease().held());
  lock.unlock_shared();
}

TEMPLATE_TEST_CASE("a guard that writes can go on as a guard that reads", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  SharedLock rival{store.other(), "lock"};
  std::unique_lock writing{lock};
  auto const fence = lock.fence();
  {
    auto const reading = lock.downgrade(std::move(writing));
    CHECK_FALSE(writing.owns_lock());
    CHECK(reading.owns_lock());
    CHECK(lock.fence() == fence);
    CHECK(lock.lease().held());
    CHECK_FALSE(rival.try_lock());
    CHECK(std::shared_lock{rival, std::try_to_lock}.owns_lock());
    CHECK(errc_of([&] { lock.unlock_and_lock_shared(); }) == Errc::not_held);
  }
  CHECK_FALSE(store.exists("lock"));
  CHECK(errc_of([&] { static_cast<void>(lock.downgrade(std::unique_lock{lock, std::defer_lock})); }) == Errc::invalid_option);
}

TEMPLATE_TEST_CASE("threads that share a lock never meet a writer inside, even one whose lease was lost", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  lock.lock();
  store.let_pass(TestType::brief);
  CHECK_FALSE(lock.lease().held());
  Waiting hasty{[&] { return lock.try_lock_shared(); }};
  CHECK_FALSE(hasty.get());
  lock.unlock();
  Waiting later{[&] {
    std::shared_lock const guard{lock, std::try_to_lock};
    return guard.owns_lock();
  }};
  CHECK(later.get());
}

TEMPLATE_TEST_CASE("threads read and write under guards, and the counter is exact", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  constexpr int threads = 4;
  constexpr int turns = 30;
  long counter = 0;
  std::atomic<bool> torn{false};
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&] {
        for (int turn = 0; turn < turns; ++turn) {
          {
            std::shared_lock const guard{lock};
            if (counter % 2 != 0) torn = true;
          }
          std::lock_guard const guard{lock};
          ++counter;
          ++counter;
        }
      });
  }
  CHECK(counter == 2 * threads * turns);
  CHECK_FALSE(torn);
  CHECK_FALSE(store.exists("lock"));
}
