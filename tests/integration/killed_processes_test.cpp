// SPDX-License-Identifier: MIT
// Processes that die by kill -9: what they held is free within their TTL, and nobody waits behind the dead.
#include "lock_server.hpp"
#include "support/processes.hpp"
#include "support/waiting.hpp"

using support::Channel;
using support::ChildProcess;
using support::Waiting;

namespace {

constexpr milliseconds ttl = 1s;
constexpr milliseconds slack = 5s;  // of a busy machine; the protocol's own is a timer and a round trip

/// A process that takes the lock, says so, and then holds it, renewing, until it is killed.
auto holder(LockServer& redis) {
  return [&redis](Channel& parent) {
    Client client{redis.unix_uri()};
    auto const lease = Lock{client, "lock", {.ttl = ttl}}.acquire();
    parent.send_line(std::to_string(lease.fence().value));
    parent.read_line(1h);
    return 0;
  };
}

}  // namespace

TEST_CASE("when a holder is killed, the first of its waiters is in within the TTL and a slack, and then the next") {
  LockServer redis;
  ChildProcess victim{holder(redis)};
  auto const fence = victim.read_line();
  REQUIRE(fence);
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  Waiting first{[&] { return Lock{client, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  Waiting second{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(2));
  std::this_thread::sleep_for(ttl + 200ms);  // renewed at least twice
  CHECK_FALSE(first.over());

  victim.kill();
  auto const took = time_of([&] { return first.over_within(ttl + slack); });
  UNSCOPED_INFO("take-over after " << took.count() / 1'000'000 << " ms, TTL " << ttl.count() << " ms");
  CHECK(took < ttl + slack);
  auto lease = first.get();
  CHECK(lease.fence().value > std::stoull(*fence));
  CHECK_FALSE(second.over());
  CHECK(lease.release());
  CHECK(second.get().fence() > lease.fence());
}

TEST_CASE("when the first waiter is killed, the second gets in with the release") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  ChildProcess victim{holder(redis)};
  REQUIRE(redis.has_blocked(1));
  Client other{redis.unix_uri()};
  Waiting second{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(2));
  victim.kill();
  REQUIRE(redis.has_blocked(1));  // the server has seen it go
  CHECK(lease.release());
  auto const took = time_of([&] { return second.over_within(soon); });
  UNSCOPED_INFO("in after " << took.count() / 1'000'000 << " ms");
  CHECK(second.get().fence() > lease.fence());
}

TEST_CASE("when the first waiter is stopped, it costs the others no more than the short lease of its hand-off") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  ChildProcess stopped{holder(redis)};
  REQUIRE(redis.has_blocked(1));
  Client other{redis.unix_uri()};
  Waiting second{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(2));
  stopped.freeze();
  CHECK(lease.release());
  auto const took = time_of([&] { return second.over_within(2s + slack); });
  UNSCOPED_INFO("in after " << took.count() / 1'000'000 << " ms");
  CHECK(took < 2s + slack);
  auto const next = second.get();
  CHECK(next.fence() > lease.fence());
  stopped.thaw();
  CHECK_FALSE(stopped.read_line(300ms));  // it has found that its grant is over, and waits again
}

TEST_CASE("when a whole line of processes is killed, a later one gets in with the release, and nothing is left") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  {
    ChildProcess one{holder(redis)};
    ChildProcess two{holder(redis)};
    ChildProcess three{holder(redis)};
    REQUIRE(redis.has_blocked(3));
  }
  REQUIRE(redis.has_blocked(0));
  CHECK(lease.release());
  CHECK(Lock{client, "lock"}.acquire_for(10s));
  CHECK(wait_until([&] { return redis.keys() == std::vector<std::string>{fence_key("lock")}; }, 10s));
}

TEST_CASE("a process that ends without a release, by exit, leaves its lock to the TTL") {
  LockServer redis;
  ChildProcess sloppy{[&] {
    Client client{redis.unix_uri()};
    auto const lease = Lock{client, "lock", {.ttl = ttl}}.acquire();
    ::_exit(0);
    return 0;
  }};
  CHECK(sloppy.wait());
  Client client{redis.unix_uri()};
  CHECK(redis.exists("lock"));
  CHECK(Lock{client, "lock"}.acquire_for(ttl + slack));
}
