// SPDX-License-Identifier: MIT
// What all threads of a Quorum know of its nodes: which are worth asking, which process answers there, and what is still to
// be released at them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mortise/connection.hpp>
#include <mortise/detail/quorum_times.hpp>
#include <mortise/detail/verbs.hpp>

namespace mortise::inline v1::detail {

/// A token that may hold a lock at a node although nobody counts on it: to be released there, in the background.
struct Debt {
  LockKeys keys;
  std::string owner;
  milliseconds retention;
  TimePoint until;         // the key is gone by then
  bool loose{false};       // its ACQUIRE may come after a RELEASE: "not yours" proves nothing
  unsigned attempts{0};
  TimePoint due{};
};

/// One node of the list.
struct NodeConfig {
  Address address;
  Login login;
};

/// A node that failed is *off*: no call waits for it, and only the prober asks whether it answers again. Thread-safe.
class QuorumNodes {
 public:
  struct Times {
    milliseconds node_timeout;
    milliseconds connect_timeout;
    milliseconds quarantine;  // 0: the largest TTL in use
  };
  /// Told outside the mutex: a node went off (with the reason) or came back (without).
  using Told = std::function<void(std::string const& endpoint, std::string const* reason)>;

  QuorumNodes(std::vector<NodeConfig> nodes, std::size_t needed, Times times)
      : configs_{std::move(nodes)}, needed_{needed}, times_{times}, states_(configs_.size()), lives_(configs_.size()) {
    for (auto const& config : configs_) endpoints_.push_back(config.address.text());
  }

  std::size_t size() const noexcept { return configs_.size(); }
  std::size_t needed() const noexcept { return needed_; }
  milliseconds node_timeout() const noexcept { return times_.node_timeout; }
  milliseconds connect_timeout() const noexcept { return times_.connect_timeout; }
  std::string const& endpoint(std::size_t node) const noexcept { return endpoints_[node]; }
  NodeConfig const& config(std::size_t node) const noexcept { return configs_[node]; }
  SocketLedger& ledger() noexcept { return ledger_; }
  void on_change(Told told) { told_ = std::move(told); }

  bool on(std::size_t node) const noexcept { return !states_[node].off.load(std::memory_order_acquire); }
  /// Why a node is off.
  std::string reason(std::size_t node);

  void take_off(std::size_t node, std::string reason);
  void put_on(std::size_t node);
  /// A connection broke, or none could be made: the second time in a row, without an answer in between, the node is taken off.
  void stumbled(std::size_t node, std::string const& reason) {
    if (states_[node].stumbles.fetch_add(1, std::memory_order_relaxed) > 0) take_off(node, reason);
  }
  void answered(std::size_t node) noexcept {
    if (states_[node].stumbles.load(std::memory_order_relaxed) != 0) states_[node].stumbles.store(0, std::memory_order_relaxed);
  }

  /// Who answers there. Throws Errc::invalid_option if the same server stands in the list twice.
  void greeted(std::size_t node, std::string run_id, std::chrono::seconds uptime, TimePoint received);
  /// The longest lease that a node may have forgotten.
  void note_ttl(milliseconds ttl) noexcept {
    auto seen = largest_ttl_.load(std::memory_order_relaxed);
    while (seen < ttl.count() && !largest_ttl_.compare_exchange_weak(seen, ttl.count(), std::memory_order_relaxed)) {
    }
  }
  Vote vote(std::size_t node, TimePoint now);
  /// Since when the process behind the node has been there at the latest, on the wall clock in µs.
  std::uint64_t born_at(std::size_t node, TimePoint now);
  /// How long the vote of a node is still void.
  milliseconds quarantined_for(std::size_t node, TimePoint now);

  /// What cannot be released now is released when the node answers again. Forgets what would be too much: leases end anyway.
  void owe(std::size_t node, Debt debt) noexcept;
  void owe(std::size_t node, Request const& request, milliseconds ttl, bool loose) noexcept;
  std::vector<Debt> due_debts(std::size_t node, TimePoint now, std::size_t most);
  /// When the first debt of the node is due.
  TimePoint next_debt(std::size_t node);
  milliseconds largest_ttl() const noexcept { return milliseconds{largest_ttl_.load(std::memory_order_relaxed)}; }

  /// Rings when there is something to do in the background.
  void on_work(std::function<void()> ring) { ring_ = std::move(ring); }

 private:
  static constexpr std::size_t most_debts = 256;

  struct State {
    std::atomic<bool> off{false};
    std::atomic<unsigned> stumbles{0};
    std::string reason{};     // under the mutex, as what follows
    std::deque<Debt> debts{};
  };

  milliseconds quarantine() const noexcept { return times_.quarantine > milliseconds::zero() ? times_.quarantine : largest_ttl(); }

  std::vector<NodeConfig> const configs_;
  std::size_t const needed_;
  Times const times_;
  std::vector<std::string> endpoints_{};
  SocketLedger ledger_{};
  Told told_{};
  std::function<void()> ring_{};
  std::atomic<std::int64_t> largest_ttl_{0};
  std::mutex mutex_{};
  std::deque<State> states_;
  std::vector<NodeLife> lives_;
};

// --- below: bodies

inline std::string QuorumNodes::reason(std::size_t node) {
  std::lock_guard const guard{mutex_};
  return states_[node].reason;
}

inline void QuorumNodes::take_off(std::size_t node, std::string reason) {
  auto& state = states_[node];
  {
    std::lock_guard const guard{mutex_};
    state.reason = reason;
    if (state.off.exchange(true, std::memory_order_acq_rel)) return;
  }
  if (told_) told_(endpoints_[node], &reason);
  if (ring_) ring_();
}

inline void QuorumNodes::put_on(std::size_t node) {
  auto& state = states_[node];
  {
    std::lock_guard const guard{mutex_};
    if (!state.off.exchange(false, std::memory_order_acq_rel)) return;
    state.reason.clear();
    state.stumbles.store(0, std::memory_order_relaxed);
  }
  if (told_) told_(endpoints_[node], nullptr);
}

inline void QuorumNodes::greeted(std::size_t node, std::string run_id, std::chrono::seconds uptime, TimePoint received) {
  std::lock_guard const guard{mutex_};
  if (!run_id.empty())
    for (std::size_t other = 0; other < lives_.size(); ++other)
      if (other != node && lives_[other].run_id == run_id)
        throw Error{Errc::invalid_option, endpoints_[std::min(node, other)] + " and " + endpoints_[std::max(node, other)] +
                                              " are the same server: a quorum needs independent ones, each listed once"};
  note_greeting(lives_[node], std::move(run_id), uptime, received);
}

inline Vote QuorumNodes::vote(std::size_t node, TimePoint now) {
  std::lock_guard const guard{mutex_};
  return vote_of(lives_, node, quarantine(), now);
}

inline std::uint64_t QuorumNodes::born_at(std::size_t node, TimePoint now) {
  std::lock_guard const guard{mutex_};
  auto const age = std::chrono::duration_cast<microseconds>(now - lives_[node].born).count();
  return wall_microseconds() - static_cast<std::uint64_t>(std::max<std::int64_t>(age, 0));
}

inline milliseconds QuorumNodes::quarantined_for(std::size_t node, TimePoint now) {
  std::lock_guard const guard{mutex_};
  return remaining(after(lives_[node].born, quarantine()), now);
}

inline void QuorumNodes::owe(std::size_t node, Debt debt) noexcept {
  try {
    {
      std::lock_guard const guard{mutex_};
      auto& debts = states_[node].debts;
      if (debts.size() >= most_debts) return;
      debts.push_back(std::move(debt));
    }
    if (ring_) ring_();
  } catch (...) {  // no memory: the lease ends by itself
  }
}

inline void QuorumNodes::owe(std::size_t node, Request const& request, milliseconds ttl, bool loose) noexcept {
  try {
    {
      std::lock_guard const guard{mutex_};
      if (states_[node].debts.size() >= most_debts) return;  // before anything is copied: every call may come here
    }
    owe(node, Debt{*request.keys, std::string{request.owner}, request.retention, after(Clock::now(), ttl), loose, 0, {}});
  } catch (...) {
  }
}

inline std::vector<Debt> QuorumNodes::due_debts(std::size_t node, TimePoint now, std::size_t most) {
  std::vector<Debt> due;
  std::lock_guard const guard{mutex_};
  auto& debts = states_[node].debts;
  std::erase_if(debts, [&](Debt const& debt) { return debt.until <= now; });
  for (auto debt = debts.begin(); debt != debts.end() && due.size() < most;) {
    if (debt->due <= now) {
      due.push_back(std::move(*debt));
      debt = debts.erase(debt);
    } else {
      ++debt;
    }
  }
  return due;
}

inline TimePoint QuorumNodes::next_debt(std::size_t node) {
  std::lock_guard const guard{mutex_};
  auto next = never;
  for (auto const& debt : states_[node].debts) next = std::min(next, debt.due);
  return next;
}

}  // namespace mortise::inline v1::detail
