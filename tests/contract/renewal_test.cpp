// SPDX-License-Identifier: MIT
// Renewal: by itself until the release, or for as long as was allowed.
#include "stores.hpp"

using mortise::Lock;

TEMPLATE_TEST_CASE("a lease is renewed by itself: after five TTLs it is still held, unseen by anybody in between", "", InRedis,
                   InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl}};
  auto lease = lock.acquire();
  auto const fence = lease.fence();
  store.let_pass(TestType::ttl * 5);
  CHECK(lease.held());
  CHECK(lease.confirm());
  CHECK(lease.fence() == fence);
  CHECK_FALSE(lease.lost().stop_requested());
  CHECK_FALSE(Lock{store.other(), "lock"}.try_acquire());
  CHECK(lease.release());
}

TEMPLATE_TEST_CASE("between two renewals the lease never drops below a third of its TTL", "", InRedis, InMemory, InQuorum) {
  TestType store;
  constexpr auto ttl = TestType::ttl * 3;
  Lock lock{store.backend(), "lock", {.ttl = ttl}};
  auto const lease = lock.acquire();
  auto least = lease.remaining();
  for (auto passed = milliseconds{0}; passed < ttl; passed += ttl / 60) {
    store.let_pass(ttl / 60);
    least = std::min(least, lease.remaining());
  }
  CHECK(least > ttl / 3);
}

TEMPLATE_TEST_CASE("a lease that is not to be renewed ends with its TTL", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  auto const lease = lock.acquire();
  store.let_pass(TestType::brief);
  CHECK_FALSE(lease.held());
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("max_hold ends the renewal, and the lease with the TTL that then runs", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .max_hold = TestType::ttl * 2}};
  auto const lease = lock.acquire();
  store.let_pass(TestType::ttl * 3 / 2);
  CHECK(lease.held());  // renewed at least once
  store.let_pass(TestType::ttl * 3 / 2 + milliseconds{5});
  CHECK_FALSE(lease.held());
  CHECK_FALSE(store.exists("lock"));
  CHECK(comes_true(store, [&] { return lease.lost().stop_requested(); }));
}

TEMPLATE_TEST_CASE("nothing is renewed after a release", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief}};
  auto lease = lock.acquire();
  lease.release();
  store.occupy("lock", TestType::brief);
  store.let_pass(TestType::brief);
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("many leases are renewed side by side", "", InRedis, InMemory, InQuorum) {
  TestType store;
  std::vector<mortise::Lease> leases;
  for (int i = 0; i < 300; ++i) leases.push_back(Lock{store.backend(), "lock" + std::to_string(i), {.ttl = TestType::ttl}}.acquire());
  store.let_pass(TestType::ttl * 3);
  for (auto& lease : leases) CHECK(lease.held());
  for (auto& lease : leases) CHECK(lease.release());
}

TEST_CASE("a renewal that is due takes along those that are due soon, and leaves the others until they are due") {
  InMemory store;
  constexpr auto ttl = InMemory::ttl;
  auto const acquired = [&](char const* name) { return Lock{store.backend(), name, {.ttl = ttl}}.acquire(); };
  auto const first = acquired("first");
  store.let_pass(milliseconds{90});
  auto const soon = acquired("soon");
  store.let_pass(milliseconds{60});
  auto const later = acquired("later");
  auto const fresh = [&](mortise::Lease const& lease) { return lease.remaining() > ttl - milliseconds{250}; };
  store.let_pass(ttl / 3 - milliseconds{160});
  CHECK_FALSE(fresh(first));
  CHECK_FALSE(fresh(soon));
  store.let_pass(milliseconds{15});  // the first is due
  CHECK(fresh(first));
  CHECK(fresh(soon));
  CHECK_FALSE(fresh(later));
  store.let_pass(milliseconds{150});
  CHECK(fresh(later));
}
