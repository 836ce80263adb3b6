// SPDX-License-Identifier: MIT
// The arithmetic of leases, each function at its borders.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>

#include <mortise/detail/timing.hpp>

#include "support/catch.hpp"

using namespace std::chrono_literals;
using namespace mortise::detail;
using mortise::microseconds;
using mortise::milliseconds;
using mortise::nanoseconds;
using mortise::TimePoint;

namespace {

constexpr TimePoint start{100h};

}  // namespace

TEST_CASE("the fixed times are those of the protocol") {
  CHECK(handoff_lease == 2s);
  CHECK(claim_time == 500ms);
  CHECK(nudge_poll == 1s);
  CHECK(waiting_life == 3 * nudge_poll);
  CHECK(fence_retention == 24h * 7);
  CHECK(handoff_lease >= nudge_poll);  // the protocol's condition on the lease of a one-hop grant
}

TEST_CASE("the fence counter outlives every lease") {
  CHECK(retention_for(10s) == fence_retention);
  CHECK(retention_for(24h * 365 * 10) == 24h * 365 * 20);
  for (auto const ttl : {milliseconds{3}, milliseconds{24h * 3}, milliseconds{24h * 4}, milliseconds{24h * 365}}) {
    CHECK(retention_for(ttl) >= 2 * ttl);
    CHECK(retention_for(ttl) >= fence_retention);
  }
}

TEST_CASE("a lease is believed for its TTL from the sending, less one hundredth and 2 ms") {
  CHECK(drift_allowance(10s) == 102ms);
  CHECK(drift_allowance(3ms) == 2ms + 30us);
  CHECK(valid_until(start, 10s) == start + 9898ms);
  CHECK(valid_until(start, 3ms) == start + 970us);
  CHECK(valid_until(start, milliseconds::max()) == never);
}

TEST_CASE("the shortest TTL that is allowed leaves something to hold, a shorter one does not") {
  CHECK(valid_until(start, 3ms) > start);
  CHECK_FALSE(valid_until(start, 2ms) > start);
}

TEST_CASE("a handed-over lease counts from the first answer's sending and the server's time between the answers") {
  auto const first = microseconds{1'700'000'000'000'000};
  auto const until = [&](nanoseconds server_passed, nanoseconds received) {
    return valid_until_handed_over(start, first, first + std::chrono::duration_cast<microseconds>(server_passed), start + received, 2s);
  };
  auto const lease = 2s - 2ms - 1ms;  // less a thousandth, less 1 ms
  CHECK(until(0s, 5ms) == start + lease);
  CHECK(until(10s, 11s) == start + 10s - 10ms + lease);
  SECTION("never later than if it had been granted when its answer came") {
    CHECK(until(10s, 9s) == start + 9s + lease);
    CHECK(until(1h, 1s) == start + 1s + lease);
  }
  SECTION("a server whose clock was set back only shortens it") {
    CHECK(until(-1h, 10s) == start + lease);
  }
}

TEST_CASE("a handed-over lease ends before the server's own does, whichever clock runs faster by a thousandth in all") {
  auto const rate = GENERATE(values({-1, 0, 1}));  // the server's clock against ours, in thousandths
  for (auto const wait : {1ms, 100ms, 5000ms, 3'600'000ms}) {
    auto const sent_at_server = microseconds{5'000'000'000};
    auto const granted_at_server = sent_at_server + wait + wait * rate / 1000;
    auto const until = valid_until_handed_over(start, sent_at_server, granted_at_server, start + wait + 1ms, 2s);
    auto const server_frees = start + wait + 2s - (rate > 0 ? 2ms : 0ms);
    CAPTURE(rate, wait.count());
    CHECK(until < server_frees);
  }
}

TEST_CASE("a renewal is due a third of the TTL after the last sending") {
  CHECK(renewal_due(start, 9s) == start + 3s);
  CHECK(renewal_due(start, 10s) > start + 3333ms);
  CHECK(renewal_due(start, 10s) < start + 3334ms);
  CHECK(renewal_due(start, 3ms) == start + 1ms);
  CHECK(renewal_due(start, 1ms) == start + 1ms);
}

TEST_CASE("a renewal goes in company a hundredth of the TTL early, and never as early as its own answer may be awaited") {
  CHECK(renewal_company(1s, 1s) == 10ms);
  CHECK(renewal_company(10s, 1s) == 100ms);
  CHECK(renewal_company(1h, 1s) == 100ms);
  CHECK(renewal_company(10s, 20ms) == 20ms);
  CHECK(renewal_company(1ms, 1s) == 10us);
}

TEST_CASE("an unanswered renewal is tried again soon, but not in a storm") {
  CHECK(renewal_retry(10s) == 500ms);
  CHECK(renewal_retry(1s) == 50ms);
  CHECK(renewal_retry(3ms) == 2ms);
  CHECK(renewal_retry(24h) == 500ms);
}

TEST_CASE("one attempt to renew leaves time for another") {
  CHECK(renewal_patience(10s, 1s) == 1s);
  CHECK(renewal_patience(900ms, 1s) == 300ms);
  CHECK(renewal_patience(2ms, 1s) == 1ms);
  CHECK(renewal_patience(900ms, milliseconds::max()) == 300ms);
  for (milliseconds const ttl : {100ms, 1000ms, 10'000ms, 3'600'000ms}) {
    auto const first_ends = renewal_due(start, ttl) + renewal_patience(ttl, milliseconds::max()) + renewal_retry(ttl);
    CHECK(first_ends < valid_until(start, ttl));
  }
}

TEST_CASE("backing off doubles from 5 ms to 500 ms, and is never less than half of that") {
  std::mt19937_64 random{42};
  for (unsigned attempt = 0; attempt < 1000; ++attempt) {
    auto const whole = attempt < 7 ? milliseconds{5LL << attempt} : 500ms;
    for (auto const number : {std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(), random(), random()}) {
      auto const pause = backoff(attempt, number);
      CAPTURE(attempt, number);
      CHECK(pause >= whole / 2);
      CHECK(pause <= whole);
    }
  }
  CHECK(backoff(std::numeric_limits<unsigned>::max(), 1) <= 500ms);
}

TEST_CASE("backing off uses the whole of its range") {
  auto least = 500ms, most = 0ms;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    least = std::min(least, backoff(20, number));
    most = std::max(most, backoff(20, number));
  }
  CHECK(least == 250ms);
  CHECK(most == 500ms);
}

TEST_CASE("a blocking pop waits whole milliseconds, for ever only without a deadline") {
  CHECK(pop_timeout(5s) == 5s);
  CHECK(pop_timeout(1ms) == 1ms);
  CHECK(pop_timeout(0ms) == 1ms);
  CHECK(pop_timeout(-5ms) == 1ms);
  CHECK(pop_timeout(24h * 365) == 24h * 365);
  CHECK(pop_timeout(milliseconds::max()) == 0ms);
  CHECK(pop_timeout(remaining(never, start)) == 0ms);
}

TEST_CASE("a pop cannot have timed out until 2 ms before its time by the server's clock") {
  auto const now = microseconds{1'700'000'000'000'000};
  CHECK(pop_bound(now, 5s) == 1'700'000'004'998'000);
  CHECK(pop_bound(now, 1ms) == 1'699'999'999'999'000);
  CHECK(pop_bound(0us, 1ms) == 0);
}

TEST_CASE("the bound of a pop without a deadline is the largest number a script carries") {
  constexpr std::uint64_t largest = (std::uint64_t{1} << 53) - 1;
  CHECK(pop_bound(0us, 0ms) == largest);
  CHECK(pop_bound(microseconds{1'700'000'000'000'000}, 0ms) == largest);
  CHECK(pop_bound(microseconds{9'007'199'254'740'990}, 5s) == largest);
  CHECK(pop_bound(microseconds{1'700'000'000'000'000}, pop_timeout(24h * 365)) < largest);
}

TEST_CASE("all of it can be computed at compile time") {
  static_assert(valid_until(start, 10s) == start + 9898ms);
  static_assert(backoff(3, 0) == 20ms);
  static_assert(pop_timeout(0ms) == 1ms);
  static_assert(renewal_due(start, 9s) == start + 3s);
  SUCCEED();
}
