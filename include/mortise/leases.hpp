// SPDX-License-Identifier: MIT
// Several leases in one hand.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include <mortise/lease.hpp>

namespace mortise::inline v1 {

/// Leases that belong together, taken all or none: held only while all of them are. Move-only; released in its destructor.
class Leases {
 public:
  /// In this order; from here on they belong together.
  explicit Leases(std::vector<Lease> leases) : loss_{std::make_unique<Loss>()}, leases_{std::move(leases)} {
    for (auto const& lease : leases_) loss_->each.emplace_back(lease.lost(), [any = loss_->any]() mutable { any.request_stop(); });
  }
  /// Takes them over; the other is then empty.
  Leases(Leases&&) noexcept = default;
  /// Releases what it held before.
  Leases& operator=(Leases&& other) noexcept {
    if (this == &other) return *this;
    leases_ = std::move(other.leases_);
    loss_ = std::move(other.loss_);
    return *this;
  }
  ~Leases() = default;

  /// How many; 0 for one that was moved from.
  std::size_t size() const noexcept { return leases_.size(); }
  /// In the order in which they were asked for.
  Lease const& operator[](std::size_t i) const noexcept { return leases_[i]; }
  /// Its leases, in that order.
  auto begin() const noexcept { return leases_.begin(); }
  /// Behind the last of them.
  auto end() const noexcept { return leases_.end(); }
  /// The fence of each, in that order: a resource gets that of the lock which guards it.
  std::vector<Fence> fences() const {
    std::vector<Fence> all;
    for (auto const& lease : leases_) all.push_back(lease.fence());
    return all;
  }

  /// Whether all may be believed right now. False for an empty hand.
  bool held() const noexcept {
    return !leases_.empty() && std::ranges::all_of(leases_, [](Lease const& lease) { return lease.held(); });
  }
  /// Of the one that ends first.
  milliseconds remaining() const noexcept {
    auto least = leases_.empty() ? milliseconds::zero() : milliseconds::max();
    for (auto const& lease : leases_) least = std::min(least, lease.remaining());
    return least;
  }
  /// Stop is requested when the first of them is lost. The others are held still.
  std::stop_token lost() const noexcept { return loss_ ? loss_->any.get_token() : std::stop_token{}; }

  /// One round trip for each. True: all of them; the first that is not ends it.
  bool confirm() {
    return !leases_.empty() && std::ranges::all_of(leases_, [](Lease& lease) { return lease.confirm(); });
  }
  /// The same, with each lengthened to its TTL from now.
  bool extend() {
    return !leases_.empty() && std::ranges::all_of(leases_, [](Lease& lease) { return lease.extend(); });
  }
  /// Releases every one of them. True: all were ours until now. If one is not answered the others are released first, and then
  /// it throws; it may be called again.
  bool release() {
    bool ours = !leases_.empty();
    std::exception_ptr unanswered;
    for (auto& lease : leases_) {
      try {
        ours = lease.release() && ours;
      } catch (...) {
        unanswered = std::current_exception();
      }
    }
    if (unanswered) std::rethrow_exception(unanswered);
    return ours;
  }

 private:
  struct Loss {
    std::stop_source any{};
    std::list<std::stop_callback<std::function<void()>>> each{};
  };

  std::unique_ptr<Loss> loss_;  // outlives the leases
  std::vector<Lease> leases_;
};

}  // namespace mortise::inline v1
