// SPDX-License-Identifier: MIT
// First come, first served.
#include <algorithm>
#include <deque>
#include <thread>
#include <vector>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Lock;
using support::Waiting;

TEMPLATE_TEST_CASE("threads get the lock in the order in which they began to wait", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  constexpr int waiters = 5;
  std::vector<int> order;
  std::mutex mutex;
  auto lease = lock.acquire();
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < waiters; ++i) {
    waiting.emplace_back([&, i] {
      auto const mine = i % 2 == 0 ? lock.acquire() : *Lock{store.backend(), "lock"}.acquire_for(1h);
      std::lock_guard const guard{mutex};
      order.push_back(i);
      return true;
    });
    REQUIRE(waiting.back().asleep());
  }
  CHECK(lease.release());
  for (auto& one : waiting) CHECK(one.get());
  CHECK(order == std::vector{0, 1, 2, 3, 4});
}

TEMPLATE_TEST_CASE("a try while others wait for a lock that is held gets nothing and disturbs nobody", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(waiting.asleep());
  for (int i = 0; i < 20; ++i) CHECK_FALSE(lock.try_acquire());
  CHECK(lease.release());
  CHECK(waiting.get().held());
}

TEMPLATE_TEST_CASE("whoever asks again right after its release goes to the end of the line", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(waiting.asleep());
  CHECK(lease.release());
  Waiting again{[&] { return lock.acquire(); }};
  auto first = waiting.get();
  CHECK(first.release());
  CHECK(again.get().fence() > first.fence());
}

TEMPLATE_TEST_CASE("waiters of different names do not wait for each other", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  auto held_a = a.acquire();
  auto held_b = b.acquire();
  Waiting for_a{[&] { return a.acquire(); }};
  REQUIRE(for_a.asleep());
  Waiting for_b{[&] { return b.acquire(); }};
  REQUIRE(for_b.asleep());
  CHECK(held_b.release());
  CHECK(for_b.get().held());
  CHECK_FALSE(for_a.over());
  CHECK(held_a.release());
  CHECK(for_a.get().held());
}

TEMPLATE_TEST_CASE("a waiter in line whose time runs out leaves the others their order", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  Waiting first{[&] { return lock.acquire(); }};
  REQUIRE(first.asleep());
  Waiting hasty{[&] { return lock.acquire_for(300ms).has_value(); }};
  REQUIRE(has_begun(store, hasty));
  Waiting last{[&] { return lock.acquire(); }};
  REQUIRE(last.asleep());
  CHECK(comes_true(store, [&] { return hasty.over(); }));
  CHECK_FALSE(hasty.get());
  CHECK(lease.release());
  auto second = first.get();
  CHECK_FALSE(last.over());
  CHECK(second.release());
  CHECK(last.get().fence() > second.fence());
}
