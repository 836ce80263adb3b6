// SPDX-License-Identifier: MIT
// Cancellation by a stop token: prompt, and without a trace of the one who waited.
#include <chrono>
#include <stop_token>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Lock;
using support::Waiting;

TEMPLATE_TEST_CASE("a wait that was cancelled before it began takes nothing, though the lock is free", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  std::stop_source stop;
  stop.request_stop();
  CHECK_FALSE(lock.acquire(stop.get_token()));
  CHECK_FALSE(store.exists("lock"));
  CHECK(lock.try_acquire());
}

TEMPLATE_TEST_CASE("a wait that was cancelled before it began returns at once while somebody holds the lock", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  std::stop_source stop;
  stop.request_stop();
  CHECK_FALSE(lock.acquire(stop.get_token()));
  CHECK(lease.confirm());
}

TEMPLATE_TEST_CASE("a waiter that is cancelled leaves nothing behind: the next try after the release gets the lock", "", InRedis,
                   InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  std::stop_source stop;
  Waiting waiting{[&] { return lock.acquire(stop.get_token()).has_value(); }};
  REQUIRE(waiting.asleep());
  stop.request_stop();
  CHECK(waiting.over_within(support::soon));
  CHECK_FALSE(waiting.get());
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(Lock{store.other(), "lock"}.acquire_for(1min));
}

TEMPLATE_TEST_CASE("a waiter in the middle of the line that is cancelled is left out, and the others keep their order", "", InRedis,
                   InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  std::stop_source stop;
  Waiting first{[&] { return lock.acquire(); }};
  REQUIRE(first.asleep());
  Waiting cancelled{[&] { return lock.acquire(stop.get_token()).has_value(); }};
  REQUIRE(cancelled.asleep());
  Waiting last{[&] { return lock.acquire(); }};
  REQUIRE(last.asleep());

  stop.request_stop();
  CHECK(cancelled.over_within(support::soon));
  CHECK_FALSE(cancelled.get());
  CHECK(lease.release());
  auto second = first.get();
  CHECK_FALSE(last.over());
  CHECK(second.release());
  CHECK(last.get().fence() > second.fence());
}

TEMPLATE_TEST_CASE("when the first of the line is cancelled, the next one waits in its place", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  std::stop_source stop;
  Waiting cancelled{[&] { return lock.acquire(stop.get_token()).has_value(); }};
  REQUIRE(cancelled.asleep());
  Waiting next{[&] { return lock.acquire(); }};
  REQUIRE(next.asleep());
  stop.request_stop();
  CHECK(cancelled.over_within(support::soon));
  CHECK_FALSE(cancelled.get());
  CHECK(lease.release());
  CHECK(next.get().held());
}

TEMPLATE_TEST_CASE("a stop token that can never be stopped waits like no token at all", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire(std::stop_token{}); }};
  REQUIRE(waiting.asleep());
  CHECK(lease.release());
  CHECK(waiting.get());
}

TEMPLATE_TEST_CASE("a cancellation that races with the release costs nobody the lock", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  for (int round = 0; round < 20; ++round) {
    auto lease = lock.acquire();
    std::stop_source stop;
    Waiting waiting{[&] { return lock.acquire(stop.get_token()); }};
    Waiting canceller{[&] { return stop.request_stop(); }};
    lease.release();
    canceller.get();
    if (auto const won = waiting.get())
      CHECK_FALSE(lock.try_acquire());
    else
      CHECK(comes_true(store, [&] { return lock.try_acquire().has_value(); }));
  }
}
