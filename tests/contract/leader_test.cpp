// SPDX-License-Identifier: MIT
// One leader at a time: it works until it is told to stop, hands over at once, and is told of a loss.
#include <atomic>
#include <stdexcept>
#include <stop_token>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Fence;
using mortise::Leader;
using mortise::Lock;
using support::wait_until;
using support::Waiting;

TEMPLATE_TEST_CASE("a leader works until it is told to stop, and the next takes over at once", "", InRedis, InMemory) {
  TestType store;
  std::stop_source stop;
  std::atomic<int> leading{0};
  std::atomic<std::uint64_t> first{0};
  auto const work = [&](std::stop_token over, Fence fence) {
    ++leading;
    if (first == 0) first = fence.value;
    return wait_until([&] { return over.stop_requested(); });
  };
  Waiting one{[&] { return Leader{store.backend(), "lead"}.run(work, stop.get_token()); }};
  REQUIRE(wait_until([&] { return leading == 1; }));
  std::stop_source later;
  std::atomic<std::uint64_t> second{0};
  Waiting two{[&] {
    return Leader{store.other(), "lead"}.run(
        [&](std::stop_token over, Fence fence) {
          second = fence.value;
          return wait_until([&] { return over.stop_requested(); });
        },
        later.get_token());
  }};
  REQUIRE(two.asleep());
  CHECK(second == 0);
  stop.request_stop();
  CHECK(one.get());
  REQUIRE(wait_until([&] { return second != 0; }));
  CHECK(second > first);
  later.request_stop();
  CHECK(two.get());
  CHECK(comes_true(store, [&] { return !store.exists("lead"); }));
}

TEMPLATE_TEST_CASE("work that ends by itself ends the term, and what it throws comes out", "", InRedis, InMemory) {
  TestType store;
  Leader leader{store.backend(), "lead"};
  CHECK(leader.run([](std::stop_token, Fence) {}));
  CHECK_FALSE(store.exists("lead"));
  CHECK_THROWS_AS(leader.run([](std::stop_token, Fence) { throw std::runtime_error{"work"}; }), std::runtime_error);
  CHECK_FALSE(store.exists("lead"));
}

TEMPLATE_TEST_CASE("who is told to stop before being elected never works", "", InRedis, InMemory) {
  TestType store;
  auto const held = Lock{store.other(), "lead"}.acquire();
  std::stop_source stop;
  Waiting candidate{[&] { return Leader{store.backend(), "lead"}.run([](std::stop_token, Fence) { FAIL(); }, stop.get_token()); }};
  REQUIRE(candidate.asleep());
  stop.request_stop();
  CHECK_FALSE(candidate.get());
}

TEMPLATE_TEST_CASE("a leader that lost its lease is told, and stands again", "", InRedis, InMemory) {
  TestType store;
  std::atomic<int> terms{0};
  std::atomic<bool> told{false};
  Waiting leader{[&] {
    return Leader{store.backend(), "lead", {.ttl = TestType::ttl}}.run([&](std::stop_token over, Fence) {
      if (++terms == 1) told = wait_until([&] { return over.stop_requested(); });
    });
  }};
  REQUIRE(wait_until([&] { return terms == 1; }));
  store.erase("lead");
  CHECK(comes_true(store, [&] { return leader.over(); }));
  CHECK(leader.get());
  CHECK(told);
  CHECK(terms == 2);
}
