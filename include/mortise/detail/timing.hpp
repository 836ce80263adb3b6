// SPDX-License-Identifier: MIT
// The arithmetic of leases: how long a grant may be believed, when it is renewed, how long to back off. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// The protocol's fixed times; docs/protocol.md says what each of them bounds.
inline constexpr milliseconds handoff_lease{2000};            // the lease of a one-hop grant until KEEP has lengthened it
inline constexpr milliseconds longest_first_keep_delay{50};   // … which a lock held for less than this does not need
inline constexpr milliseconds claim_time{500};                // how long a reservation waits for its waiter
inline constexpr milliseconds turn_time{1000};                // the lease of a waiter that a room let in, until KEEP has lengthened it
inline constexpr milliseconds nudge_poll{1000};               // at least so often a name that is waited for is looked at
inline constexpr milliseconds waiting_life{3 * 1000};         // "somebody waits" outlives three missed polls
inline constexpr milliseconds fence_retention{7LL * 24 * 3600 * 1000};

/// The fence counter outlives every lease it was minted for.
constexpr milliseconds retention_for(milliseconds ttl) noexcept { return std::max(fence_retention, 2 * ttl); }

/// 1 % of the TTL and 2 ms: covers clocks that run apart and the server's millisecond grain. Source: Redlock.
constexpr nanoseconds drift_allowance(milliseconds ttl) noexcept { return nanoseconds{ttl} / 100 + milliseconds{2}; }

/// Until when a lease may be believed whose request was written at `sent`: the clock starts before the request, because
/// the server may have started its own right then.
constexpr TimePoint valid_until(TimePoint sent, milliseconds ttl) noexcept {
  auto const end = after(sent, ttl);
  return end == never ? never : end - drift_allowance(ttl);
}

/// δ of a one-hop grant: one thousandth for both clocks together.
constexpr nanoseconds less_drift(nanoseconds span) noexcept { return span - span / 1000; }

/// Until when a one-hop grant may be believed. The server's clock said `first` in its answer to a request written at
/// `sent`, and `granted` when it granted, both over one connection: so the grant began no earlier than `sent` plus the
/// difference, and no later than its answer was `received`.
constexpr TimePoint valid_until_handed_over(TimePoint sent, microseconds first, microseconds granted, TimePoint received,
                                            milliseconds lease) noexcept {
  auto const passed = std::max(granted - first, microseconds::zero());
  auto const began = std::min(sent + less_drift(passed), received);
  return began + less_drift(lease) - milliseconds{1};
}

/// A renewal is due a third of the TTL after the last one was written: two may fail before the lease is over.
constexpr TimePoint renewal_due(TimePoint sent, milliseconds ttl) noexcept {
  return sent + std::max<nanoseconds>(nanoseconds{ttl} / 3, milliseconds{1});
}

/// So much earlier it goes with one that is due anyway: many leases are then renewed in few writes, and each of them 3 % more
/// often at most.
constexpr nanoseconds renewal_company(milliseconds ttl, milliseconds command_timeout) noexcept {
  return std::min<nanoseconds>({nanoseconds{ttl} / 100, command_timeout, milliseconds{100}});
}

/// When the KEEP behind a short first lease is due: a lock that is given up before costs none. Most of the lease is left for it.
constexpr milliseconds first_keep_delay(milliseconds lease) noexcept {
  return std::clamp(lease / 16, milliseconds{1}, longest_first_keep_delay);
}

/// After a renewal that nobody answered: soon, but not in a storm.
constexpr milliseconds renewal_retry(milliseconds ttl) noexcept {
  return std::clamp(ttl / 20, milliseconds{2}, milliseconds{500});
}

/// One attempt to renew ends early enough for another before the lease is over.
constexpr milliseconds renewal_patience(milliseconds ttl, milliseconds command_timeout) noexcept {
  return std::min(command_timeout, std::max(ttl / 3, milliseconds{1}));
}

/// The pause before retry `attempt` (from 0): doubled from 5 ms up to 500 ms, and of that a random part between a half and
/// the whole, so that clients that failed together do not come back together.
constexpr milliseconds backoff(unsigned attempt, std::uint64_t random) noexcept {
  auto const whole = std::min<std::uint64_t>(std::uint64_t{5} << std::min(attempt, 10U), 500);
  auto const half = (whole + 1) / 2;
  return milliseconds{static_cast<milliseconds::rep>(half + random % (whole - half + 1))};
}

/// The whole milliseconds a blocking pop is told to wait: never longer than the deadline allows, 0 = for ever.
constexpr milliseconds pop_timeout(milliseconds rest) noexcept {
  constexpr milliseconds longest{1000LL * 3600 * 24 * 365};
  return rest > longest ? milliseconds::zero() : std::max(rest, milliseconds{1});
}

/// What the claim behind a blocking pop may assume: before this moment of the server's clock (µs) the pop cannot have
/// timed out, so the claim runs because its own client popped. 2 ms: the server counts the timeout in whole milliseconds.
constexpr std::uint64_t pop_bound(microseconds server_time, milliseconds pop) noexcept {
  constexpr std::uint64_t no_bound = 9'007'199'254'740'991;
  if (pop == milliseconds::zero()) return no_bound;
  auto const bound = server_time + microseconds{pop} - milliseconds{2};
  return bound.count() < 0 ? 0 : std::min(static_cast<std::uint64_t>(bound.count()), no_bound);
}

}  // namespace mortise::inline v1::detail
