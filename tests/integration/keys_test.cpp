// SPDX-License-Identifier: MIT
// What stands in Redis: the key is the lock's name, its value the owner token, and everything of ours has an expiry.
#include <unistd.h>

#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

/// `p` was read between `began` and now from a key that was given `ttl` after `began`.
bool is_remainder_of(milliseconds ttl, std::int64_t pttl, mortise::TimePoint began) {
  auto const passed = std::chrono::ceil<milliseconds>(Clock::now() - began) + 1ms;
  return milliseconds{pttl} <= ttl && milliseconds{pttl} >= ttl - passed;
}

/// Every key there is, with an expiry of at most a week.
bool all_keys_expire(LockServer& redis) {
  auto const keys = redis.keys();
  return std::ranges::all_of(keys, [&](auto const& key) {
    auto const pttl = redis.pttl(key);
    bool const expires = pttl == -2 || (pttl > 0 && milliseconds{pttl} <= 24h * 7);
    if (!expires) UNSCOPED_INFO(key << " has PTTL " << pttl);
    return expires;
  });
}

}  // namespace

TEST_CASE("the key is exactly the lock's name, and its value the owner token: host, pid and 32 hex digits") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock:invoice:42"}.acquire();
  auto const value = redis.get("lock:invoice:42");
  REQUIRE(value);
  CHECK_THAT(*value, support::matches("[A-Za-z0-9._-]+:" + std::to_string(::getpid()) + "#[0-9a-f]{32}"));
  CHECK(redis.keys() == std::vector<std::string>{"lock:invoice:42", fence_key("lock:invoice:42")});
  CHECK(redis.get(fence_key("lock:invoice:42")) == std::to_string(lease.fence().value));
}

TEST_CASE("the label of the owner token is the client's name, and the rest is fresh for every grant") {
  LockServer redis;
  Client client{redis.unix_uri(), {.client_name = "till-3"}};
  Lock lock{client, "lock"};
  std::optional<std::string> first;
  {
    auto const lease = lock.acquire();
    first = redis.get("lock");
  }
  auto const lease = lock.acquire();
  auto const second = redis.get("lock");
  REQUIRE((first && second));
  CHECK_THAT(*first, support::matches("till-3#[0-9a-f]{32}"));
  CHECK_THAT(*second, support::matches("till-3#[0-9a-f]{32}"));
  CHECK(*first != *second);
}

TEST_CASE("a label never makes a token look like a reservation") {
  LockServer redis;
  Client client{redis.unix_uri(), {.client_name = "h:1"}};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  CHECK_FALSE(redis.get("lock")->starts_with("h:"));
  CHECK_FALSE(lock.try_acquire());
  CHECK(lease.confirm());
}

TEST_CASE("names of any bytes arrive in Redis as they are") {
  LockServer redis;
  Client client{redis.unix_uri()};
  for (std::string const& name : {std::string{"a b"}, std::string{"\0\r\n$", 4}, std::string{"naïve 🔒"}, std::string(512, '\xff')}) {
    auto lease = Lock{client, name}.acquire();
    CHECK(redis.get(name));
    CHECK(lease.release());
    CHECK_FALSE(redis.exists(name));
  }
}

TEST_CASE("the siblings of a name with a tag lie in its slot, and no two names share them") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock{client, "{tenant}:job"}.acquire().release();
  CHECK(redis.keys() == std::vector<std::string>{"{tenant}:job::~fence"});
  redis.flush_all();
  Lock{client, "x"}.acquire().release();
  Lock{client, "{x}"}.acquire().release();
  CHECK(redis.keys().size() == 2);
}

TEST_CASE("the server sees the TTL that was asked for") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto const ttl = GENERATE(values<milliseconds>({250ms, 999ms, 10s, 24h}));
  auto const began = Clock::now();
  auto const lease = Lock{client, "lock", {.ttl = ttl, .renew = false}}.acquire();
  CHECK(is_remainder_of(ttl, redis.pttl("lock"), began));
}

TEST_CASE("extensions and renewals never add up beyond the TTL") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock", {.ttl = 2s}};
  auto lease = lock.acquire();
  std::int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    CHECK(lease.extend());
    most = std::max(most, redis.pttl("lock"));
  }
  for (int i = 0; i < 60; ++i) {
    std::this_thread::sleep_for(20ms);  // past a renewal
    most = std::max(most, redis.pttl("lock"));
  }
  CHECK(most <= 2000);
  CHECK(redis.pttl("lock") > 0);
}

TEST_CASE("a held lock, a line of waiters, a reservation and a release: every key has an expiry all the time") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  CHECK(all_keys_expire(redis));
  Waiting first{[&] { return Lock{client, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  Waiting second{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(2));
  CHECK(redis.exists(wait_key("lock")));
  CHECK(all_keys_expire(redis));
  lease.release();
  auto next = first.get();
  CHECK(all_keys_expire(redis));
  next.release();
  auto last = second.get();
  CHECK(all_keys_expire(redis));
  last.release();
  CHECK(all_keys_expire(redis));
}

TEST_CASE("a release leaves nothing but the fence counter, which a week ends") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock{client, "lock"}.acquire().release();
  CHECK(redis.keys() == std::vector<std::string>{fence_key("lock")});
  CHECK(redis.pttl(fence_key("lock")) > 0);
  CHECK(milliseconds{redis.pttl(fence_key("lock"))} <= 24h * 7);
}

TEST_CASE("some seconds after the last waiter nothing is left but the fence counter") {
  LockServer redis;
  {
    Client client{redis.unix_uri()};
    Client other{redis.unix_uri()};
    auto lease = Lock{client, "lock"}.acquire();
    std::stop_source stop;
    Waiting served{[&] { return Lock{client, "lock"}.acquire().release(); }};
    REQUIRE(redis.has_blocked(1));
    Waiting cancelled{[&] { return Lock{other, "lock"}.acquire(stop.get_token()).has_value(); }};
    REQUIRE(redis.has_blocked(2));
    stop.request_stop();
    CHECK_FALSE(cancelled.get());
    CHECK_FALSE(Lock{other, "lock"}.acquire_for(50ms));
    lease.release();
    CHECK(served.get());
  }
  CHECK(wait_until([&] { return redis.keys() == std::vector<std::string>{fence_key("lock")}; }, 10s));
}
