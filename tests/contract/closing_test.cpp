// SPDX-License-Identifier: MIT
// A backend that goes away: who waits is woken with Errc::closed, who holds goes on.
#include <chrono>
#include <deque>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Lock;
using support::Waiting;

TEMPLATE_TEST_CASE("a backend that is destroyed wakes everybody who waits, with Errc::closed", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  Lock other{store.backend(), "other"};
  auto lease = lock.acquire();
  auto const other_lease = other.acquire();
  using Ending = std::optional<Errc>;
  std::deque<Waiting<Ending>> waiting;
  auto const wait_by = [&](auto call) {
    waiting.emplace_back([call] { return errc_of(call); });
    REQUIRE(waiting.back().asleep());
  };
  wait_by([&] { static_cast<void>(lock.acquire()); });
  wait_by([&] { static_cast<void>(lock.acquire(std::stop_source{}.get_token())); });
  wait_by([&] { static_cast<void>(lock.acquire_for(1h)); });
  wait_by([&] { other.lock(); });
  store.close();
  for (auto& one : waiting) {
    CHECK(one.over_within(10s));
    CHECK(one.get() == Errc::closed);
  }
  CHECK(lease.confirm());
  CHECK(lease.release());
}

TEMPLATE_TEST_CASE("a lease whose backend has gone is renewed and lost as before", "", InRedis, InMemory, InQuorum) {
  TestType store;
  auto lease = Lock{store.backend(), "lock", {.ttl = TestType::ttl}}.acquire();
  if constexpr (!std::is_same_v<TestType, InMemory>) {
    store.close();
    store.let_pass(TestType::ttl * 2);
    CHECK(lease.held());
    store.erase("lock");
    CHECK(comes_true(store, [&] { return lease.lost().stop_requested(); }));
  } else {
    store.close();  // and the clock that could be moved has gone with it
    CHECK(lease.held());
  }
}

TEMPLATE_TEST_CASE("a backend may go while nobody uses it, and while leases are on their way out", "", InRedis, InMemory, InQuorum) {
  TestType store;
  std::vector<mortise::Lease> leases;
  for (int i = 0; i < 10; ++i) leases.push_back(Lock{store.backend(), std::to_string(i)}.acquire());
  store.close();
  leases.clear();
}
