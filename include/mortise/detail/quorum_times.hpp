// SPDX-License-Identifier: MIT
// The times of a quorum: how long to pause before the next attempt, and whose vote counts after a restart. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <mortise/detail/quorum_round.hpp>
#include <mortise/detail/timing.hpp>

namespace mortise::inline v1::detail {

inline constexpr milliseconds longest_contention_pause{32};

/// The pause after the failed attempt number `failures` (from 0) at a stretch, where one attempt takes `round`. Attempts
/// collide when they begin within one round of each other. So who got some nodes but not enough draws from a span of 2, 4,
/// 8 … rounds, which soon holds fewer attempts than rounds, however many contend; who got none, because the lock is held,
/// looks again after a time that doubles from 1 ms to 32 ms, of which a random part between a half and the whole.
constexpr nanoseconds contention_pause(unsigned failures, bool split, nanoseconds round, std::uint64_t random) noexcept {
  auto const part = static_cast<std::int64_t>(random % 1024);
  if (split) {
    auto const span = std::min<nanoseconds>(round * (std::int64_t{2} << std::min(failures, 8U)), longest_contention_pause);
    return span / 1024 * part;
  }
  auto const span = std::min<nanoseconds>(milliseconds{1} * (std::int64_t{1} << std::min(failures, 8U)), longest_contention_pause);
  return span / 2 + span / 2048 * part;
}

/// What is known of the process behind a node.
struct NodeLife {
  std::string run_id{};   ///< empty: it never answered, or does not tell
  TimePoint born{};       ///< no later than this by our clock, as old as it says it is
  bool changed{false};    ///< this client knew an earlier process behind the node
};

/// A greeting was heard at `received`. Greetings may be heard in another order than they were said: one of a process that is
/// older than the one known says no more than that the node was restarted. Without a run id it says nothing.
inline void note_greeting(NodeLife& life, std::string run_id, std::chrono::seconds uptime, TimePoint received) {
  if (run_id.empty() || life.run_id == run_id) return;  // the first look is the sharpest: the age is told in whole seconds
  // Both the server's clock and its start are cut to whole seconds, so the age may be told up to one too high.
  auto const born = received - std::max(uptime - std::chrono::seconds{1}, std::chrono::seconds{0});
  bool const another = !life.run_id.empty();
  if (another) life.changed = true;
  if (another && born <= life.born) return;
  life.run_id = std::move(run_id);
  life.born = born;
}

/// Servers tell their age in whole seconds: of two such ages a difference of two is one for certain.
inline constexpr milliseconds age_grain{2000};

/// Whose grant counts, `quarantine` being the longest lease that may have been forgotten. A node that has been up for so
/// long has seen every lease end that it may have lost. A younger one has lost its data for all we know: its vote is void
/// if this client saw it restart, or if another node is older or was never heard of: who cannot be asked may be older, too.
/// Where all are equally young, the deployment itself is new.
inline Vote vote_of(std::vector<NodeLife> const& lives, std::size_t node, milliseconds quarantine, TimePoint now) noexcept {
  auto const& life = lives[node];
  if (life.run_id.empty()) return Vote::full;
  auto const trusted_from = after(life.born, quarantine);
  if (now >= trusted_from) return Vote::full;
  if (life.changed) return Vote::none;
  bool const newcomer = std::any_of(lives.begin(), lives.end(), [&](NodeLife const& other) {
    return other.run_id.empty() || after(other.born, age_grain) <= life.born;
  });
  return newcomer ? Vote::none : Vote::unopposed;
}

}  // namespace mortise::inline v1::detail
