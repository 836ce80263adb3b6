// SPDX-License-Identifier: MIT
// All of several locks, or none.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <mortise/client.hpp>
#include <mortise/leases.hpp>
#include <mortise/lock.hpp>
#include <mortise/taking.hpp>

namespace mortise::inline v1 {

/// Several locks that are taken together. Free of deadlocks against whoever takes the same in another order, or one by one:
/// while it waits, it holds nothing but the one it has waited for, and that only for the time of a try at the others.
///
/// On the wire: where all locks lie on one server, one request takes all or none. Elsewhere one request each, and what was
/// taken is given back as soon as one is busy. A wait is in turn at the lock that was busy; at the others it is a try.
class LockSet {
 public:
  /// At least one lock, and no name twice on one backend. Sends nothing. Throws Errc::invalid_option.
  template <class... Bs>
    requires(sizeof...(Bs) > 0)
  explicit LockSet(Lock<Bs>&... locks) : takings_{detail::Access::taking(locks)...} {
    check();
  }
  /// The same by their names, each with these options.
  template <Backend B>
  LockSet(B& backend, std::vector<std::string> const& names, LockOptions const& options = {}) {
    for (auto const& name : names) takings_.emplace_back(backend, detail::LockKeys{name}, options);
    check();
  }

  /// One try. Nothing: one of them is busy, and none is held.
  [[nodiscard]] std::optional<Leases> try_acquire() { return take({}); }
  /// Waits for as long as the servers answer.
  [[nodiscard]] Leases acquire() { return *take({.waits = true, .deadline = detail::never, .cancel = {}}); }
  /// The same until `cancel` is requested: then nothing, and none is held.
  [[nodiscard]] std::optional<Leases> acquire(std::stop_token cancel) {
    return take({.waits = true, .deadline = detail::never, .cancel = std::move(cancel)});
  }
  /// Waits for at most `timeout`; zero or less is one try. Nothing: one of them was busy to the end.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Leases> acquire_for(std::chrono::duration<Rep, Period> timeout) {
    return within(detail::to_milliseconds(timeout));
  }
  /// The same by a moment of any clock, looked at once, at the call.
  template <class C, class D>
  [[nodiscard]] std::optional<Leases> acquire_until(std::chrono::time_point<C, D> deadline) {
    return within(detail::time_left(deadline));
  }

 private:
  using Hand = std::vector<std::optional<Lease>>;

  void check() const;
  std::optional<Leases> within(milliseconds timeout) {
    if (timeout <= milliseconds::zero()) return try_acquire();
    return take({.waits = true, .deadline = detail::after(takings_.front().core()->now(), timeout), .cancel = {}});
  }
  std::optional<Leases> take(detail::Patience const& patience);
  std::optional<std::size_t> try_missing(Hand& hand) const;

  std::vector<detail::Taking> takings_{};
};

/// All of these locks, or none: LockSet, for a single use. A Lock among them may be of another backend than the others.
template <class... Bs>
  requires(sizeof...(Bs) > 0)
[[nodiscard]] Leases acquire_all(Lock<Bs>&... locks) {
  return LockSet{locks...}.acquire();
}
/// The same until `cancel` is requested: then nothing, and none is held.
template <class... Bs>
  requires(sizeof...(Bs) > 0)
[[nodiscard]] std::optional<Leases> acquire_all(std::stop_token cancel, Lock<Bs>&... locks) {
  return LockSet{locks...}.acquire(std::move(cancel));
}
/// One try. Nothing: one of them is busy, and none is held.
template <class... Bs>
  requires(sizeof...(Bs) > 0)
[[nodiscard]] std::optional<Leases> try_acquire_all(Lock<Bs>&... locks) {
  return LockSet{locks...}.try_acquire();
}
/// Waits for at most `timeout`. Nothing: one of them was busy to the end.
template <class Rep, class Period, class... Bs>
  requires(sizeof...(Bs) > 0)
[[nodiscard]] std::optional<Leases> acquire_all_for(std::chrono::duration<Rep, Period> timeout, Lock<Bs>&... locks) {
  return LockSet{locks...}.acquire_for(timeout);
}
/// The same by a moment of any clock, looked at once, at the call.
template <class C, class D, class... Bs>
  requires(sizeof...(Bs) > 0)
[[nodiscard]] std::optional<Leases> acquire_all_until(std::chrono::time_point<C, D> deadline, Lock<Bs>&... locks) {
  return LockSet{locks...}.acquire_until(deadline);
}
/// All locks of these names, each with these options; waits for as long as the server answers.
template <Backend B>
[[nodiscard]] Leases acquire_all(B& backend, std::vector<std::string> const& names, LockOptions const& options = {}) {
  return LockSet{backend, names, options}.acquire();
}

// --- below: bodies

inline void LockSet::check() const {
  if (takings_.empty()) detail::invalid("no lock is named: at least one");
  std::set<std::pair<detail::Core const*, std::string>> seen;
  for (auto const& taking : takings_)
    if (!seen.emplace(taking.core().get(), taking.name()).second)
      detail::invalid("lock " + detail::printable(taking.name()) + " is named twice: it would wait for itself");
}

inline std::optional<Leases> LockSet::take(detail::Patience const& patience) {
  Hand hand(takings_.size());
  while (auto const busy = try_missing(hand)) {
    for (auto& lease : hand) lease.reset();
    auto const& taking = takings_[*busy];
    if (!patience.waits || patience.cancel.stop_requested() || taking.core()->now() >= patience.deadline) return std::nullopt;
    hand[*busy] = taking.take(patience);
    if (!hand[*busy]) return std::nullopt;
  }
  std::vector<Lease> leases;
  leases.reserve(hand.size());
  for (auto& lease : hand) leases.push_back(*std::move(lease));
  Leases all{std::move(leases)};
  if (!all.held()) throw Error{Errc::timeout, "all were granted, but one was over before the last came: the TTL is too short for this server"};
  return all;
}

/// Tries what is not in the hand yet. Which one is busy; then the hand may be left half full.
inline std::optional<std::size_t> LockSet::try_missing(Hand& hand) const {
  std::map<detail::Core*, std::vector<std::size_t>> missing;  // by server
  for (std::size_t i = 0; i < hand.size(); ++i)
    if (!hand[i]) missing[takings_[i].core().get()].push_back(i);
  for (auto const& [core, indices] : missing) {
    std::vector<std::shared_ptr<detail::LockSpec const>> specs;
    for (auto const i : indices) specs.push_back(takings_[i].spec());
    auto joint = core->take_together(specs);
    if (joint.leases.empty()) return indices[joint.busy];
    for (std::size_t i = 0; i < indices.size(); ++i) hand[indices[i]].emplace(detail::Access::lease(std::move(joint.leases[i])));
  }
  return std::nullopt;
}

}  // namespace mortise::inline v1
