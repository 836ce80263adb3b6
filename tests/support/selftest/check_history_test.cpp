// SPDX-License-Identifier: MIT
// The judge of histories: right ones pass, and each kind of wrong one is named.
#include "support/catch.hpp"
#include "support/check_history.hpp"

#include <initializer_list>

using support::check_history;
using support::Happening;
using support::HistoryRecord;
using enum support::Happening;

namespace {

constexpr std::int64_t ms = 1'000'000;

// One line of a history, times in milliseconds.
struct Line {
  std::int64_t at;
  pid_t process;
  Happening what;
  std::uint64_t fence = 0;
  std::int64_t until = 0;
  std::uint64_t name = 1;
};

std::vector<HistoryRecord> history(std::initializer_list<Line> lines) {
  std::vector<HistoryRecord> records;
  for (auto const& line : lines)
    records.push_back({.what = line.what, .process = line.process, .thread = line.process, .name = line.name,
                       .fence = line.fence, .at = line.at * ms, .until = line.until * ms});
  return records;
}

void check_one(std::vector<HistoryRecord> const& records, std::string const& beginning,
               support::HistoryRules const& rules = {}) {
  auto const violations = check_history(records, rules);
  REQUIRE(violations.size() == 1);
  CHECK_THAT(violations.front(), support::starts_with(beginning));
}

}  // namespace

TEST_CASE("histories that are right pass", "[check_history]") {
  CHECK(check_history({}).empty());
  // one after the other, touching
  CHECK(check_history(history({{1, 1, call_begin, 0, 100}, {2, 1, call_end}, {2, 1, belief_begin, 1, 50},
                               {9, 1, belief_end, 1}, {9, 2, belief_begin, 2, 60}, {20, 2, belief_end, 2}})).empty());
  // different names at the same time
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {2, 2, belief_begin, 1, 50, 2}})).empty());
  // expired without an end, then another
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {51, 2, belief_begin, 2, 90}})).empty());
  // killed: ends by its validity
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {5, 1, process_killed}, {50, 2, belief_begin, 2}}))
            .empty());
  // told of the loss in time, before the other begins
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {20, 1, lost_told, 1}, {21, 2, belief_begin, 2}})).empty());
  // grants that overlap in time may have fences in either order
  CHECK(check_history(history({{1, 1, call_begin}, {2, 2, call_begin}, {3, 1, belief_begin, 2, 4},
                               {5, 2, belief_begin, 1, 9}})).empty());
}

TEST_CASE("two beliefs at one time are a violation of exclusion", "[check_history]") {
  check_one(history({{1, 1, belief_begin, 1, 50}, {40, 2, belief_begin, 2, 90}, {60, 1, belief_end, 1}}),
            "exclusion: name 1 was held by process 1 (fence 1) and by process 2 (fence 2) at 39.000 ms, "
            "together for 10.000 ms");
  // in one process as well
  check_one(history({{1, 1, belief_begin, 1, 50}, {10, 1, belief_begin, 2, 50}}), "exclusion: name 1");
  // the tolerance is the caller's
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {40, 2, belief_begin, 2, 90}}),
                      {.overlap = std::chrono::milliseconds{10}}).empty());
}

TEST_CASE("a belief without an end of its own lasts for ever", "[check_history]") {
  check_one(history({{1, 1, belief_begin, 1}, {900, 2, belief_begin, 2}}), "exclusion: name 1");
}

TEST_CASE("a killed process holds until its validity ends", "[check_history]") {
  check_one(history({{1, 1, belief_begin, 1, 50}, {5, 1, process_killed}, {49, 2, belief_begin, 2, 90}}), "exclusion");
}

TEST_CASE("a paused process holds until its validity ends, not until it wakes", "[check_history]") {
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {2, 1, process_paused}, {55, 2, belief_begin, 2, 90},
                               {80, 1, process_resumed}, {81, 1, belief_end, 1}})).empty());
}

TEST_CASE("a renewal in time lengthens a belief, a late one begins another stretch", "[check_history]") {
  check_one(history({{1, 1, belief_begin, 1, 50}, {40, 1, belief_renewed, 1, 100}, {60, 2, belief_begin, 2, 90}}),
            "exclusion");
  CHECK(check_history(history({{1, 1, belief_begin, 1, 50}, {55, 2, belief_begin, 2, 60},
                               {70, 1, belief_renewed, 1, 100}})).empty());
  check_one(history({{1, 1, belief_begin, 1, 50}, {55, 2, belief_begin, 2, 80}, {70, 1, belief_renewed, 1, 100}}),
            "exclusion");
}

TEST_CASE("a fence that falls or comes twice is named", "[check_history]") {
  check_one(history({{1, 1, belief_begin, 5, 10}, {20, 2, call_begin}, {21, 2, belief_begin, 4, 30}}),
            "fence: name 1 was granted to process 2 (fence 4) at 20.000 ms, after process 1 (fence 5) at 0.000 ms");
  check_one(history({{1, 1, belief_begin, 5, 10}, {20, 2, belief_begin, 5, 30}}),
            "fence: name 1 was granted twice with fence 5, the second time to process 2");
  // also long after
  check_one(history({{1, 1, belief_begin, 5, 2}, {3, 2, belief_begin, 7, 4}, {5, 1, belief_begin, 8, 6},
                     {7, 2, belief_begin, 6, 8}}),
            "fence: name 1 was granted to process 2 (fence 6)");
}

TEST_CASE("a call that ends late or never is named", "[check_history]") {
  auto const late = history({{1, 1, call_begin, 0, 100}, {200, 1, call_end}});
  check_one(late, "deadline: a call of process 1 for name 1, begun at 0.000 ms, ended 100.000 ms after its deadline");
  CHECK(check_history(late, {.call_slack = std::chrono::milliseconds{100}}).empty());
  check_one(history({{1, 1, call_begin, 0, 100}, {300, 2, call_begin}}),
            "deadline: a call of process 1 for name 1, begun at 0.000 ms, never ended");
  // neither the killed nor the paused are blamed
  CHECK(check_history(history({{1, 1, call_begin, 0, 100}, {50, 1, process_killed}, {300, 2, call_begin}})).empty());
  CHECK(check_history(history({{1, 1, call_begin, 0, 100}, {50, 1, process_paused}, {150, 1, process_resumed},
                               {200, 1, call_end}})).empty());
}

TEST_CASE("a loss that is told late is named", "[check_history]") {
  check_one(history({{1, 1, belief_begin, 1, 100}, {180, 1, lost_told, 1}}),
            "loss: process 1 (fence 1) was told that name 1 is lost 80.000 ms after its validity ended");
}

TEST_CASE("a semaphore may have as many holders as it has permits", "[check_history]") {
  auto const three = history({{1, 1, belief_begin, 1, 50}, {2, 2, belief_begin, 2, 50}, {3, 3, belief_begin, 3, 50}});
  CHECK(check_history(three, {.holders = 3}).empty());
  check_one(three, "exclusion", {.holders = 2});
}

TEST_CASE("the longest time without a grant counts from the beginning, between grants of any name, and to the end", "[check_history]") {
  auto const longest = [](std::initializer_list<Line> lines) { return support::longest_without_grant(history(lines), 10 * ms, 100 * ms).count() / ms; };
  CHECK(longest({}) == 90);
  CHECK(longest({{50, 1, belief_begin, 1}, {60, 1, belief_end, 1}, {70, 2, belief_begin, 2, 0, 2}}) == 40);
  CHECK(longest({{70, 2, belief_begin, 2}, {30, 1, belief_begin, 1}}) == 40);
  CHECK(longest({{20, 1, belief_begin, 1}, {50, 1, call_begin}, {200, 1, belief_begin, 2}}) == 80);
}
