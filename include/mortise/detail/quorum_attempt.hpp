// SPDX-License-Identifier: MIT
// The rounds of quorum_round.hpp over real connections: one attempt to acquire, and one keep or release.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <mortise/core.hpp>
#include <mortise/detail/quorum_lanes.hpp>

namespace mortise::inline v1::detail {

/// What the nodes said, in one line. `said(node)`: nothing where the node's own fault tells it.
template <class Said>
Error no_quorum(QuorumNodes& nodes, Lanes& lanes, std::string const& what, Said&& said) {
  std::string line = what + ": " + std::to_string(nodes.needed()) + " of " + std::to_string(nodes.size()) + " nodes have to agree: ";
  std::size_t hopeless = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (node > 0) line += "; ";
    auto const& fault = lanes[node].fault();
    if (auto const words = said(node); !words.empty()) {
      line += nodes.endpoint(node) + ": " + words;
    } else if (!nodes.on(node)) {
      line += nodes.reason(node);
      if (fault && !fault->retryable()) ++hopeless;
    } else if (fault) {
      line += fault->what();
      if (!fault->retryable()) ++hopeless;
    } else {
      line += nodes.endpoint(node) + ": not connected";
    }
  }
  Error error{Errc::no_quorum, line};
  return hopeless > nodes.size() - nodes.needed() ? std::move(error).permanent() : error;
}

/// One attempt: one token, one floor, and whatever has to be undone.
class QuorumAttempt {
 public:
  enum class Result : std::uint8_t { granted, busy, too_late, no_quorum };

  QuorumAttempt(QuorumNodes& nodes, Lanes& lanes, LockSpec const& spec, std::string_view token)
      : nodes_{nodes}, lanes_{lanes}, ttl_{spec.options.ttl}, round_{nodes.size(), nodes.needed()},
        acquire_{acquire_request(spec.keys, token, ttl_, retention_for(ttl_), milliseconds::zero())},
        keep_{keep_request(spec.keys, token, ttl_, Fence{}, retention_for(ttl_))},
        release_{release_request(spec.keys, token, claim_time, retention_for(ttl_))} {
    acquire_.floor = wall_microseconds();
  }

  Result run(Grant& grant, TimePoint deadline);

  /// Some got in and nobody enough: worth another attempt soon.
  bool split() const noexcept { return !round_.nothing_granted(); }
  /// A connection broke under it: on a new one the answer may be another.
  bool broke() const noexcept { return broke_; }
  nanoseconds took() const noexcept { return took_; }
  Error error() { return detail::no_quorum(nodes_, lanes_, "lock " + printable(acquire_.keys->lock), [this](std::size_t node) { return said(node); }); }

  void answered(std::size_t node, std::size_t, Verb verb, Answer const& answer) noexcept { round_.answered(node, verb, answer); }
  void noted(std::size_t node, std::uint64_t fence) noexcept { round_.noted(node, fence); }
  void refused(std::size_t node, std::size_t, Verb verb, Error const&) noexcept { round_.refused(node, verb); }
  void lost(std::size_t node) noexcept {
    broke_ = broke_ || (lanes_[node].fault() && lanes_[node].fault()->errc() == Errc::connection_lost);
    round_.lost(node);
  }

 private:
  void sit_out_short_quarantine();
  void carry(TimePoint until);
  void write_due() noexcept;
  std::string said(std::size_t node);

  QuorumNodes& nodes_;
  Lanes& lanes_;
  milliseconds ttl_;
  AcquireRound round_;
  Request acquire_, keep_, release_;
  nanoseconds took_{};
  bool broke_{false};
};

/// One KEEP or RELEASE of a lease.
class QuorumTally {
 public:
  QuorumTally(QuorumNodes& nodes, Lanes& lanes, Request const& request) noexcept
      : nodes_{nodes}, lanes_{lanes}, request_{request}, round_{request.verb, nodes.size(), nodes.needed()} {}

  /// The verdict, if there is one by `deadline`.
  std::optional<bool> run(TimePoint deadline, TimePoint& sent) noexcept;
  bool broke() const noexcept { return broke_; }
  bool asked() const noexcept { return asked_; }
  Error error();

  void answered(std::size_t node, std::size_t, Verb, Answer const& answer) noexcept {
    heard_[node] = answer.yes ? 'y' : 'n';
    round_.answered(answer.yes);
  }
  void refused(std::size_t node, std::size_t, Verb, Error const&) noexcept { failed(node, false); }
  void lost(std::size_t node) noexcept {
    broke_ = broke_ || (lanes_[node].fault() && lanes_[node].fault()->errc() == Errc::connection_lost);
    if (heard_[node] == '?') failed(node, true);
  }

 private:
  void failed(std::size_t node, bool lost) noexcept {
    heard_[node] = 'f';
    round_.failed();
    if (request_.verb == Verb::release) nodes_.owe(node, request_, nodes_.largest_ttl(), lost);
  }

  QuorumNodes& nodes_;
  Lanes& lanes_;
  Request const& request_;
  TallyRound round_;
  std::string heard_ = std::string(nodes_.size(), ' ');  // ' ' not asked, '?' asked, 'y', 'n', 'f' failed
  bool broke_{false};
  bool asked_{false};
};

// --- below: bodies

inline auto QuorumAttempt::run(Grant& grant, TimePoint deadline) -> Result {
  lanes_.prepare(deadline, Lanes::Until::all_are_there);
  lanes_.check_distinct();
  sit_out_short_quarantine();
  auto const began = Clock::now();
  for (std::size_t node = 0; node < lanes_.size(); ++node) {
    if (!lanes_[node].ready() || lanes_[node].behind()) continue;
    auto const vote = nodes_.vote(node, began);
    round_.invite(node, vote, vote == Vote::unopposed ? nodes_.born_at(node, began) : 0);
  }
  round_.begin();
  // Counted from before the first of them is written; an answer that comes when that is over is of no use.
  auto const until = valid_until(began, ttl_);
  carry(std::min(deadline, until));
  auto const ended = Clock::now();
  took_ = ended - began;
  bool const late = round_.outcome() == AcquireRound::Outcome::granted && ended >= until;
  if (late) round_.renounce();
  if (round_.outcome() == AcquireRound::Outcome::granted) {
    lanes_.detach(false);
    grant = {.fence = round_.fence(), .sent = began, .until = until, .brief = false, .handed_over = false};
    return Result::granted;
  }
  // Undone at once wherever it may have been carried out; nobody waits for a node longer than the others' answers take.
  carry(std::min(after(ended, nodes_.node_timeout()), std::max(deadline, after(ended, milliseconds{20}))));
  lanes_.detach(true);
  if (late || (ended >= until && !round_.busy())) return Result::too_late;
  return round_.busy() ? Result::busy : Result::no_quorum;
}

/// A few milliseconds are waited for rather than failed for.
inline void QuorumAttempt::sit_out_short_quarantine() {
  constexpr milliseconds short_enough{5};
  auto const now = Clock::now();
  milliseconds longest{0};
  for (std::size_t node = 0; node < lanes_.size(); ++node) {
    if (!lanes_[node].ready() || nodes_.vote(node, now) == Vote::full) continue;
    if (auto const rest = nodes_.quarantined_for(node, now); rest <= short_enough) longest = std::max(longest, rest);
  }
  if (longest > milliseconds::zero()) await_descriptor(-1, 0, after(now, longest), nullptr);
}

/// Until the round is decided, or what it did is undone.
inline void QuorumAttempt::carry(TimePoint until) {
  bool const undoing = round_.outcome() == AcquireRound::Outcome::failed;
  for (;;) {
    write_due();
    if (round_.outcome() == AcquireRound::Outcome::granted) return;
    if (round_.outcome() == AcquireRound::Outcome::failed && (!undoing || round_.undone())) return;
    if (Clock::now() >= until) break;
    lanes_.turn(until, nullptr, *this);
  }
  round_.give_up();
}

inline void QuorumAttempt::write_due() noexcept {
  bool again = true;
  while (std::exchange(again, false)) {
    for (std::size_t node = 0; node < lanes_.size(); ++node) {
      auto const verb = round_.take_request(node);
      if (!verb) continue;
      auto& lane = lanes_[node];
      if (*verb == Verb::release && (lane.closed() || round_.doubtful_at(node)))
        nodes_.owe(node, release_, ttl_, round_.doubtful_at(node));
      if (lane.closed()) {
        round_.lost(node);
        again = true;
        continue;
      }
      if (*verb == Verb::keep) keep_.fence = round_.fence();
      if (*verb == Verb::acquire && round_.looks()) {
        lane.look(*acquire_.keys, acquire_);
        if (lane.closed()) continue;  // told as lost
      }
      lane.ask(*verb == Verb::acquire ? acquire_ : *verb == Verb::keep ? keep_ : release_, 0);
    }
  }
  lanes_.flush();
}

inline std::string QuorumAttempt::said(std::size_t node) {
  if (round_.granted_by(node)) return "granted";
  if (round_.busy_at(node)) return "busy";
  if (lanes_[node].ready() && lanes_[node].behind()) return "has not answered what it was asked before";
  auto const now = Clock::now();
  if (lanes_[node].ready() && nodes_.vote(node, now) == Vote::none)
    return "in quarantine for " + text(nodes_.quarantined_for(node, now)) + ", for it may have lost its data in a restart";
  if (lanes_[node].ready() && !lanes_[node].fault()) return "not asked, for too few others can be";
  return {};
}

inline std::optional<bool> QuorumTally::run(TimePoint deadline, TimePoint& sent) noexcept {
  lanes_.prepare(deadline, Lanes::Until::all_are_there);
  sent = Clock::now();
  for (std::size_t node = 0; node < lanes_.size(); ++node) {
    if (!lanes_[node].ready()) {
      failed(node, false);
      continue;
    }
    heard_[node] = '?';
    asked_ = true;
    lanes_[node].ask(request_, 0);
  }
  lanes_.flush();
  while (!round_.decided() && Clock::now() < deadline) lanes_.turn(deadline, nullptr, *this);
  if (request_.verb == Verb::release) {
    // A moment for the others, so that in most cases the lock is gone everywhere when the call returns; not for a node that
    // already owes an older answer.
    auto const decided = Clock::now();
    auto const grace = std::min(deadline, decided + 2 * (decided - sent));
    while (round_.pending() && lanes_.keep_up() && Clock::now() < grace) lanes_.turn(grace, nullptr, *this);
  }
  lanes_.detach(request_.verb == Verb::release);
  return round_.verdict();
}

inline Error QuorumTally::error() {
  auto const what = std::string{request_.verb == Verb::keep ? "keeping" : "releasing"} + " lock " + printable(request_.keys->lock);
  auto error = detail::no_quorum(nodes_, lanes_, what, [this](std::size_t node) -> std::string {
    switch (heard_[node]) {
      case 'y': return request_.verb == Verb::keep ? "kept" : "released";
      case 'n': return "not held there";
      case '?': return "no answer by the deadline";
      default: return {};
    }
  });
  return asked_ ? std::move(error).unanswered() : error;
}

}  // namespace mortise::inline v1::detail
