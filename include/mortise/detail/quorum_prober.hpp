// SPDX-License-Identifier: MIT
// The prober: the thread that asks nodes which are off whether they answer again, and releases there what is owed. It
// starts when a node fails for the first time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mortise/detail/quorum_lane.hpp>
#include <mortise/detail/random.hpp>
#include <mortise/detail/worker.hpp>

namespace mortise::inline v1::detail {

class Prober : public std::enable_shared_from_this<Prober> {
 public:
  explicit Prober(std::shared_ptr<QuorumNodes> nodes) : nodes_{std::move(nodes)}, probes_(nodes_->size()) {
    for (std::size_t node = 0; node < nodes_->size(); ++node) lanes_.emplace_back(*nodes_, node);
  }

  /// There is something to do: a node went off, or something is owed. Without a thread to be had, the calls that find too few
  /// nodes try them all, and leases end by themselves.
  void work() noexcept {
    try {
      worker_.start(shared_from_this());
      worker_.wake();
    } catch (...) {
    }
  }

  /// One look at all nodes, and one wait for answers if any are awaited.
  TimePoint step() noexcept;

  void stop() noexcept { worker_.stop(); }

 private:
  static constexpr std::size_t most_at_once = 16;

  struct Probe {
    unsigned failures{0};
    TimePoint due{};
    std::vector<Debt> asked{};  // by tag
    std::vector<Request> requests{};
  };

  struct Hearing {
    Prober& prober;
    void answered(std::size_t node, std::size_t tag, Verb, Answer const& answer) noexcept {
      auto& debt = prober.probes_[node].asked[tag];
      if (!answer.yes && debt.loose) prober.owe_again(node, std::move(debt));
    }
    void refused(std::size_t node, std::size_t tag, Verb, Error const&) noexcept {
      prober.owe_again(node, std::move(prober.probes_[node].asked[tag]));
    }
  };

  void look_after(std::size_t node, TimePoint now, TimePoint& next) noexcept;
  void ask(std::size_t node, TimePoint now) noexcept;
  void owe_again(std::size_t node, Debt debt) noexcept {
    debt.due = after(Clock::now(), backoff(debt.attempts++, random()));
    nodes_->owe(node, std::move(debt));
  }
  static std::uint64_t random() noexcept {
    try {
      return random_stock().take<1>()[0];
    } catch (...) {
      return 0;
    }
  }

  std::shared_ptr<QuorumNodes> nodes_;
  std::vector<Lane> lanes_{};
  std::vector<Probe> probes_;
  Worker<Prober> worker_{"mortise-prober"};
};

// --- below: bodies

inline TimePoint Prober::step() noexcept {
  for (;;) {
    if (worker_.stopping()) return never;
    auto const now = Clock::now();
    auto next = never;
    for (std::size_t node = 0; node < lanes_.size(); ++node) look_after(node, now, next);

    std::vector<pollfd> polled;
    try {
      for (auto const& lane : lanes_) {
        bool const waits = !lane.closed() && lane.wanted() != 0;
        polled.push_back({waits ? lane.descriptor() : -1, waits ? lane.wanted() : short{0}, 0});
      }
      polled.push_back({worker_.bell().descriptor(), POLLIN, 0});
    } catch (...) {  // no memory: later
      return after(now, milliseconds{100});
    }
    if (std::all_of(polled.begin(), polled.end() - 1, [](pollfd const& one) { return one.fd < 0; })) return next;
    ::poll(polled.data(), polled.size(), poll_timeout(next, now));
    if (polled.back().revents != 0) worker_.bell().silence();
    for (std::size_t node = 0; node < lanes_.size(); ++node) {
      if ((polled[node].revents & POLLOUT) != 0) lanes_[node].flush();
      if ((polled[node].revents & ~POLLOUT) != 0) lanes_[node].read(Hearing{*this});
    }
  }
}

/// Connects where the node is off or something is owed, asks what is to be asked, and gives up what takes too long.
inline void Prober::look_after(std::size_t node, TimePoint now, TimePoint& next) noexcept {
  auto& lane = lanes_[node];
  auto& probe = probes_[node];
  auto const owes = [&] { return nodes_->next_debt(node); };
  if (lane.late_at() <= now) lane.give_up();
  if (lane.take_broken()) {
    for (auto& debt : probe.asked) owe_again(node, std::move(debt));
    probe.asked.clear();
    probe.due = after(now, backoff(probe.failures++, random()));
  }
  bool const wanted = !nodes_->on(node) || owes() <= now;
  if (lane.closed()) {
    if (wanted && probe.due <= now) {
      lane.begin(after(now, nodes_->connect_timeout()));
    } else if (!nodes_->on(node)) {
      next = std::min(next, probe.due);
    } else {
      next = std::min(next, std::max(owes(), probe.due));
    }
  }
  if (lane.ready()) {
    if (lane.settled()) {
      probe.failures = 0;
      probe.asked.clear();
      ask(node, now);
    }
    if (lane.settled()) {
      if (owes() == never) lane.hang_up();  // nothing to do here: no connection is kept
      next = std::min(next, owes());
    }
  }
  if (!lane.closed()) next = std::min(next, lane.late_at());
}

inline void Prober::ask(std::size_t node, TimePoint now) noexcept {
  auto& probe = probes_[node];
  try {
    probe.requests.clear();
    probe.requests.reserve(most_at_once);  // they stay where they are
    probe.asked = nodes_->due_debts(node, now, most_at_once);
  } catch (...) {  // no memory: later
    return;
  }
  for (auto const& debt : probe.asked) {
    if (lanes_[node].closed()) break;
    probe.requests.push_back(release_request(debt.keys, debt.owner, claim_time, debt.retention));
    lanes_[node].ask(probe.requests.back(), probe.requests.size() - 1);
  }
  lanes_[node].flush();
}

}  // namespace mortise::inline v1::detail
