// SPDX-License-Identifier: MIT
// What a lease says of itself: held, remaining, confirm, extend.
#include "stores.hpp"

using mortise::Errc;
using mortise::Lock;

TEMPLATE_TEST_CASE("what remains of a lease shrinks, and is gone when the lease is", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto lease = lock.acquire();
  auto const first = lease.remaining();
  CHECK(first <= TestType::ttl - TestType::ttl / 100 - milliseconds{2});
  store.let_pass(TestType::ttl / 10);
  auto const second = lease.remaining();
  CHECK(second <= first - TestType::ttl / 10);
  store.let_pass(TestType::ttl);
  CHECK(lease.remaining() == milliseconds{0});
  CHECK_FALSE(lease.held());
}

TEMPLATE_TEST_CASE("a lease ends no later than its TTL, and before its key does", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto const lease = lock.acquire();
  bool held = true;
  bool exists = true;
  bool held_without_key = false;
  while (exists) {
    exists = store.exists("lock");
    held = lease.held();
    held_without_key |= held && !exists;
    store.let_pass(milliseconds{1});
  }
  CHECK_FALSE(held);
  CHECK_FALSE(held_without_key);
}

TEMPLATE_TEST_CASE("confirm is true while the lock is ours, and moves nothing", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto lease = lock.acquire();
  auto const before = lease.remaining();
  CHECK(lease.confirm());
  CHECK(lease.remaining() <= before);
  CHECK(lease.held());
}

TEMPLATE_TEST_CASE("confirm is false, and the lease lost, when the key was deleted or is another's", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.renew = false}};
  auto lease = lock.acquire();
  if (GENERATE(true, false))
    store.erase("lock");
  else
    store.occupy("lock", TestType::ttl);
  CHECK(lease.held());  // nobody has told us yet
  CHECK_FALSE(lease.confirm());
  CHECK_FALSE(lease.held());
  CHECK(lease.remaining() == milliseconds{0});
  CHECK_FALSE(lease.extend());
  CHECK(comes_true(store, [&] { return lease.lost().stop_requested(); }));
}

TEMPLATE_TEST_CASE("extend lengthens the lease to the lock's TTL from now", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto lease = lock.acquire();
  store.let_pass(TestType::ttl / 4);
  auto const before = lease.remaining();
  CHECK(lease.extend());
  CHECK(lease.remaining() > before);
  CHECK(lease.remaining() <= TestType::ttl);
}

TEMPLATE_TEST_CASE("extend to a longer TTL keeps the lease past its own", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto lease = lock.acquire();
  CHECK(lease.extend(TestType::ttl * 10));
  CHECK(lease.remaining() > TestType::ttl * 5);
  store.let_pass(TestType::ttl);
  CHECK(lease.held());
  CHECK(lease.confirm());
}

TEMPLATE_TEST_CASE("extend to a shorter TTL shortens nothing", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto lease = lock.acquire();
  CHECK(lease.extend(milliseconds{5}));
  CHECK(lease.remaining() > milliseconds{5});
  store.let_pass(milliseconds{20});
  CHECK(lease.held());
  CHECK(lease.confirm());
}

TEMPLATE_TEST_CASE("extensions do not add up", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::ttl, .renew = false}};
  auto lease = lock.acquire();
  for (int i = 0; i < 10; ++i) CHECK(lease.extend());
  CHECK(lease.remaining() <= TestType::ttl);
  store.let_pass(TestType::ttl);
  CHECK_FALSE(lease.held());
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("an expired lease never comes back", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  auto lease = lock.acquire();
  store.let_pass(TestType::brief);
  CHECK_FALSE(lease.held());
  CHECK_FALSE(lease.extend());
  CHECK_FALSE(lease.confirm());
  CHECK_FALSE(lease.held());
  CHECK_FALSE(lease.release());
}

TEMPLATE_TEST_CASE("extend to a TTL that no lock could have is refused", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  auto lease = lock.acquire();
  for (auto const ttl : {milliseconds{0}, milliseconds{-1}, milliseconds::min(), milliseconds::max()})
    CHECK(errc_of([&] { lease.extend(ttl); }) == Errc::invalid_option);
  CHECK(lease.confirm());
}
