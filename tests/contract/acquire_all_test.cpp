// SPDX-License-Identifier: MIT
// Several locks: all or none, in whatever order they are named.
#include <algorithm>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Lock;
using mortise::LockSet;
using support::Waiting;

TEMPLATE_TEST_CASE("all locks are held together, each with a fence of its own, and released together", "", InRedis, InMemory, InQuorum) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  Lock c{store.backend(), "c"};
  auto const before = b.acquire().fence();
  auto all = acquire_all(c, a, b);
  CHECK(all.size() == 3);
  CHECK(all[0].name() == "c");
  CHECK(all[2].fence() > before);
  CHECK(all.fences().size() == 3);
  CHECK(all.held());
  CHECK(all.remaining() > 1s / 2);
  CHECK(all.confirm());
  CHECK(all.extend());
  for (auto const* name : {"a", "b", "c"}) CHECK_FALSE(Lock{store.other(), name}.try_acquire());
  CHECK(all.release());
  CHECK_FALSE(all.held());
  CHECK_FALSE(all.release());
  for (auto const* name : {"a", "b", "c"}) CHECK_FALSE(store.exists(name));
  {
    auto const kept = mortise::acquire_all(store.backend(), {"a", "b"}, {.ttl = TestType::ttl});
    auto const moved = LockSet{store.other(), {"x", "y"}}.acquire();
    CHECK(kept.held());
  }
  CHECK_FALSE(store.exists("a"));
}

TEMPLATE_TEST_CASE("if one of several locks is busy, none is taken", "", InRedis, InMemory) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  Lock c{store.backend(), "c"};
  auto const held = Lock{store.other(), "b"}.acquire();
  CHECK_FALSE(try_acquire_all(a, b, c));
  CHECK_FALSE(acquire_all_for(0ms, a, b, c));
  CHECK_FALSE(store.exists("a"));
  CHECK_FALSE(store.exists("c"));
  Waiting waiting{[&] { return acquire_all_for(TestType::step * 10, a, b, c).has_value(); }};
  REQUIRE(has_begun(store, waiting));
  CHECK(Lock{store.other(), "a"}.try_acquire());  // it holds nothing while it waits
  store.let_pass(TestType::step * 10);
  CHECK_FALSE(waiting.get());
  CHECK(held.held());
}

TEMPLATE_TEST_CASE("who waits for several locks gets them when the busy one is released", "", InRedis, InMemory) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  auto first = Lock{store.other(), "a"}.acquire();
  auto second = Lock{store.other(), "b"}.acquire();
  Waiting waiting{[&] { return acquire_all_until(std::chrono::steady_clock::now() + 1h, a, b); }};
  REQUIRE(waiting.asleep());
  first.release();
  CHECK(waiting.asleep());  // now for the other
  CHECK_FALSE(waiting.over());
  second.release();
  auto const all = waiting.get();
  REQUIRE(all);
  CHECK((*all)[0].fence() > first.fence());
  CHECK((*all)[1].fence() > second.fence());
}

TEMPLATE_TEST_CASE("waiting for several locks is cancelled by a stop, and nothing is left", "", InRedis, InMemory) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  auto held = Lock{store.other(), "b"}.acquire();
  std::stop_source stop;
  Waiting waiting{[&] { return acquire_all(stop.get_token(), a, b).has_value(); }};
  REQUIRE(waiting.asleep());
  stop.request_stop();
  CHECK_FALSE(waiting.get());
  held.release();
  CHECK(try_acquire_all(a, b));
}

TEMPLATE_TEST_CASE("several locks in any order, and guards over the same: nobody waits for ever, and counters are exact", "", InRedis,
                   InMemory) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  Lock c{store.backend(), "c"};
  constexpr int turns = 25;
  long count_a = 0;
  long count_c = 0;
  {
    auto const work = [&](auto& first, auto& second, auto& third) {
      for (int i = 0; i < turns; ++i) {
        auto const all = acquire_all(first, second, third);
        ++count_a;
        ++count_c;
      }
    };
    std::jthread const one{[&] { work(a, b, c); }};
    std::jthread const two{[&] { work(c, b, a); }};
    std::jthread const three{[&] { work(b, c, a); }};
    std::jthread const four{[&] {
      for (int i = 0; i < turns; ++i) {
        std::scoped_lock const both{c, a};
        ++count_a;
        ++count_c;
      }
    }};
  }
  CHECK(count_a == 4 * turns);
  CHECK(count_c == 4 * turns);
}

TEMPLATE_TEST_CASE("the loss of one of several leases is the loss of all", "", InRedis, InMemory) {
  TestType store;
  auto all = mortise::acquire_all(store.backend(), {"a", "b", "c"}, {.ttl = TestType::ttl});
  store.erase("b");
  CHECK(comes_true(store, [&] { return all.lost().stop_requested(); }));
  CHECK_FALSE(all.held());
  CHECK(all.remaining() == milliseconds::zero());
  CHECK(all[0].held());
  CHECK_FALSE(all.release());
  CHECK_FALSE(store.exists("a"));
}

TEMPLATE_TEST_CASE("a lock named twice, or none at all, is refused", "", InRedis, InMemory) {
  TestType store;
  Lock a{store.backend(), "a"};
  Lock same{store.backend(), "a"};
  Lock b{store.backend(), "b"};
  CHECK(errc_of([&] { static_cast<void>(acquire_all(a, b, same)); }) == Errc::invalid_option);
  CHECK(errc_of([&] { static_cast<void>(mortise::acquire_all(store.backend(), {"x", "y", "x"})); }) == Errc::invalid_option);
  CHECK(errc_of([&] { static_cast<void>(mortise::acquire_all(store.backend(), std::vector<std::string>{})); }) == Errc::invalid_option);
  CHECK(errc_of([&] { static_cast<void>(mortise::acquire_all(store.backend(), {"x", ""})); }) == Errc::invalid_option);
  CHECK_FALSE(store.exists("a"));
}
