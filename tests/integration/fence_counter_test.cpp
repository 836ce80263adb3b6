// SPDX-License-Identifier: MIT
// The fence counter of a lock: what it does at its end, and after it was lost.
#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

constexpr auto* last_fence = "9007199254740991";    // 2^53 - 1
constexpr auto* last_but_one = "9007199254740990";

void refused_as_exhausted(std::optional<Error> const& error) {
  REQUIRE(error);
  CHECK(error->errc() == Errc::server_refused);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("2^53") && contains("fence counter"));
}

}  // namespace

TEST_CASE("a fence counter at 2^53 - 1 or beyond refuses the grant before anything is written") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto const at = GENERATE(values<std::string>({last_fence, "9007199254740992", "9223372036854775807", "1e300"}));
  redis.set(fence_key("lock"), at);
  refused_as_exhausted(error_of([&] { return lock.try_acquire(); }));
  refused_as_exhausted(error_of([&] { return lock.acquire_for(1h); }));
  refused_as_exhausted(error_of([&] { return lock.acquire(); }));
  CHECK(redis.keys() == std::vector<std::string>{fence_key("lock")});
  CHECK(redis.get(fence_key("lock")) == at);
  CHECK(redis.pttl(fence_key("lock")) == -1);
}

TEST_CASE("the last fence there is, 2^53 - 1, is granted exactly") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  redis.set(fence_key("lock"), last_but_one);
  auto lease = lock.acquire();
  CHECK(lease.fence().value == (std::uint64_t{1} << 53) - 1);
  CHECK(lease.confirm());
  CHECK(redis.get(fence_key("lock")) == last_fence);
  CHECK(lease.release());
  refused_as_exhausted(error_of([&] { return lock.try_acquire(); }));
}

TEST_CASE("a release with waiters still releases when no fence is left, and the waiter is told why it gets none") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  redis.set(fence_key("lock"), last_but_one);
  auto lease = Lock{client, "lock"}.acquire();
  Waiting waiting{[&] { return error_of([&] { return Lock{other, "lock"}.acquire(); }); }};
  REQUIRE(redis.has_blocked(1));
  CHECK(lease.release());
  CHECK_FALSE(redis.exists("lock"));
  CHECK(waiting.over_within(soon));
  refused_as_exhausted(waiting.get());
  CHECK_FALSE(redis.exists("lock"));
}

TEST_CASE("fences go on rising after the counter was deleted, flushed, or lost with all data") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  Fence last{};
  auto const rises = [&] {
    auto const fence = lock.acquire().fence();
    CHECK(fence > last);
    last = fence;
  };
  for (int i = 0; i < 10; ++i) rises();
  redis.command({"DEL", fence_key("lock")});
  rises();
  redis.flush_all();
  rises();
  redis.restart(LockServer::Data::lost);
  rises();
}

TEST_CASE("a counter that is ahead of every clock goes on by one") {
  LockServer redis;
  Client client{redis.unix_uri()};
  redis.set(fence_key("lock"), "8000000000000000");
  CHECK(Lock{client, "lock"}.acquire().fence().value == 8'000'000'000'000'001);
  CHECK(Lock{client, "lock"}.acquire().fence().value == 8'000'000'000'000'002);
}

TEST_CASE("a counter that holds no number is as good as none") {
  LockServer redis;
  Client client{redis.unix_uri()};
  redis.set(fence_key("lock"), "seven");
  auto lease = Lock{client, "lock"}.acquire();
  CHECK(lease.fence() > Fence{0});
  CHECK(redis.get(fence_key("lock")) == std::to_string(lease.fence().value));
  CHECK(lease.confirm());
}

TEST_CASE("a holder whose fence was passed has lost, though the key still shows its token") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock", {.renew = false}}.acquire();
  redis.set(fence_key("lock"), std::to_string(lease.fence().value + 1));
  CHECK_FALSE(lease.confirm());
  CHECK_FALSE(lease.held());
}

TEST_CASE("the counter's week begins anew with every grant and renewal") {
  LockServer redis;
  Client client{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  redis.command({"PEXPIRE", fence_key("lock"), "60000"});
  CHECK(lease.extend());
  CHECK(milliseconds{redis.pttl(fence_key("lock"))} > 24h * 6);
  lease.release();
  redis.command({"PEXPIRE", fence_key("lock"), "60000"});
  lease = Lock{client, "lock"}.acquire();
  CHECK(milliseconds{redis.pttl(fence_key("lock"))} > 24h * 6);
}
