// SPDX-License-Identifier: MIT
// The judge of a history: exclusion, rising fences, calls and losses in time.
#pragma once

#include "support/history.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace support {

struct HistoryRules {
  /// How late after its deadline a call may end.
  std::chrono::nanoseconds call_slack{std::chrono::milliseconds{50}};
  /// How late after its valid-until a holder may be told of the loss.
  std::chrono::nanoseconds loss_slack{std::chrono::milliseconds{50}};
  /// How long two beliefs may overlap: zero for CLOCK_BOOTTIME on one machine.
  std::chrono::nanoseconds overlap{0};
  /// How many may hold one name at once: more than one for a semaphore (fences are then not compared).
  int holders = 1;
};

/// One sentence per violation; empty when the history is right.
///
/// - A belief lasts from its begin to the first of: its end, the loss told, its valid-until as last renewed in time. A
///   renewal that comes after the valid-until begins a second stretch. A killed process ends its beliefs only by their
///   valid-until: to the rest of the world they go on till then.
/// - Of two grants of one name, the one that was finished before the other was asked for (the thread's call_begin, or
///   the belief_begin if there is none) has the smaller fence; no fence of a name is granted twice.
/// - A call that has a deadline ends by then; time in which its process was paused does not count.
std::vector<std::string> check_history(std::vector<HistoryRecord> const& records, HistoryRules const& rules = {});

/// The longest time without a grant between these two moments (of boottime_ns()), whatever its name: how long all of them stood still.
std::chrono::nanoseconds longest_without_grant(std::vector<HistoryRecord> const& records, std::int64_t begin, std::int64_t end);

}  // namespace support
