// SPDX-License-Identifier: MIT
// The local part of a SharedLock: which thread keeps which lease, and nobody inside with a writer, whatever became of leases.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <mortise/lease.hpp>

namespace mortise::inline v1::detail {

/// Entered with a lease, so the order was decided elsewhere: whoever is still inside then has lost theirs, and is waited for.
class SharedGate {
 public:
  /// Throws std::system_error(resource_deadlock_would_occur) to a thread that is inside, in whatever way: it would wait for
  /// itself.
  void refuse_if_inside() const {
    if (inside())
      throw std::system_error{std::make_error_code(std::errc::resource_deadlock_would_occur), "mortise::SharedLock: held by this thread already"};
  }
  bool inside() const noexcept {
    std::lock_guard const guard{mutex_};
    return owner_ == std::this_thread::get_id() || shared_.contains(std::this_thread::get_id());
  }

  /// False: others did not leave by `deadline`; the lease is then released.
  bool enter(Lease lease, TimePoint deadline) {
    std::unique_lock lock{mutex_};
    if (!wait(lock, deadline, [this] { return !owner_ && shared_.empty(); })) return false;
    owner_ = std::this_thread::get_id();
    lease_.emplace(std::move(lease));
    return true;
  }
  bool enter_shared(Lease lease, TimePoint deadline) {
    std::unique_lock lock{mutex_};
    if (!wait(lock, deadline, [this] { return !owner_; })) return false;
    shared_.emplace(std::this_thread::get_id(), std::move(lease));
    return true;
  }

  /// The calling thread's lease, and it is outside; nothing where it was not inside that way.
  std::optional<Lease> leave() noexcept {
    std::lock_guard const guard{mutex_};
    if (owner_ != std::this_thread::get_id()) return std::nullopt;
    owner_.reset();
    changed_.notify_all();
    return std::exchange(lease_, std::nullopt);
  }
  std::optional<Lease> leave_shared() noexcept {
    std::lock_guard const guard{mutex_};
    auto const mine = shared_.extract(std::this_thread::get_id());
    if (!mine) return std::nullopt;
    changed_.notify_all();
    return std::move(mine.mapped());
  }

  /// From alone to with others. Throws for want of memory, and then is still alone.
  void go_on_shared() {
    std::lock_guard const guard{mutex_};
    shared_.emplace(std::this_thread::get_id(), std::move(*lease_));
    lease_.reset();
    owner_.reset();
    changed_.notify_all();
  }

  /// The lease of the calling thread; nullptr if it is outside.
  Lease* mine() noexcept {
    if (auto* const alone = mine_alone()) return alone;
    std::lock_guard const guard{mutex_};
    auto const found = shared_.find(std::this_thread::get_id());
    return found == shared_.end() ? nullptr : &found->second;
  }
  Lease* mine_alone() noexcept {
    std::lock_guard const guard{mutex_};
    return owner_ == std::this_thread::get_id() ? &*lease_ : nullptr;
  }

 private:
  template <class Free>
  bool wait(std::unique_lock<std::mutex>& lock, TimePoint deadline, Free&& free) {
    while (!free()) {
      auto const now = Clock::now();
      if (now >= deadline) return false;
      if (deadline == never)
        changed_.wait(lock);
      else
        changed_.wait_for(lock, std::min<nanoseconds>(deadline - now, std::chrono::hours{1}));
    }
    return true;
  }

  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::optional<std::thread::id> owner_{};
  std::optional<Lease> lease_{};  // of the owner
  std::map<std::thread::id, Lease> shared_{};
};

}  // namespace mortise::inline v1::detail
