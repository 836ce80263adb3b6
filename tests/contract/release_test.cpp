// SPDX-License-Identifier: MIT
// Releases: they tell whether there was something to release, and only ever give up what is still ours.
#include "stores.hpp"

using mortise::Fence;
using mortise::Lease;
using mortise::Lock;

TEMPLATE_TEST_CASE("a release is true once and false after that, and frees the lock at once", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  CHECK(lease.release());
  CHECK_FALSE(lease.held());
  CHECK(lease.remaining() == milliseconds{0});
  CHECK_FALSE(store.exists("lock"));
  CHECK_FALSE(lease.release());
  CHECK_FALSE(lease.confirm());
  CHECK_FALSE(lease.extend());
  CHECK(lease.fence() > Fence{});
  CHECK(lock.try_acquire());
}

TEMPLATE_TEST_CASE("a second release leaves the next holder alone", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto first = lock.acquire();
  CHECK(first.release());
  auto second = lock.acquire();
  CHECK_FALSE(first.release());
  CHECK(second.confirm());
}

TEMPLATE_TEST_CASE("a lease that goes out of scope releases", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  {
    auto const lease = lock.acquire();
    CHECK(store.exists("lock"));
  }
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("the late release of an expired lease leaves its successor alone", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  auto late = lock.acquire();
  store.let_pass(TestType::brief);
  auto successor = Lock{store.other(), "lock"}.acquire();
  CHECK_FALSE(late.release());
  CHECK(successor.confirm());
  CHECK(successor.release());
}

TEMPLATE_TEST_CASE("a release after a take-over is false and leaves the other's key alone", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  store.occupy("lock", TestType::ttl);
  CHECK_FALSE(lease.release());
  CHECK(store.exists("lock"));
}

TEMPLATE_TEST_CASE("a release after the key was deleted is false", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  store.erase("lock");
  CHECK_FALSE(lease.release());
}

TEMPLATE_TEST_CASE("a moved lease goes on under its new owner, and the moved-from one answers as one that holds nothing", "",
                   InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto first = lock.acquire();
  auto const fence = first.fence();
  auto const lost = first.lost();
  Lease second{std::move(first)};
  CHECK(second.held());
  CHECK(second.fence() == fence);
  CHECK(second.lost() == lost);

  CHECK_FALSE(first.held());  // NOLINT: what a moved-from lease answers is promised
  CHECK(first.remaining() == milliseconds{0});
  CHECK(first.fence() == Fence{});
  CHECK(first.name().empty());
  CHECK_FALSE(first.lost().stop_possible());
  CHECK_FALSE(first.confirm());
  CHECK_FALSE(first.extend());
  CHECK_FALSE(first.extend(milliseconds{100}));
  CHECK_FALSE(first.release());
  CHECK(second.confirm());
}

TEMPLATE_TEST_CASE("assigning to a lease releases what it held before, and keeps what it gets", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  auto lease = a.acquire();
  lease = b.acquire();
  CHECK_FALSE(store.exists("a"));
  CHECK(lease.name() == "b");
  CHECK(lease.confirm());
  auto& itself = lease;
  lease = std::move(itself);
  CHECK(lease.confirm());
}

TEMPLATE_TEST_CASE("a lease outlives its lock and its backend, and is held and released as before", "", InRedis, InMemory, InQuorum) {
  TestType store;
  std::optional<Lease> lease;
  {
    Lock lock{store.backend(), "lock"};
    lease = lock.try_acquire();
  }
  REQUIRE(lease);
  store.close();
  CHECK(lease->held());
  CHECK(lease->name() == "lock");
  CHECK(lease->confirm());
  CHECK(lease->extend());
  CHECK(lease->release());
}

TEMPLATE_TEST_CASE("a lease that is released later is not held from then on, and the lock is free soon", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  auto const lost = lease.lost();
  lease.release_later();
  CHECK_FALSE(lease.held());
  CHECK(lease.remaining() == milliseconds{0});
  CHECK(comes_true(store, [&] { return !store.exists("lock"); }));
  CHECK_FALSE(lost.stop_requested());
  lease.release_later();  // once more changes nothing
  auto next = lock.acquire();
  CHECK(next.fence() > lease.fence());
  CHECK_FALSE(lease.release());
  CHECK(next.confirm());
}

TEMPLATE_TEST_CASE("a waiter gets what is released later, also when lease and backend are gone by then", "", InRedis, InQuorum) {
  TestType store;
  std::optional<Lease> lease{Lock{store.backend(), "lock"}.acquire()};
  auto const before = lease->fence();
  support::Waiting<Fence> waiter{[&] { return Lock{store.other(), "lock"}.acquire().fence(); }};
  CHECK(waiter.asleep());
  lease->release_later();
  lease.reset();
  store.close();
  CHECK(waiter.get() > before);
}
