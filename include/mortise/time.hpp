// SPDX-License-Identifier: MIT
// The one clock that measures leases and deadlines, and arithmetic on it that saturates instead of wrapping.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>

#include <time.h>

namespace mortise::inline v1 {

using std::chrono::milliseconds;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// A steady clock that, where the system has one, also counts the time the machine was suspended (Linux: CLOCK_BOOTTIME).
/// A lease runs on while a laptop sleeps; a clock that stands still meanwhile would believe in it for too long.
struct Clock {
  using duration = nanoseconds;                               ///< as the standard asks of a clock
  using rep = duration::rep;                                  ///< the same
  using period = duration::period;                            ///< the same
  using time_point = std::chrono::time_point<Clock>;          ///< the same
  static constexpr bool is_steady = true;                     ///< it is never set

  /// One system call at most. Its epoch is the start of the machine.
  static time_point now() noexcept {
    timespec value{};
#if defined(CLOCK_BOOTTIME)
    ::clock_gettime(CLOCK_BOOTTIME, &value);
#else
    ::clock_gettime(CLOCK_MONOTONIC, &value);
#endif
    return time_point{std::chrono::seconds{value.tv_sec} + nanoseconds{value.tv_nsec}};
  }
};

/// By the library's clock; a deadline may stand on any clock.
using TimePoint = Clock::time_point;

namespace detail {

/// No deadline: further away than any clock gets.
inline constexpr TimePoint never = TimePoint::max();

/// Any duration in whole milliseconds, rounded up, and pinned to the range of the type: hours::max() does not wrap.
template <class Rep, class Period>
constexpr milliseconds to_milliseconds(std::chrono::duration<Rep, Period> value) noexcept {
  using Wide = std::chrono::duration<long double, std::milli>;
  auto const wide = std::chrono::duration_cast<Wide>(value);
  constexpr long double limit = 9.2e18L;
  if (!(wide.count() < limit)) return milliseconds::max();
  if (wide.count() < -limit) return milliseconds::min();
  // 0.1 s in binary is a little more than 100 ms, and still means 100 ms.
  auto const rounding = std::chrono::treat_as_floating_point_v<Rep> ? wide * 1e-12L : Wide::zero();
  auto const whole = milliseconds{static_cast<milliseconds::rep>(wide.count())};
  return Wide{whole} < wide - rounding ? whole + milliseconds{1} : whole;
}

/// `from + by` in nanoseconds, or `never` where that is out of range.
constexpr TimePoint after(TimePoint from, milliseconds by) noexcept {
  constexpr auto range = std::chrono::duration_cast<milliseconds>(nanoseconds::max());
  if (by >= range || from == never) return never;
  if (by <= -range) return TimePoint::min();
  auto const step = nanoseconds{by};
  if (step > nanoseconds::zero() && from > never - step) return never;
  if (step < nanoseconds::zero() && from < TimePoint::min() - step) return TimePoint::min();
  return from + step;
}

/// What remains until `deadline` in whole milliseconds, rounded up; zero when it has passed.
inline milliseconds remaining(TimePoint deadline, TimePoint now) noexcept {
  if (deadline == never) return milliseconds::max();
  if (deadline <= now) return milliseconds::zero();
  return std::chrono::ceil<milliseconds>(deadline - now);
}

/// What remains until a point of a user's clock, in whole milliseconds; zero or less when it has passed.
template <class C, class D>
milliseconds time_left(std::chrono::time_point<C, D> deadline) {
  using Wide = std::chrono::duration<long double, std::nano>;
  return to_milliseconds(std::chrono::duration_cast<Wide>(deadline.time_since_epoch()) -
                         std::chrono::duration_cast<Wide>(C::now().time_since_epoch()));
}

/// A deadline on a user's clock, carried over to ours by what remains of it now.
template <class C, class D>
TimePoint to_deadline(std::chrono::time_point<C, D> deadline) {
  return after(Clock::now(), std::max(time_left(deadline), milliseconds::zero()));
}

/// The client's wall clock in microseconds: the floor of new fences (see docs/protocol.md), used for nothing else.
inline std::uint64_t wall_microseconds() noexcept {
  auto const since = std::chrono::system_clock::now().time_since_epoch();
  auto const count = std::chrono::duration_cast<microseconds>(since).count();
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

}  // namespace detail
}  // namespace mortise::inline v1
