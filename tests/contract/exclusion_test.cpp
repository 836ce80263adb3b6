// SPDX-License-Identifier: MIT
// Exclusion: one holder at a time, busy is an answer, and fences rise from grant to grant.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "stores.hpp"

using mortise::Fence;
using mortise::Lock;

TEMPLATE_TEST_CASE("while one holds the lock, a try by anybody else is answered with nothing", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock ours{store.backend(), "lock"};
  Lock theirs{store.other(), "lock"};
  auto const lease = ours.try_acquire();
  REQUIRE(lease);
  CHECK(lease->held());
  CHECK_FALSE(theirs.try_acquire());
  CHECK_FALSE(ours.try_acquire());
  CHECK(lease->held());
}

TEMPLATE_TEST_CASE("of many threads that try at once, one wins", "", InRedis, InMemory, InQuorum) {
  TestType store;
  constexpr int tries = 8;
  std::vector<std::optional<mortise::Lease>> leases(tries);
  std::atomic<int> ready{0};
  {
    std::vector<std::jthread> threads;
    for (auto& lease : leases)
      threads.emplace_back([&] {
        Lock lock{&lease == &leases.front() ? store.other() : store.backend(), "lock"};
        for (++ready; ready < tries;) std::this_thread::yield();
        lease = lock.try_acquire();
      });
  }
  CHECK(std::count_if(leases.begin(), leases.end(), [](auto const& lease) { return lease.has_value(); }) == 1);
}

TEMPLATE_TEST_CASE("fences rise strictly from grant to grant, however the lease before ended", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock"};
  Fence last{};
  auto const next = [&](Lock<typename TestType::Backend>& from) {
    auto lease = from.acquire();
    CHECK(lease.fence() > last);
    CHECK(lease.fence().value < std::uint64_t{1} << 53);
    last = lease.fence();
    return lease;
  };
  for (int i = 0; i < 5; ++i) CHECK(next(lock).release());

  { auto const released_by_scope = next(lock); }
  {
    auto deleted = next(lock);
    store.erase("lock");
    CHECK(next(lock).release());
  }
  {
    auto overwritten = next(lock);
    store.occupy("lock", milliseconds{50});
    store.let_pass(milliseconds{50});
    CHECK(next(lock).release());
  }
  {
    Lock brief{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
    auto expired = next(brief);
    store.let_pass(TestType::brief);
    CHECK(next(lock).release());
  }
}

TEMPLATE_TEST_CASE("a lock remembers the name it was given", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock lock{store.backend(), "lock:invoice:42"};
  CHECK(lock.name() == "lock:invoice:42");
  CHECK(lock.acquire().name() == "lock:invoice:42");
}

TEMPLATE_TEST_CASE("an unguarded counter is exact when every thread works on it under the lock", "", InRedis, InMemory, InQuorum) {
  TestType store;
  constexpr int threads = 4;
  constexpr int turns = 50;
  long counter = 0;  // no atomic: ThreadSanitizer looks on
  std::vector<Fence> fences;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&] {
        Lock lock{store.backend(), "lock"};  // one of their own: only the store keeps them apart
        for (int turn = 0; turn < turns; ++turn) {
          auto lease = lock.acquire();
          ++counter;
          fences.push_back(lease.fence());
          lease.release();
        }
      });
  }
  CHECK(counter == threads * turns);
  CHECK(std::adjacent_find(fences.begin(), fences.end(), std::greater_equal<>{}) == fences.end());
}
