// SPDX-License-Identifier: MIT
// The logic of a room's scripts and of the clients around them, with time left out: what may run out runs out at any moment.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace models {

/// Ways to get it wrong, so that it is seen that the search would find them.
enum class Flaw : std::uint8_t { none, newcomers_pass, nudge_does_not_serve, a_lost_place_is_not_told, one_permit_too_many };

enum class Phase : std::uint8_t { out, waiting, in, dead };

constexpr std::size_t most_guests = 4;

struct RoomState {
  std::array<Phase, most_guests> phase{};
  std::array<char, most_guests> holds{};  ///< in the room's set, as what; 0: not
  std::array<bool, most_guests> turn{};   ///< its list has an element
  std::vector<std::uint8_t> queue{};
  std::uint8_t crashes{0};

  friend auto operator<=>(RoomState const&, RoomState const&) = default;
};

/// Each guest is what `kinds` says, for ever: reader, writer ('r', 'w') or permit ('p').
class RoomModel {
 public:
  RoomModel(std::string kinds, std::size_t permits, std::uint8_t crashes, Flaw flaw = Flaw::none)
      : kinds_{std::move(kinds)}, permits_{permits}, crashes_{crashes}, flaw_{flaw} {}

  struct Step {
    RoomState to;
    bool helpful;  ///< of what the protocol and honest holders do by themselves: no new wish, no giving up, no crash
  };

  std::size_t guests() const { return kinds_.size(); }

  std::vector<Step> steps(RoomState const& from) const {
    std::vector<Step> all;
    auto const add = [&](bool helpful, auto&& change) {
      auto to = from;
      if (change(to)) all.push_back({std::move(to), helpful});
    };
    for (std::size_t i = 0; i < guests(); ++i) {
      switch (from.phase[i]) {
        case Phase::out:
          add(false, [&](RoomState& s) { return acquire(s, i, true); });
          add(false, [&](RoomState& s) { return acquire(s, i, false); });
          break;
        case Phase::waiting:
          add(true, [&](RoomState& s) { return pop(s, i); });
          add(true, [&](RoomState& s) { return nudge(s, i); });
          add(false, [&](RoomState& s) { return acquire(s, i, true); });            // over a new connection
          add(false, [&](RoomState& s) { return std::exchange(s.turn[i], false); });  // popped, and the answer was lost
          add(false, [&](RoomState& s) { return claim_runs_out(s, i); });
          add(false, [&](RoomState& s) { return release(s, i); });
          break;
        case Phase::in:
          add(true, [&](RoomState& s) { return release(s, i); });
          add(false, [&](RoomState& s) { return lose(s, i); });
          if (from.holds[i] == 'w') add(false, [&](RoomState& s) { return downgrade(s, i); });
          break;
        case Phase::dead: add(true, [&](RoomState& s) { return forget_dead(s, i); }); break;
      }
      if (from.phase[i] != Phase::dead && from.crashes < crashes_)
        add(false, [&](RoomState& s) {
          s.phase[i] = Phase::dead;
          ++s.crashes;
          return true;
        });
    }
    return all;
  }

  /// Nobody is in who must not be.
  std::optional<std::string> wrong(RoomState const& s) const {
    auto const readers = count(s, 'r');
    auto const writers = count(s, 'w');
    if (writers > 1 || (writers == 1 && readers > 0)) return "a writer is in with somebody";
    if (count(s, 'p') > permits_) return "more are in than there are permits";
    for (std::size_t i = 0; i < guests(); ++i)
      if (s.phase[i] == Phase::in && s.holds[i] == 0) return "somebody believes to be in who is not";
    return std::nullopt;
  }

  /// Whoever comes in in a step does not pass anybody who waits before and after it.
  std::optional<std::string> passes(RoomState const& before, RoomState const& after) const {
    for (std::size_t i = 0; i < guests(); ++i) {
      if (before.holds[i] != 0 || after.holds[i] == 0) continue;
      auto const own = std::ranges::find(before.queue, i);
      for (auto other = before.queue.begin(); other != own; ++other)
        if (std::ranges::count(after.queue, *other) > 0 && before.phase[*other] == Phase::waiting) return "somebody was passed";
    }
    return std::nullopt;
  }

 private:
  std::size_t count(RoomState const& s, char kind) const { return static_cast<std::size_t>(std::ranges::count(s.holds, kind)); }

  bool admits(RoomState const& s, char kind) const {
    if (kind == 'r') return count(s, 'w') == 0;
    if (kind == 'w') return count(s, 'w') + count(s, 'r') == 0;
    return count(s, 'p') < permits_ + (flaw_ == Flaw::one_permit_too_many ? 1 : 0);
  }

  void serve(RoomState& s) const {
    while (!s.queue.empty() && admits(s, kinds_[s.queue.front()])) {
      auto const head = s.queue.front();
      s.queue.erase(s.queue.begin());
      s.holds[head] = kinds_[head];
      s.turn[head] = true;
    }
  }

  bool acquire(RoomState& s, std::size_t i, bool waits) const {
    serve(s);
    if (s.holds[i] != 0) {
      s.turn[i] = false;
      s.phase[i] = Phase::in;
    } else if ((s.queue.empty() || flaw_ == Flaw::newcomers_pass) && admits(s, kinds_[i])) {
      s.holds[i] = kinds_[i];
      s.phase[i] = Phase::in;
      std::erase(s.queue, i);
    } else if (waits) {
      s.phase[i] = Phase::waiting;
      if (std::ranges::count(s.queue, i) == 0) s.queue.push_back(static_cast<std::uint8_t>(i));
    }
    return true;
  }

  bool nudge(RoomState& s, std::size_t i) const {
    if (flaw_ != Flaw::nudge_does_not_serve) serve(s);
    // Not in line and not in: it is told so, and asks anew. In, and nothing to pop: it is told when its claim has run out.
    if (s.holds[i] == 0 && std::ranges::count(s.queue, i) == 0) return flaw_ == Flaw::a_lost_place_is_not_told || acquire(s, i, true);
    if (s.holds[i] != 0 && !s.turn[i]) return claim_runs_out(s, i);
    return true;
  }

  static bool pop(RoomState& s, std::size_t i) {
    if (!s.turn[i]) return false;
    s.turn[i] = false;
    s.phase[i] = Phase::in;
    return true;
  }

  bool release(RoomState& s, std::size_t i) const {
    s.holds[i] = 0;
    s.turn[i] = false;
    s.phase[i] = Phase::out;
    std::erase(s.queue, i);
    serve(s);
    return true;
  }

  bool downgrade(RoomState& s, std::size_t i) const {
    s.holds[i] = 'r';
    serve(s);
    return true;
  }

  /// Only time passes: no script runs.
  static bool claim_runs_out(RoomState& s, std::size_t i) {
    s.turn[i] = false;
    return std::exchange(s.holds[i], '\0') != 0;
  }
  static bool lose(RoomState& s, std::size_t i) {
    s.phase[i] = Phase::out;
    s.holds[i] = 0;
    return true;
  }
  static bool forget_dead(RoomState& s, std::size_t i) {
    bool const held = claim_runs_out(s, i);
    bool const waited = std::erase(s.queue, i) > 0;
    return held || waited;
  }

  std::string kinds_;
  std::size_t permits_;
  std::uint8_t crashes_;
  Flaw flaw_;
};

/// What a visit of every state found.
struct Verdict {
  std::size_t states{0};
  std::optional<std::string> wrong{};
};

/// Visits all states. Also: from each, whoever waits can get in by what the protocol and honest holders do by themselves.
inline Verdict visit_all(RoomModel const& model) {
  Verdict verdict;
  std::map<RoomState, std::size_t> numbers{{RoomState{}, 0}};
  std::vector<RoomState> states{RoomState{}};
  std::vector<std::vector<std::size_t>> helped_from;  // by state: from where it is reached helpfully
  for (std::size_t at = 0; at < states.size(); ++at) {
    auto const from = states[at];
    if (auto wrong = model.wrong(from); wrong && !verdict.wrong) verdict.wrong = std::move(wrong);
    for (auto& [to, helpful] : model.steps(from)) {
      if (auto passed = model.passes(from, to); passed && !verdict.wrong) verdict.wrong = std::move(passed);
      auto const [entry, fresh] = numbers.emplace(to, states.size());
      if (fresh) states.push_back(std::move(to));
      helped_from.resize(states.size());
      if (helpful) helped_from[entry->second].push_back(at);
    }
  }
  verdict.states = states.size();
  helped_from.resize(states.size());
  for (std::size_t guest = 0; guest < model.guests(); ++guest) {
    std::vector<bool> gets_in(states.size(), false);
    std::deque<std::size_t> next;
    for (std::size_t i = 0; i < states.size(); ++i)
      if (states[i].phase[guest] == Phase::in) {
        gets_in[i] = true;
        next.push_back(i);
      }
    for (; !next.empty(); next.pop_front())
      for (auto const before : helped_from[next.front()])
        if (!gets_in[before]) {
          gets_in[before] = true;
          next.push_back(before);
        }
    for (std::size_t i = 0; i < states.size(); ++i)
      if (states[i].phase[guest] == Phase::waiting && !gets_in[i] && !verdict.wrong) verdict.wrong = "somebody waits for ever";
  }
  return verdict;
}

}  // namespace models
