// SPDX-License-Identifier: MIT
// One Lock object used by several threads: exactly one of them is between lock() and unlock(), whatever became of the lease.
#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Fence;
using mortise::Lock;
using support::Waiting;

TEMPLATE_TEST_CASE("lease and fence are those of the thread that locked, and nobody else's", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  std::lock_guard const guard{lock};
  Waiting stranger{[&] { return std::pair{errc_of([&] { lock.lease(); }), errc_of([&] { lock.fence(); })}; }};
  auto const answers = stranger.get();
  CHECK(answers.first == Errc::not_held);
  CHECK(answers.second == Errc::not_held);
  CHECK(lock.lease().held());
}

TEMPLATE_TEST_CASE("an unlock by a thread that does not hold the lock does nothing", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  std::lock_guard const guard{lock};
  Waiting stranger{[&] {
    lock.unlock();
    return true;
  }};
  stranger.get();
  CHECK(lock.lease().held());
  CHECK(store.exists("lock"));
  CHECK_FALSE(Lock{store.backend(), "lock"}.try_lock());
}

TEMPLATE_TEST_CASE("threads take turns at a lock they share, and an unguarded counter is exact", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  constexpr int threads = 4;
  constexpr int turns = 50;
  long counter = 0;
  std::vector<Fence> fences;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&] {
        for (int turn = 0; turn < turns; ++turn) {
          std::lock_guard const guard{lock};
          ++counter;
          fences.push_back(lock.fence());
        }
      });
  }
  CHECK(counter == threads * turns);
  CHECK(std::adjacent_find(fences.begin(), fences.end(), std::greater_equal<>{}) == fences.end());
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("while one thread is inside, try_lock by another is false, even after the lease was lost", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  lock.lock();
  Waiting at_first{[&] { return lock.try_lock(); }};
  CHECK_FALSE(at_first.get());
  store.let_pass(TestType::brief);
  Waiting later{[&] { return lock.try_lock(); }};
  CHECK_FALSE(later.get());
  CHECK_FALSE(lock.lease().held());
  lock.unlock();
}

TEMPLATE_TEST_CASE("a thread that waits for a lock it shares gets in only after the unlock, though the lease was lost before", "",
                   InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  lock.lock();
  auto const fence = lock.fence();
  Waiting waiting{[&] {
    std::lock_guard const guard{lock};
    return lock.fence();
  }};
  REQUIRE(waiting.asleep());
  store.let_pass(TestType::brief * 2);
  CHECK_FALSE(waiting.over());
  CHECK_FALSE(lock.lease().held());
  lock.unlock();
  CHECK(waiting.get() > fence);
}

TEMPLATE_TEST_CASE("the late unlock of a lost lease never touches the lease of whoever came after", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  lock.lock();
  store.let_pass(TestType::brief);
  auto successor = Lock{store.other(), "lock"}.acquire();  // another process
  CHECK(successor.fence() > lock.fence());
  lock.unlock();
  CHECK(successor.confirm());
  CHECK(successor.release());
}

TEMPLATE_TEST_CASE("over and over: leases that are lost under shared locks, and no late unlock ever ends another's", "", InRedis,
                   InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  constexpr int rounds = 30;
  bool all_confirmed = true;
  Fence last{};
  bool rising = true;
  {
    auto const work = [&] {
      for (int i = 0; i < rounds; ++i) {
        lock.lock();
        rising = rising && lock.fence() > last;
        last = lock.fence();
        if (i % 3 != 0) {
          lock.unlock();
          continue;
        }
        // As if it had been lost and another process had come: the unlock below is too late.
        auto const fresh = [&] {
          store.erase("lock");
          return Lock{store.other(), "lock"}.try_acquire();
        };
        auto rival = fresh();
        if (rival) last = rival->fence();
        lock.unlock();
        if (rival) all_confirmed = all_confirmed && rival->confirm();
      }
    };
    std::jthread const one{work};
    std::jthread const two{work};
  }
  CHECK(all_confirmed);
  CHECK(rising);
}

// Threads in front of a Lock wait in real time, whatever clock its backend has.
TEMPLATE_TEST_CASE("a timed try at a lock that another thread is inside of ends at its deadline", "", InRedis) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  lock.lock();
  Waiting hasty{[&] { return lock.try_lock_for(500ms); }};
  REQUIRE(has_begun(store, hasty));
  CHECK(hasty.over_within(10s));
  lock.unlock();
  CHECK_FALSE(hasty.get());
}
