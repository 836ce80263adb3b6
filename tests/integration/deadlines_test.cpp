// SPDX-License-Identifier: MIT
// When calls end: waits at their deadline, max_hold with the TTL that then runs, and a second call after an unanswered one.
#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

/// The shortest of some runs: what the library needs, and not what the machine was busy with.
template <class Call>
mortise::nanoseconds shortest_time_of(Call&& call) {
  auto shortest = time_of(call);
  for (int i = 0; i < 4; ++i) shortest = std::min(shortest, time_of(call));
  return shortest;
}

}  // namespace

TEST_CASE("a wait with a deadline never ends before it, and at most 50 ms behind it") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto const lease = lock.acquire();
  auto const patience = GENERATE(values<milliseconds>({1ms, 40ms, 250ms}));
  auto const relative = shortest_time_of([&] { return lock.acquire_for(patience).has_value(); });
  CHECK(relative >= patience);
  CHECK(relative <= patience + 50ms);
  auto const steady = shortest_time_of([&] { return lock.acquire_until(std::chrono::steady_clock::now() + patience).has_value(); });
  CHECK(steady >= patience);
  CHECK(steady <= patience + 50ms);
  auto const behind_another = [&] {
    std::stop_source stop;
    Waiting first{[&] { return lock.acquire(stop.get_token()).has_value(); }};
    REQUIRE(redis.has_blocked(1));
    auto const took = time_of([&] { return lock.acquire_for(patience).has_value(); });
    stop.request_stop();
    first.get();
    return took;
  };
  auto const in_line = std::min({behind_another(), behind_another(), behind_another()});
  CHECK(in_line >= patience);
  CHECK(in_line <= patience + 50ms);
}

TEST_CASE("after a wait that timed out nothing of it is left: whoever comes next gets the lock with the release") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  for (int i = 0; i < 5; ++i) CHECK_FALSE(Lock{other, "lock"}.acquire_for(30ms));
  CHECK(redis.has_blocked(0));
  CHECK(lease.release());
  CHECK(Lock{other, "lock"}.acquire_for(10s));
}

TEST_CASE("max_hold ends the renewal at the server too") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto const began = Clock::now();
  auto const lease = Lock{client, "lock", {.ttl = 1s, .max_hold = 1500ms}}.acquire();
  REQUIRE(wait_until([&] { return !redis.exists("lock"); }));
  auto const lasted = Clock::now() - began;
  CHECK(lasted > 1500ms);
  CHECK(lasted < 10s);
  CHECK_FALSE(lease.held());
  CHECK(wait_until([&] { return lease.lost().stop_requested(); }));
}

TEST_CASE("a lease handed over without renewal ends with its TTL, not with the short lease of the hand-off nor later") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  Waiting waiting{[&] { return Lock{other, "lock", {.ttl = 4s, .renew = false}}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  lease.release();
  auto const next = waiting.get();
  auto const began = Clock::now();
  CHECK(wait_until([&] { return redis.pttl("lock") > 2000; }));
  REQUIRE(wait_until([&] { return !redis.exists("lock"); }));
  CHECK(Clock::now() - began > 2500ms);
  CHECK(Clock::now() - began < 12s);
  CHECK_FALSE(next.held());
}

TEST_CASE("a release that was not answered keeps its token: said again, it releases") {
  LockServer redis;
  Client client{redis.unix_uri(), {.command_timeout = 300ms}};
  auto lease = Lock{client, "lock", {.ttl = 1min}}.acquire();
  redis.freeze();
  auto const error = error_of([&] { return lease.release(); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK_FALSE(lease.held());
  redis.thaw();
  CHECK(wait_until([&] { return !redis.exists("lock"); }));
  CHECK_FALSE(errc_of([&] { return lease.release(); }));
}

TEST_CASE("an extension that was not answered leaves the deadline where it was") {
  LockServer redis;
  Client client{redis.unix_uri(), {.command_timeout = 300ms}};
  auto lease = Lock{client, "lock", {.ttl = 1min, .renew = false}}.acquire();
  redis.freeze();
  auto const before = lease.remaining();
  CHECK(errc_of([&] { return lease.extend(10min); }));
  CHECK(errc_of([&] { return lease.confirm(); }));
  CHECK(lease.remaining() <= before);
  CHECK(lease.held());
  redis.thaw();
  CHECK(lease.confirm());
  CHECK(lease.extend());
}
