// SPDX-License-Identifier: MIT
// The keeper's way to a quorum: each request of a batch goes to every node, and what they say is folded into one answer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mortise/detail/quorum_attempt.hpp>

namespace mortise::inline v1::detail {

/// Used by the keeper's thread alone.
class QuorumAuthority final : public Authority {
 public:
  explicit QuorumAuthority(std::shared_ptr<QuorumNodes> nodes) : nodes_{std::move(nodes)}, lanes_{nodes_} {}

  QuorumNodes& nodes() noexcept { return *nodes_; }

  void prepare(TimePoint deadline, Wake* interrupt) noexcept override {
    lanes_.prepare(deadline, Lanes::Until::enough_are, interrupt);
  }

  /// When this returns nothing of the batch is left to be written: who drops a lease may count on that.
  void send(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept override {
    try {
      rounds_.clear();
      for (auto const& chore : batch) rounds_.emplace_back(chore.request.verb, nodes_->size(), nodes_->needed());
      heard_.assign(nodes_->size() * batch.size(), '?');
    } catch (...) {  // no memory: unanswered
      rounds_.clear();
      return;
    }
    auto const now = Clock::now();
    for (auto& chore : batch) chore.sent = now;
    for (std::size_t node = 0; node < lanes_.size(); ++node) {
      if (!lanes_[node].ready() || lanes_[node].behind())
        lost(node);
      else
        for (std::size_t i = 0; i < batch.size(); ++i) lanes_[node].ask(batch[i].request, i);
    }
    lanes_.flush();
    auto const until = std::min(deadline, after(now, nodes_->node_timeout()));
    while (lanes_.unsent() && Clock::now() < until)
      if (!lanes_.turn(until, interrupt, *this)) break;
    lanes_.drop_unsent();
  }

  void collect(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept override {
    if (rounds_.empty()) return;
    auto const undecided = [this] { return std::any_of(rounds_.begin(), rounds_.end(), [](TallyRound const& round) { return !round.decided(); }); };
    while (undecided() && Clock::now() < deadline)
      if (!lanes_.turn(deadline, interrupt, *this)) break;
    lanes_.detach(false);
    for (std::size_t i = 0; i < batch.size(); ++i) fold(batch[i], i);
  }

  void answered(std::size_t node, std::size_t tag, Verb, Answer const& answer) noexcept {
    heard(node, tag) = answer.yes ? 'y' : 'n';
    rounds_[tag].answered(answer.yes);
  }
  void refused(std::size_t node, std::size_t tag, Verb, Error const&) noexcept { failed(node, tag); }
  void lost(std::size_t node) noexcept {
    for (std::size_t i = 0; i < rounds_.size(); ++i)
      if (heard(node, i) == '?') failed(node, i);
  }

 private:
  char& heard(std::size_t node, std::size_t tag) noexcept { return heard_[node * rounds_.size() + tag]; }
  void failed(std::size_t node, std::size_t tag) noexcept {
    heard(node, tag) = 'f';
    rounds_[tag].failed();
  }

  void fold(Chore& chore, std::size_t i) noexcept {
    if (auto const verdict = rounds_[i].verdict()) {
      chore.answer.yes = *verdict;
      chore.outcome = Chore::Outcome::answered;
      return;
    }
    try {
      bool const keeps = chore.request.verb == Verb::keep;
      auto const what = std::string{keeps ? "keeping" : "releasing"} + " lock " + printable(chore.request.keys->lock);
      chore.error = no_quorum(*nodes_, lanes_, what, [&](std::size_t node) -> std::string {
        switch (heard(node, i)) {
          case 'y': return keeps ? "kept" : "released";
          case 'n': return "not held there";
          case '?': return "no answer in time";
          default: return {};
        }
      });
    } catch (...) {  // no memory for the reason: unanswered all the same
    }
  }

  std::shared_ptr<QuorumNodes> nodes_;
  Lanes lanes_;
  std::vector<TallyRound> rounds_{};
  std::string heard_{};  // by node and request: '?' asked, 'y', 'n', 'f' failed
};

}  // namespace mortise::inline v1::detail
