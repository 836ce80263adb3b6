// SPDX-License-Identifier: MIT
// A released lock while others wait: it is reserved for the one who has waited longest, and who may take it instead, and when.
#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::RawClient;
using support::Waiting;

namespace {

/// A waiter that pops its reservation and then does nothing: between a BLPOP and its claim.
class SlowWaiter {
 public:
  explicit SlowWaiter(LockServer& redis) : client_{redis.socket_path()} {
    client_.send({"BLPOP", wake_key("lock"), "0"});
    REQUIRE(redis.has_blocked(1));
    redis.command({"SET", wait_key("lock"), "1", "PX", "3000"});
  }
  /// The fence it was given.
  std::string popped() { return client_.receive().items.at(1).text; }

 private:
  RawClient client_;
};

}  // namespace

TEST_CASE("a try never takes a lock that was given to a blocked waiter, as long as the reservation lasts") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  SlowWaiter waiter{redis};
  auto const before = Clock::now();
  CHECK(lease.release());
  auto const fence = waiter.popped();
  CHECK(redis.get("lock") == "h:" + fence);
  int tries = 0;
  std::optional<Lease> next;
  while (!(next = lock.try_acquire())) ++tries;
  CHECK(Clock::now() - before >= 450ms);  // the claim is half a second
  CHECK(tries > 1);
  CHECK(next->fence().value > std::stoull(fence));
}

TEST_CASE("a waiter that comes later does not take it either, and gets in when the reservation has lapsed") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  SlowWaiter waiter{redis};
  auto const before = Clock::now();
  CHECK(lease.release());
  auto const fence = waiter.popped();
  auto const next = Lock{client, "lock"}.acquire();
  CHECK(Clock::now() - before >= 450ms);
  CHECK(next.fence().value > std::stoull(fence));
}

TEST_CASE("a reservation that nobody was there to pop is anybody's") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  redis.command({"SET", wait_key("lock"), "1", "PX", "3000"});  // somebody waited, and has gone
  CHECK(lease.release());
  REQUIRE(redis.get("lock")->starts_with("h:"));
  bool const by_a_try = GENERATE(true, false);
  auto const next = by_a_try ? lock.try_acquire() : lock.acquire_for(1min);
  REQUIRE(next);
  CHECK("h:" + std::to_string(next->fence().value) > "h:" + std::to_string(lease.fence().value));
  CHECK_FALSE(redis.exists(wake_key("lock")));
}

TEST_CASE("a try takes a lock that does not exist although others wait, and a waiter takes its place behind them") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  redis.command({"SET", wait_key("lock"), "1", "PX", "60000"});
  {
    auto const lease = lock.try_acquire();
    CHECK(lease);
  }
  redis.command({"DEL", "lock", wake_key("lock")});
  CHECK(lock.acquire_for(1min));  // nudged at once, because nobody holds it
}

TEST_CASE("clients of their own get the lock in the order in which they began to wait") {
  LockServer redis;
  constexpr int waiters = 5;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  std::deque<Client> clients;
  std::deque<Waiting<Fence>> waiting;
  for (int i = 0; i < waiters; ++i) {
    auto& mine = clients.emplace_back(redis.unix_uri());
    waiting.emplace_back([&mine, i] { return i % 2 == 0 ? Lock{mine, "lock"}.acquire().fence() : Lock{mine, "lock"}.acquire_for(1h)->fence(); });
    REQUIRE(redis.has_blocked(i + 1));
  }
  CHECK(lease.release());
  Fence last = lease.fence();
  for (auto& one : waiting) {
    auto const fence = one.get();
    CHECK(fence > last);
    last = fence;
  }
}

TEST_CASE("a newcomer that will wait does not pass those who wait, though the lock is free for a moment") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client early{redis.unix_uri()};
  Client late{redis.unix_uri()};
  redis.command({"SET", "lock", "foreign", "PX", "600000"});
  Waiting first{[&] { return Lock{early, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.command({"DEL", "lock"});  // nobody tells the waiter; its next nudge will
  auto second = Waiting{[&] { return Lock{late, "lock"}.acquire().fence(); }};
  auto lease = first.get();
  lease.release();
  CHECK(second.get() > lease.fence());
}

TEST_CASE("a waiter whose wake element was lost is served by a nudge") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  Waiting waiting{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.flush_all();  // the lock, its line and all
  CHECK(waiting.over_within(10s));
  CHECK(waiting.get().held());
  CHECK_FALSE(lease.release());
}
