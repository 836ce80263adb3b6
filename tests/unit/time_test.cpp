// SPDX-License-Identifier: MIT
// Time arithmetic: it saturates, rounds up, and never wraps.
#include <chrono>
#include <limits>
#include <ratio>

#include <mortise/time.hpp>

#include "support/catch.hpp"

using namespace std::chrono_literals;
using mortise::Clock;
using mortise::milliseconds;
using mortise::nanoseconds;
using mortise::TimePoint;
using mortise::detail::after;
using mortise::detail::never;
using mortise::detail::remaining;
using mortise::detail::time_left;
using mortise::detail::to_deadline;
using mortise::detail::to_milliseconds;

TEST_CASE("the clock is steady and counts on") {
  auto const first = Clock::now();
  auto const second = Clock::now();
  CHECK(Clock::is_steady);
  CHECK(first <= second);
  CHECK(first.time_since_epoch() > 0ns);
}

TEST_CASE("durations of any unit become milliseconds, and what is left of one counts as a whole") {
  CHECK(to_milliseconds(0s) == 0ms);
  CHECK(to_milliseconds(2s) == 2000ms);
  CHECK(to_milliseconds(1ns) == 1ms);
  CHECK(to_milliseconds(999'999ns) == 1ms);
  CHECK(to_milliseconds(1'000'000ns) == 1ms);
  CHECK(to_milliseconds(1'000'001ns) == 2ms);
  CHECK(to_milliseconds(nanoseconds{86'400'000'000'001}) == 86'400'001ms);
  CHECK(to_milliseconds(std::chrono::duration<double>{0.25}) == 250ms);
  CHECK(to_milliseconds(std::chrono::duration<double, std::milli>{0.4}) == 1ms);
  CHECK(to_milliseconds(std::chrono::duration<int, std::ratio<1, 3>>{1}) == 334ms);
}

TEST_CASE("negative durations round up, too, and stay negative") {
  CHECK(to_milliseconds(-2s) == -2000ms);
  CHECK(to_milliseconds(-1ns) == 0ms);
  CHECK(to_milliseconds(-1'000'001ns) == -1ms);
}

TEST_CASE("durations beyond the range are pinned to it") {
  CHECK(to_milliseconds(std::chrono::hours::max()) == milliseconds::max());
  CHECK(to_milliseconds(std::chrono::hours::min()) == milliseconds::min());
  CHECK(to_milliseconds(std::chrono::seconds::max()) == milliseconds::max());
  CHECK(to_milliseconds(std::chrono::duration<double>::max()) == milliseconds::max());
  CHECK(to_milliseconds(std::chrono::duration<double>::min()) == milliseconds::min());
  CHECK(to_milliseconds(std::chrono::duration<double>{std::numeric_limits<double>::infinity()}) == milliseconds::max());
  CHECK(to_milliseconds(nanoseconds::max()) == milliseconds{9'223'372'036'855});
}

TEST_CASE("adding to a point of time saturates at never") {
  TimePoint const start{1h};
  CHECK(after(start, 5ms) == start + 5ms);
  CHECK(after(start, 0ms) == start);
  CHECK(after(start, -5ms) == start - 5ms);
  CHECK(after(start, milliseconds::max()) == never);
  CHECK(after(start, to_milliseconds(nanoseconds::max())) == never);
  CHECK(after(never, -5ms) == never);
  CHECK(after(never - 1ms, 2ms) == never);
  CHECK(after(never - 2ms, 1ms) == never - 1ms);
  CHECK(after(start, milliseconds::min()) == TimePoint::min());
  CHECK(after(TimePoint::min() + 1ms, -2ms) == TimePoint::min());
}

TEST_CASE("what remains is rounded up, and zero once the deadline has passed") {
  TimePoint const now{1h};
  CHECK(remaining(now + 5ms, now) == 5ms);
  CHECK(remaining(now + 5ms + 1ns, now) == 6ms);
  CHECK(remaining(now + 1ns, now) == 1ms);
  CHECK(remaining(now, now) == 0ms);
  CHECK(remaining(now - 1ns, now) == 0ms);
  CHECK(remaining(TimePoint::min(), now) == 0ms);
  CHECK(remaining(never, now) == milliseconds::max());
  CHECK(remaining(never - 1ns, now) > 24h);
}

TEST_CASE("a deadline on another clock keeps its distance on ours") {
  auto const before = Clock::now();
  auto const wall = std::chrono::system_clock::now();
  auto const mapped = to_deadline(wall + 1h);
  CHECK(mapped > before + 59min);
  CHECK(mapped < Clock::now() + 61min);
  CHECK(to_deadline(std::chrono::steady_clock::now() + 1h) > before + 59min);
  CHECK(to_deadline(std::chrono::floor<std::chrono::minutes>(wall) + 2h) > before + 118min);
}

TEST_CASE("a deadline in the past is now") {
  auto const now = Clock::now();
  for (auto const past : {1ns, 1'000'000'000ns}) {
    auto const mapped = to_deadline(std::chrono::system_clock::now() - past);
    CHECK(mapped >= now);
    CHECK(mapped <= Clock::now());
  }
  auto const earliest = to_deadline(std::chrono::system_clock::time_point::min());
  CHECK(earliest <= Clock::now());
}

TEST_CASE("the latest deadline of a clock is far away, not in the past") {
  CHECK(to_deadline(std::chrono::system_clock::time_point::max()) > Clock::now() + 24h * 365);
  CHECK(to_deadline(std::chrono::steady_clock::time_point::max()) > Clock::now() + 24h * 365);
  CHECK(to_deadline(never) > Clock::now() + 24h * 365);
}

TEST_CASE("points of time in coarse units do not wrap when they are compared") {
  using std::chrono::system_clock;
  using std::chrono::time_point;
  CHECK(to_deadline(time_point<system_clock, std::chrono::hours>::max()) == never);
  CHECK(to_deadline(time_point<system_clock, std::chrono::seconds>::max()) == never);
  auto const earliest = to_deadline(time_point<system_clock, std::chrono::hours>::min());
  CHECK(earliest <= Clock::now());
}

TEST_CASE("the time left is negative or zero once it has passed") {
  CHECK(time_left(std::chrono::system_clock::now() - 1h) < -59min);
  CHECK(time_left(std::chrono::system_clock::now() + 1h) > 59min);
  CHECK(time_left(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::min()) == milliseconds::min());
}

TEST_CASE("the wall clock is in microseconds") {
  auto const since = std::chrono::system_clock::now().time_since_epoch();
  auto const expected = std::chrono::duration_cast<std::chrono::duration<double, std::micro>>(since).count();
  CHECK(static_cast<double>(mortise::detail::wall_microseconds()) == Approx(expected).epsilon(1e-6));
}
