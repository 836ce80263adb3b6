// SPDX-License-Identifier: MIT
// Clients that know nothing of us: SET NX PX and compare-and-delete share the lock.
#include <atomic>

#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::RawClient;
using support::Waiting;

TEST_CASE("a lock taken by a raw SET NX PX is respected until it ends") {
  LockServer redis;
  RawClient foreigner{redis.socket_path()};
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  REQUIRE(foreigner.set_nx_px("lock", "somebody", 600));
  CHECK_FALSE(lock.try_acquire());
  CHECK_FALSE(lock.acquire_for(50ms));
  CHECK(redis.get("lock") == "somebody");
  auto const lease = lock.acquire_for(1min);
  REQUIRE(lease);
  CHECK(lease->held());
}

TEST_CASE("ours is seen by a foreign client, which can neither take nor delete it") {
  LockServer redis;
  RawClient foreigner{redis.socket_path()};
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  CHECK_FALSE(foreigner.set_nx_px("lock", "somebody", 1000));
  CHECK_FALSE(foreigner.compare_and_delete("lock", "somebody"));
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(foreigner.set_nx_px("lock", "somebody", 1000));
}

TEST_CASE("a foreign compare-and-delete frees the lock for our waiter within about a poll") {
  LockServer redis;
  RawClient foreigner{redis.socket_path()};
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  REQUIRE(foreigner.set_nx_px("lock", "somebody", 3'600'000));
  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  CHECK_FALSE(waiting.over_within(1500ms));  // nudges do not disturb it
  CHECK(foreigner.compare_and_delete("lock", "somebody"));
  auto const took = time_of([&] { return waiting.over_within(soon); });
  UNSCOPED_INFO("took " << took.count() / 1'000'000 << " ms");
  CHECK(took < 10s);
  CHECK(waiting.get().held());
}

TEST_CASE("a foreign lock without any expiry is respected, and waited for until it is deleted") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  redis.set("lock", "for ever");
  CHECK_FALSE(lock.try_acquire());
  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.command({"DEL", "lock"});
  CHECK(waiting.over_within(10s));
  CHECK(waiting.get().held());
}

TEST_CASE("whatever a foreign value looks like, somebody holds the lock") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto const value = GENERATE(values<std::string>({"", "h:", "h:foo", "h:1", "h:9007199254740991", "h:*", "H:1", "*", "#", "0", "label#"}));
  INFO("value " << value);
  {
    auto const lease = lock.acquire();  // so that there is a fence counter
  }
  redis.set("lock", value);
  CHECK_FALSE(lock.try_acquire());
  CHECK_FALSE(lock.try_acquire());
  CHECK_FALSE(lock.acquire_for(1200ms));  // nudged at least once
  CHECK(redis.get("lock") == value);
}

TEST_CASE("a foreign lock that is taken while ours are waiting goes before them, and is not disturbed") {
  LockServer redis;
  RawClient foreigner{redis.socket_path()};
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.command({"SET", "lock", "thief", "PX", "700"});  // over ours
  CHECK_FALSE(lease.release());
  CHECK_FALSE(waiting.over_within(100ms));
  CHECK(waiting.over_within(soon));
  CHECK(waiting.get().fence() > lease.fence());
}

TEST_CASE("foreign and own clients take turns on an unguarded number") {
  LockServer redis;
  RawClient foreigner{redis.socket_path()};
  Client client{redis.unix_uri()};
  constexpr int turns = 40;
  std::atomic<int> number{0};
  auto const add_one = [&] {  // in two steps: whoever comes between them is overwritten
    auto const seen = number.load();
    std::this_thread::sleep_for(1ms);
    number.store(seen + 1);
  };
  Waiting ours{[&] {
    for (int i = 0; i < turns; ++i) {
      auto const lease = Lock{client, "lock"}.acquire();
      add_one();
    }
    return true;
  }};
  for (int i = 0; i < turns; ++i) {
    while (!foreigner.set_nx_px("lock", "somebody", 60'000)) std::this_thread::yield();
    add_one();
    foreigner.compare_and_delete("lock", "somebody");
  }
  CHECK(ours.get());
  CHECK(number == 2 * turns);
}
