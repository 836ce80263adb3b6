// SPDX-License-Identifier: MIT
// Waiting with a deadline: a try at zero, in time when the turn comes, nothing when it does not, and no wrapping around.
#include <chrono>
#include <limits>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Clock;
using mortise::Lock;
using support::Waiting;

TEMPLATE_TEST_CASE("waiting for zero time or less is one try", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  {
    auto const lease = lock.acquire();
    CHECK_FALSE(lock.acquire_for(0ms));
    CHECK_FALSE(lock.acquire_for(-5s));
    CHECK_FALSE(lock.acquire_for(std::chrono::hours::min()));
    CHECK_FALSE(lock.acquire_for(milliseconds::min()));
    CHECK_FALSE(lock.acquire_until(std::chrono::steady_clock::now()));
    CHECK_FALSE(lock.acquire_until(std::chrono::steady_clock::time_point::min()));
    CHECK_FALSE(lock.acquire_until(std::chrono::system_clock::now() - 1h));
  }
  CHECK(lock.acquire_for(0ms));
  CHECK(lock.acquire_until(std::chrono::system_clock::now() - 1h));
}

TEMPLATE_TEST_CASE("a wait for a lock that nobody holds does not wait", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  CHECK(lock.acquire_for(1h));
  CHECK(lock.acquire_until(std::chrono::steady_clock::now() + 1h));
  CHECK(lock.acquire_until(std::chrono::system_clock::now() + 1h));
}

TEMPLATE_TEST_CASE("a wait ends with nothing at its deadline, and not before", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  constexpr auto patience = 400ms;
  auto const before = Clock::now();
  Waiting waiting{[&] { return lock.acquire_for(patience).has_value(); }};
  REQUIRE(has_begun(store, waiting));
  store.let_pass(patience);
  CHECK_FALSE(waiting.get());
  if constexpr (!std::is_same_v<TestType, InMemory>) CHECK(Clock::now() - before >= patience);
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(lock.try_acquire());
}

TEMPLATE_TEST_CASE("a wait gets the lock that is released before its deadline", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  Waiting for_a_while{[&] { return lock.acquire_for(1min); }};
  REQUIRE(for_a_while.asleep());
  CHECK(lease.release());
  auto second = for_a_while.get();
  REQUIRE(second);
  CHECK(second->fence() > lease.fence());

  Waiting until_a_time{[&] { return lock.acquire_until(std::chrono::system_clock::now() + 1min); }};
  REQUIRE(until_a_time.asleep());
  CHECK(second->release());
  auto third = until_a_time.get();
  REQUIRE(third);
  CHECK(third->fence() > second->fence());

  Waiting until_a_steady_time{[&] { return lock.acquire_until(std::chrono::steady_clock::now() + 1min); }};
  REQUIRE(until_a_steady_time.asleep());
  CHECK(third->release());
  CHECK(until_a_steady_time.get());
}

TEMPLATE_TEST_CASE("a wait gets the lock of a holder that let it expire", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock dying{store.other(), "lock", {.ttl = TestType::brief, .renew = false}};
  Lock lock{store.backend(), "lock"};
  auto const dead = dying.acquire();
  Waiting waiting{[&] { return lock.acquire(); }};
  CHECK(comes_true(store, [&] { return waiting.over(); }));
  CHECK(waiting.get().fence() > dead.fence());
}

TEMPLATE_TEST_CASE("a wait gets the lock of a foreign client that let it expire or whose key was deleted", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  bool const deleted = GENERATE(true, false);
  store.occupy("lock", deleted ? TestType::ttl * 1000 : TestType::brief * 4);
  CHECK_FALSE(lock.try_acquire());
  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(has_begun(store, waiting));
  if (deleted) store.erase("lock");
  CHECK(comes_true(store, [&] { return waiting.over(); }));
  CHECK(waiting.get().held());
}

TEMPLATE_TEST_CASE("the longest waits there are do not wrap around into the past", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto held = lock.acquire();
  auto const waits = [&](auto acquire) {
    Waiting waiting{[&] { return acquire(); }};
    CHECK(waiting.asleep());
    store.let_pass(50ms);
    CHECK_FALSE(waiting.over());
    CHECK(held.release());
    auto lease = waiting.get();
    CHECK(lease);
    if (lease) held = *std::move(lease);
  };
  waits([&] { return lock.acquire_for(std::chrono::hours::max()); });
  waits([&] { return lock.acquire_for(milliseconds::max()); });
  waits([&] { return lock.acquire_for(std::chrono::nanoseconds::max()); });
  waits([&] { return lock.acquire_for(std::chrono::duration<double>{1e300}); });
  waits([&] { return lock.acquire_for(std::chrono::duration<double>{std::numeric_limits<double>::infinity()}); });
  waits([&] { return lock.acquire_until(std::chrono::steady_clock::time_point::max()); });
  waits([&] { return lock.acquire_until(std::chrono::system_clock::time_point::max()); });
}

TEMPLATE_TEST_CASE("a wait of less than a millisecond is rounded up, not down to a try", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto const lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire_for(std::chrono::microseconds{400}).has_value(); }};
  CHECK(comes_true(store, [&] { return waiting.over(); }));
  CHECK_FALSE(waiting.get());
}
