// SPDX-License-Identifier: MIT
// Readers and writers: who is in with whom, in what order, with what fence, and for how long.
#include <atomic>
#include <deque>
#include <thread>

#include "stores.hpp"

using namespace std::chrono_literals;
using mortise::Errc;
using mortise::Fence;
using mortise::Lease;
using mortise::SharedLock;
using support::Waiting;

TEMPLATE_TEST_CASE("readers are in together, and a writer alone", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  SharedLock other{store.other(), "lock"};
  auto one = lock.try_acquire_shared();
  auto two = other.try_acquire_shared();
  REQUIRE((one && two));
  CHECK_FALSE(lock.try_acquire());
  CHECK(one->release());
  CHECK_FALSE(other.try_acquire());
  CHECK(two->release());
  CHECK_FALSE(store.exists("lock"));
  auto writer = lock.try_acquire();
  REQUIRE(writer);
  CHECK_FALSE(other.try_acquire());
  CHECK_FALSE(other.try_acquire_shared());
  CHECK(writer->confirm());
  CHECK(writer->extend());
  CHECK(writer->release());
  CHECK_FALSE(store.exists("lock"));
}

TEMPLATE_TEST_CASE("each writer's fence is above all before, and a reader gets the fence of what it may read", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  SharedLock other{store.other(), "lock"};
  auto const untouched = lock.acquire_shared().fence();
  auto const first = lock.acquire().fence();
  CHECK(first > untouched);
  {
    auto const one = lock.acquire_shared();
    auto const two = other.acquire_shared();
    CHECK(one.fence() == first);
    CHECK(two.fence() == first);
  }
  CHECK(other.acquire().fence() > first);
}

TEMPLATE_TEST_CASE("a reader's lease ends at its own time, whatever other readers do", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock", {.ttl = TestType::ttl}};
  auto longer = lock.acquire_shared();
  auto shorter = SharedLock{store.other(), "lock", {.ttl = TestType::brief, .renew = false}}.acquire_shared();
  store.let_pass(TestType::brief);
  CHECK_FALSE(shorter.held());
  CHECK_FALSE(shorter.release());  // late: nothing happens
  CHECK(longer.held());
  CHECK(longer.confirm());  // a short reader has not shortened it
  CHECK_FALSE(lock.try_acquire());
  CHECK(longer.release());
  CHECK_FALSE(longer.release());
  CHECK(lock.try_acquire());
}

TEMPLATE_TEST_CASE("a writer gets in one TTL after a reader was abandoned, though another reader came and went", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock", {.ttl = TestType::ttl}};
  auto const abandoned = SharedLock{store.other(), "lock", {.ttl = TestType::brief, .renew = false}}.acquire_shared();
  auto alive = lock.acquire_shared();
  Waiting writer{[&] { return lock.acquire(); }};
  REQUIRE(writer.asleep());
  store.let_pass(TestType::brief);
  CHECK_FALSE(writer.over());
  CHECK(alive.release());
  CHECK(comes_true(store, [&] { return writer.over(); }));
  CHECK(writer.get().fence() > alive.fence());
}

TEMPLATE_TEST_CASE("nobody passes whoever waits: a writer behind readers, a reader behind that writer, a try behind both", "", InRedis,
                   InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  SharedLock other{store.other(), "lock"};
  auto reader = lock.acquire_shared();
  Waiting writer{[&] { return lock.acquire(); }};
  REQUIRE(writer.asleep());
  CHECK_FALSE(other.try_acquire_shared());
  CHECK_FALSE(other.try_acquire());
  Waiting late{[&] { return other.acquire_shared(); }};
  REQUIRE(late.asleep());
  CHECK_FALSE(writer.over());
  reader.release();
  auto lease = writer.get();
  CHECK(lease.held());
  CHECK_FALSE(late.over());
  lease.release();
  CHECK(late.get().fence() == lease.fence());
}

TEMPLATE_TEST_CASE("readers that wait behind each other enter together", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto writer = lock.acquire();
  constexpr int readers = 5;
  std::atomic<int> inside{0};
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < readers; ++i) {
    waiting.emplace_back([&, i] {
      SharedLock mine{i % 2 == 0 ? store.backend() : store.other(), "lock"};
      auto const lease = mine.acquire_shared();
      ++inside;
      return support::wait_until([&] { return inside == readers; }) && lease.held();  // nobody leaves before all are in
    });
    REQUIRE(waiting.back().asleep());
  }
  CHECK(inside == 0);
  writer.release();
  for (auto& one : waiting) CHECK(one.get());
}

TEMPLATE_TEST_CASE("a waiting writer that gives up lets the readers behind it in", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto const reader = lock.acquire_shared();
  std::stop_source stop;
  Waiting writer{[&] { return lock.acquire(stop.get_token()).has_value(); }};
  REQUIRE(writer.asleep());
  Waiting late{[&] { return SharedLock{store.other(), "lock"}.acquire_shared().held(); }};
  REQUIRE(late.asleep());
  stop.request_stop();
  CHECK_FALSE(writer.get());
  CHECK(late.get());
}

TEMPLATE_TEST_CASE("a waiting writer whose time is up is busy, and leaves nothing", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto reader = lock.acquire_shared();
  Waiting writer{[&] { return lock.acquire_for(200ms).has_value(); }};
  Waiting until{[&] { return lock.acquire_until(std::chrono::steady_clock::now() + 200ms).has_value(); }};
  REQUIRE(has_begun(store, writer));
  store.let_pass(200ms);
  CHECK_FALSE(writer.get());
  CHECK_FALSE(until.get());
  CHECK(lock.try_acquire_shared());
  reader.release();
  CHECK(lock.acquire_shared_for(1min));
  CHECK(lock.acquire_shared_until(std::chrono::system_clock::now() + 1min));
}

TEMPLATE_TEST_CASE("a writer that is downgraded goes on as a reader without a gap, with its fence, renewed", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock", {.ttl = TestType::ttl}};
  SharedLock other{store.other(), "lock"};
  auto lease = lock.acquire();
  auto const fence = lease.fence();
  Waiting rival{[&] { return other.acquire(); }};
  REQUIRE(rival.asleep());
  auto reader = lock.downgrade(std::move(lease));
  REQUIRE(reader);
  CHECK(reader->fence() == fence);
  for (int i = 0; i < 10; ++i) {
    store.let_pass(TestType::ttl / 2);
    REQUIRE(reader->held());
    REQUIRE_FALSE(rival.over());
  }
  CHECK(reader->confirm());
  CHECK(reader->release());
  CHECK(rival.get().fence() > fence);
}

TEMPLATE_TEST_CASE("a downgrade lets in the readers that wait next, and not those behind a writer", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  SharedLock other{store.other(), "lock"};
  auto lease = lock.acquire();
  Waiting next{[&] { return other.acquire_shared(); }};
  REQUIRE(next.asleep());
  Waiting writer{[&] { return other.acquire().held(); }};
  REQUIRE(writer.asleep());
  auto reader = lock.downgrade(std::move(lease));
  REQUIRE(reader);
  CHECK(next.get().fence() == reader->fence());
  CHECK_FALSE(writer.over());
  CHECK_FALSE(other.try_acquire_shared());
  reader->release();
  CHECK(writer.get());
}

TEMPLATE_TEST_CASE("only a writer's lease of this lock can be downgraded, and only while it is held", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock", {.ttl = TestType::brief, .renew = false}};
  SharedLock elsewhere{store.backend(), "elsewhere"};
  auto const refused = [&](Lease& lease) {
    return errc_of([&] { static_cast<void>(lock.downgrade(std::move(lease))); }) == Errc::invalid_option;
  };
  {
    auto foreign = elsewhere.acquire();
    CHECK(refused(foreign));
    CHECK(foreign.confirm());  // it is what it was
    auto moved = std::move(foreign);
    CHECK(refused(foreign));
  }
  {
    auto reader = elsewhere.acquire_shared();
    CHECK(errc_of([&] { static_cast<void>(elsewhere.downgrade(std::move(reader))); }) == Errc::invalid_option);
    CHECK(reader.confirm());
  }
  auto lease = elsewhere.acquire();
  auto reader = elsewhere.downgrade(std::move(lease));
  REQUIRE(reader);
  CHECK(errc_of([&] { static_cast<void>(elsewhere.downgrade(*std::move(reader))); }) == Errc::invalid_option);
  auto lost = lock.acquire();
  store.let_pass(TestType::brief);
  CHECK_FALSE(lock.downgrade(std::move(lost)));
}

TEMPLATE_TEST_CASE("a lost shared lock is told: erased by a foreign hand, it is not confirmed", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto reader = lock.acquire_shared();
  store.erase("lock");
  CHECK_FALSE(reader.confirm());
  CHECK_FALSE(reader.held());
  CHECK(comes_true(store, [&] { return reader.lost().stop_requested(); }));
  CHECK_FALSE(reader.release());
}

TEMPLATE_TEST_CASE("who waits for a shared lock is woken when the backend goes away", "", InRedis, InMemory) {
  TestType store;
  SharedLock lock{store.backend(), "lock"};
  auto const writer = lock.acquire();
  Waiting reader{[&] { return errc_of([&] { static_cast<void>(lock.acquire_shared()); }); }};
  REQUIRE(reader.asleep());
  store.close();
  CHECK(reader.get() == Errc::closed);
}
