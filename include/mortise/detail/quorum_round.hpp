// SPDX-License-Identifier: MIT
// The decisions of a quorum: one acquisition over many nodes, and one keep or release. No I/O, no clock: whoever carries the
// requests tells what came back. docs/quorum.md says why the rules are these.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <mortise/detail/verbs.hpp>

namespace mortise::inline v1::detail {

/// More than half of all nodes, whether they are in reach or not: any two majorities share a node.
constexpr std::size_t majority(std::size_t nodes) noexcept { return nodes / 2 + 1; }

/// How far a node's grant may be trusted.
enum class Vote : std::uint8_t {
  none,       ///< it may have lost its data: not asked
  unopposed,  ///< as new as the whole deployment: counts if every other node has answered and none knows a lease older than it
  full,
};

/// One acquisition: one token and one floor at all nodes. take_request() says what is to be written to a node, answered(),
/// refused() and lost() what came of it. Granted as soon as enough nodes have confirmed one fence, by granting it or by a
/// KEEP; failed as soon as that cannot happen any more, and then undone wherever it may have been carried out.
class AcquireRound {
 public:
  enum class Outcome : std::uint8_t { open, granted, failed };

  AcquireRound(std::size_t nodes, std::size_t needed) : nodes_(nodes), needed_{needed} {}

  /// The node takes part. One that is never invited counts as failed.
  /// `born`: since when the process behind it has been there at the latest, on the clock that fences are drawn from.
  void invite(std::size_t node, Vote vote, std::uint64_t born = 0) noexcept {
    if (vote == Vote::none) return;
    nodes_[node].stage = Stage::invited;
    nodes_[node].vote = vote;
    nodes_[node].born = born;
    looks_ = looks_ || vote == Vote::unopposed;
  }
  /// Whether each node has to tell its last fence, before it is asked for a grant.
  bool looks() const noexcept { return looks_; }
  /// The last fence of a node before it was asked for a grant; 0: none.
  void noted(std::size_t node, std::uint64_t fence) noexcept { nodes_[node].last_fence = fence; }

  /// Everybody is invited: with too few it has failed already.
  void begin() noexcept { decide(); }

  /// What is to be written to this node now, if anything: it counts as written.
  std::optional<Verb> take_request(std::size_t node) noexcept;
  /// The fence a KEEP of this round carries, and after a grant that of the lease.
  Fence fence() const noexcept { return Fence{fence_}; }

  void answered(std::size_t node, Verb verb, Answer const& answer) noexcept;
  /// An error reply: nothing was done.
  void refused(std::size_t node, Verb verb) noexcept;
  /// No further answer of this node will be heard, whatever it was asked.
  void lost(std::size_t node) noexcept;
  /// Out of time, or the lease would be over: failed unless it is granted.
  void give_up() noexcept {
    if (outcome_ == Outcome::open) fail();
  }
  /// Granted, but of no use any more: undone like a failure.
  void renounce() noexcept { fail(); }

  Outcome outcome() const noexcept { return outcome_; }
  /// Whether everything has been undone that can be.
  bool undone() const noexcept {
    return std::none_of(nodes_.begin(), nodes_.end(), [](Node const& node) { return node.undo == Step::due || node.undo == Step::asked; });
  }
  /// So many nodes answered that the failure is an answer: somebody else holds the lock, or asks for it at this moment.
  bool busy() const noexcept {
    auto const heard = count([](Node const& node) { return node.stage == Stage::granted || node.stage == Stage::busy; });
    return heard >= needed_ && (any_busy() || refusals_of_raise_ > 0);
  }
  /// It was asked, and whether it granted will never be heard: what it may hold has to be released until that is sure.
  bool doubtful_at(std::size_t node) const noexcept { return nodes_[node].stage == Stage::doubtful; }
  bool granted_by(std::size_t node) const noexcept { return nodes_[node].stage == Stage::granted; }
  bool busy_at(std::size_t node) const noexcept { return nodes_[node].stage == Stage::busy; }
  /// No node has granted: the lock is held, rather than fought for.
  bool nothing_granted() const noexcept { return count([](Node const& node) { return node.stage == Stage::granted; }) == 0; }

 private:
  enum class Stage : std::uint8_t { absent, invited, asked, granted, busy, failed, doubtful };  // the last: asked, never to be heard
  enum class Step : std::uint8_t { none, due, asked, done, failed };
  struct Node {
    Stage stage{Stage::absent};
    Vote vote{Vote::none};
    Step raise{Step::none};
    Step undo{Step::none};
    std::uint64_t fence{0};
    std::uint64_t last_fence{0};
    std::uint64_t born{0};
  };

  template <class Predicate>
  std::size_t count(Predicate&& predicate) const noexcept {
    return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), predicate));
  }
  bool any_busy() const noexcept {
    return std::any_of(nodes_.begin(), nodes_.end(), [](Node const& node) { return node.stage == Stage::busy; });
  }
  static bool pending(Node const& node) noexcept { return node.stage == Stage::invited || node.stage == Stage::asked; }

  void decide() noexcept;
  void begin_raise(std::uint64_t fence) noexcept;
  void fail() noexcept;

  std::vector<Node> nodes_;
  std::size_t needed_;
  std::size_t refusals_of_raise_{0};
  std::uint64_t fence_{0};
  bool raising_{false};
  bool looks_{false};
  Outcome outcome_{Outcome::open};
};

/// One KEEP or RELEASE at all nodes.
class TallyRound {
 public:
  TallyRound(Verb verb, std::size_t nodes, std::size_t needed) noexcept : verb_{verb}, nodes_{nodes}, needed_{needed} {}

  void answered(bool yes) noexcept { ++(yes ? yes_ : no_); }
  void failed() noexcept { ++failed_; }

  /// Nothing: not known yet, or with nothing pending() never to be known.
  std::optional<bool> verdict() const noexcept {
    if (yes_ >= needed_) return true;
    if (no_ > nodes_ - needed_) return false;
    // A release that so many answered, and for which no more said "not yours" than a lease may do without, was of a lease
    // that stood: the nodes that are out of reach had granted it.
    if (verb_ == Verb::release && !pending() && yes_ > 0 && yes_ + no_ >= needed_) return true;
    return std::nullopt;
  }
  bool pending() const noexcept { return yes_ + no_ + failed_ < nodes_; }
  bool decided() const noexcept { return verdict().has_value() || !pending(); }

 private:
  Verb verb_;
  std::size_t nodes_;
  std::size_t needed_;
  std::size_t yes_{0};
  std::size_t no_{0};
  std::size_t failed_{0};
};

// --- below: bodies

inline std::optional<Verb> AcquireRound::take_request(std::size_t node) noexcept {
  auto& at = nodes_[node];
  if (at.undo == Step::due) {
    at.undo = Step::asked;
    return Verb::release;
  }
  if (outcome_ != Outcome::open) return std::nullopt;
  if (at.raise == Step::due) {
    at.raise = Step::asked;
    return Verb::keep;
  }
  if (at.stage != Stage::invited) return std::nullopt;
  at.stage = Stage::asked;
  return Verb::acquire;
}

inline void AcquireRound::answered(std::size_t node, Verb verb, Answer const& answer) noexcept {
  auto& at = nodes_[node];
  if (verb == Verb::release) {
    at.undo = Step::done;
    return;
  }
  if (verb == Verb::keep) {
    at.raise = answer.yes ? Step::done : Step::failed;
    refusals_of_raise_ += answer.yes ? 0 : 1;
  } else {
    at.stage = answer.yes ? Stage::granted : Stage::busy;
    if (answer.yes) at.fence = static_cast<std::uint64_t>(answer.value);
    // Comes while the fence is being raised: may join, unless its own is beyond that.
    if (answer.yes && raising_) at.raise = at.fence <= fence_ ? Step::due : Step::failed;
  }
  decide();
}

inline void AcquireRound::refused(std::size_t node, Verb verb) noexcept {
  auto& at = nodes_[node];
  switch (verb) {
    case Verb::acquire: at.stage = Stage::failed; break;
    case Verb::keep: at.raise = Step::failed; break;
    case Verb::release: at.undo = Step::failed; break;
  }
  decide();
}

inline void AcquireRound::lost(std::size_t node) noexcept {
  auto& at = nodes_[node];
  if (pending(at)) at.stage = at.stage == Stage::asked ? Stage::doubtful : Stage::failed;
  if (at.raise == Step::due || at.raise == Step::asked) at.raise = Step::failed;
  if (at.undo == Step::due || at.undo == Step::asked) at.undo = Step::failed;
  decide();
}

inline void AcquireRound::decide() noexcept {
  if (outcome_ != Outcome::open) return;
  auto const open = count(pending);
  // A fence is the time of its grant: a holder from before the node's birth may have had this node too.
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
  for (auto const& node : nodes_)
    if (node.stage == Stage::busy && node.last_fence != 0) oldest = std::min(oldest, node.last_fence);
  auto const may_vote = [&](Node const& node) { return node.vote == Vote::full || oldest > node.born; };
  auto const votes = [&](Node const& node) { return node.vote == Vote::full || (oldest > node.born && open == 0); };

  if (!raising_) {
    std::size_t grants = 0;
    std::uint64_t largest = 0;
    for (auto const& node : nodes_) {
      if (node.stage != Stage::granted || !votes(node)) continue;
      ++grants;
      largest = std::max(largest, node.fence);
      auto const alike = count([&](Node const& other) { return other.stage == Stage::granted && votes(other) && other.fence == node.fence; });
      if (alike < needed_) continue;
      fence_ = node.fence;
      outcome_ = Outcome::granted;
      return;
    }
    if (grants >= needed_) return begin_raise(largest);
    if (count([&](Node const& node) { return may_vote(node) && (pending(node) || node.stage == Stage::granted); }) < needed_) fail();
    return;
  }

  if (count([&](Node const& node) { return node.raise == Step::done && votes(node); }) >= needed_) {
    outcome_ = Outcome::granted;
    return;
  }
  auto const may_confirm = [&](Node const& node) {
    return may_vote(node) && (pending(node) || node.raise == Step::due || node.raise == Step::asked || node.raise == Step::done);
  };
  if (count(may_confirm) < needed_) fail();
}

inline void AcquireRound::begin_raise(std::uint64_t fence) noexcept {
  raising_ = true;
  fence_ = fence;
  for (auto& node : nodes_)
    if (node.stage == Stage::granted) node.raise = node.fence <= fence ? Step::due : Step::failed;
}

inline void AcquireRound::fail() noexcept {
  outcome_ = Outcome::failed;
  for (auto& node : nodes_)
    if (node.stage == Stage::granted || node.stage == Stage::asked || node.stage == Stage::doubtful) node.undo = Step::due;
}

}  // namespace mortise::inline v1::detail
