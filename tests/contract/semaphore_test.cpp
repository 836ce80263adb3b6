// SPDX-License-Identifier: MIT
// Permits: never more than there are, back one TTL after a death, first come first served; and what a name can be.
#include <atomic>
#include <deque>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Error;
using mortise::Fence;
using mortise::Lease;
using mortise::Lock;
using mortise::Semaphore;
using mortise::SharedLock;
using support::Waiting;

TEMPLATE_TEST_CASE("as many are in as there are permits, each with a higher fence", "", InRedis, InMemory) {
  TestType store;
  Semaphore permits{store.backend(), "permits", 3};
  CHECK(permits.permits() == 3);
  std::vector<Lease> in;
  Fence last{};
  for (int i = 0; i < 3; ++i) {
    in.push_back(i % 2 == 0 ? permits.acquire() : *Semaphore{store.other(), "permits", 3}.try_acquire());
    CHECK(in.back().fence() > last);
    last = in.back().fence();
  }
  CHECK_FALSE(permits.try_acquire());
  CHECK_FALSE(permits.acquire_for(0ms));
  for (auto& lease : in) CHECK(lease.confirm());
  CHECK(in[1].release());
  CHECK(permits.try_acquire()->fence() > last);
  in.clear();
  CHECK_FALSE(store.exists("permits"));
}

TEMPLATE_TEST_CASE("a late release, a second one and an unknown one change nothing", "", InRedis, InMemory) {
  TestType store;
  Semaphore brief{store.backend(), "permits", 2, {.ttl = TestType::brief, .renew = false}};
  Semaphore permits{store.other(), "permits", 2};
  auto late = brief.acquire();
  store.let_pass(TestType::brief);
  auto one = permits.try_acquire();
  auto two = permits.try_acquire();
  REQUIRE((one && two));
  CHECK_FALSE(late.held());
  CHECK_FALSE(late.release());
  CHECK_FALSE(permits.try_acquire());
  CHECK(two->release());
  CHECK_FALSE(two->release());
  CHECK(two.emplace(*permits.try_acquire()).held());
  CHECK_FALSE(permits.try_acquire());
  CHECK(one->confirm());
}

TEMPLATE_TEST_CASE("the permits of the dead are back after one TTL, those of the living are not", "", InRedis, InMemory) {
  TestType store;
  Semaphore permits{store.backend(), "permits", 3, {.ttl = TestType::ttl}};
  auto const alive = permits.acquire();
  Semaphore dying{store.other(), "permits", 3, {.ttl = TestType::brief, .renew = false}};
  auto const dead = dying.acquire();
  auto const too = dying.acquire();
  CHECK_FALSE(permits.try_acquire());
  store.let_pass(TestType::brief);
  auto const one = permits.try_acquire();
  auto const two = permits.try_acquire();
  CHECK((one && two));
  CHECK_FALSE(permits.try_acquire());
  CHECK(alive.held());
}

TEMPLATE_TEST_CASE("who waits for a permit is served in the order of arrival, before any try", "", InRedis, InMemory) {
  TestType store;
  Semaphore permits{store.backend(), "permits", 1};
  auto lease = permits.acquire();
  Waiting first{[&] { return Semaphore{store.backend(), "permits", 1}.acquire(); }};
  REQUIRE(first.asleep());
  Waiting second{[&] { return Semaphore{store.other(), "permits", 1}.acquire(); }};
  REQUIRE(second.asleep());
  CHECK_FALSE(permits.try_acquire());
  lease.release();
  auto next = first.get();
  CHECK(next.fence() > lease.fence());
  CHECK_FALSE(second.over());
  CHECK_FALSE(permits.try_acquire());
  next.release();
  CHECK(second.get().fence() > next.fence());
}

TEMPLATE_TEST_CASE("several permits that become free let in as many who wait", "", InRedis, InMemory) {
  TestType store;
  Semaphore permits{store.backend(), "permits", 3};
  std::vector<Lease> in;
  for (int i = 0; i < 3; ++i) in.push_back(permits.acquire());
  std::deque<Waiting<bool>> waiting;
  std::atomic<int> inside{0};
  for (int i = 0; i < 3; ++i)
    waiting.emplace_back([&, i] {
      auto const lease = Semaphore{i == 0 ? store.other() : store.backend(), "permits", 3}.acquire();
      ++inside;
      return support::wait_until([&] { return inside == 3; });
    });
  for (auto& one : waiting) REQUIRE(one.asleep());
  in.clear();
  for (auto& one : waiting) CHECK(one.get());
}

TEMPLATE_TEST_CASE("waiting for a permit ends by deadline and by stop, and leaves nothing", "", InRedis, InMemory) {
  TestType store;
  Semaphore permits{store.backend(), "permits", 1};
  auto lease = permits.acquire();
  std::stop_source stop;
  Waiting cancelled{[&] { return Semaphore{store.other(), "permits", 1}.acquire(stop.get_token()).has_value(); }};
  REQUIRE(cancelled.asleep());
  stop.request_stop();
  CHECK_FALSE(cancelled.get());
  Waiting late{[&] { return permits.acquire_for(200ms).has_value(); }};
  REQUIRE(has_begun(store, late));
  store.let_pass(200ms);
  CHECK_FALSE(late.get());
  lease.release();
  CHECK(permits.try_acquire());
  CHECK(permits.acquire_until(std::chrono::steady_clock::now() + 1min));
}

TEMPLATE_TEST_CASE("a disputed number of permits is told with both numbers, for as long as one is out", "", InRedis, InMemory) {
  TestType store;
  Semaphore three{store.backend(), "permits", 3};
  Semaphore five{store.other(), "permits", 5};
  auto lease = three.acquire();
  auto const refusal = [&](auto&& call) {
    try {
      static_cast<void>(call());
    } catch (Error const& error) {
      CHECK(error.errc() == Errc::server_refused);
      CHECK_FALSE(error.retryable());
      return std::string{error.what()};
    }
    return std::string{};
  };
  using support::contains;
  CHECK_THAT(refusal([&] { return five.try_acquire(); }), contains("in use with 3 permits, not 5 permits"));
  CHECK_THAT(refusal([&] { return five.acquire(); }), contains("in use with 3 permits, not 5 permits"));
  CHECK_THAT(refusal([&] { return SharedLock{store.backend(), "permits"}.try_acquire_shared(); }),
             contains("in use with 3 permits, not readers and writers"));
  CHECK(lease.confirm());
  lease.release();
  auto const now = five.try_acquire();
  CHECK(now);
  CHECK_THAT(refusal([&] { return three.try_acquire(); }), contains("in use with 5 permits, not 3 permits"));
}

TEMPLATE_TEST_CASE("a name is a mutex or a room, never both: whoever comes second is refused, and the first stays", "", InRedis, InMemory) {
  TestType store;
  {
    auto mutex = Lock{store.backend(), "name"}.acquire();
    CHECK(errc_of([&] { static_cast<void>(SharedLock{store.other(), "name"}.try_acquire_shared()); }) == Errc::wrong_type);
    CHECK(errc_of([&] { static_cast<void>(SharedLock{store.other(), "name"}.acquire()); }) == Errc::wrong_type);
    CHECK(errc_of([&] { static_cast<void>(Semaphore{store.other(), "name", 1}.acquire_for(1min)); }) == Errc::wrong_type);
    CHECK(mutex.confirm());
  }
  auto reader = SharedLock{store.backend(), "name"}.acquire_shared();
  CHECK(errc_of([&] { static_cast<void>(Lock{store.other(), "name"}.try_acquire()); }) == Errc::wrong_type);
  CHECK(errc_of([&] { static_cast<void>(Lock{store.other(), "name"}.acquire()); }) == Errc::wrong_type);
  CHECK(reader.confirm());
  CHECK(reader.release());
  CHECK(Lock{store.other(), "name"}.try_acquire());
}

TEMPLATE_TEST_CASE("zero and negative permits are refused, and the most there can be is not", "", InRedis, InMemory) {
  TestType store;
  for (int const wrong : {0, -1, std::numeric_limits<int>::min()})
    CHECK(errc_of([&] { Semaphore{store.backend(), "permits", wrong}; }) == Errc::invalid_option);
  CHECK(errc_of([&] { Semaphore{store.backend(), "permits", 1, {.ttl = 0ms}}; }) == Errc::invalid_option);
  CHECK(errc_of([&] { Semaphore{store.backend(), "", 1}; }) == Errc::invalid_option);
  CHECK(errc_of([&] { SharedLock{store.backend(), "x:~queue"}; }) == Errc::invalid_option);
  CHECK(Semaphore{store.backend(), "permits", std::numeric_limits<int>::max()}.try_acquire());
  CHECK_FALSE(store.exists("permits"));
}
