// SPDX-License-Identifier: MIT
// The local mutex in front of a Lock that several threads share: first come, first served, and it knows its owner.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <mortise/lease.hpp>

namespace mortise::inline v1::detail {

/// Exactly one thread is between enter() and leave(), whatever becomes of the lease it keeps here.
class Gate {
 public:
  /// False: not by `deadline`. Throws std::system_error(resource_deadlock_would_occur) to the thread that is inside.
  bool enter(TimePoint deadline) {
    std::unique_lock lock{mutex_};
    if (inside()) throw std::system_error{std::make_error_code(std::errc::resource_deadlock_would_occur), "mortise::Lock: locked by this thread already"};
    if (!owner_ && waiting_.empty()) return take();
    auto const place = waiting_.emplace(waiting_.end());
    auto const my_turn = [&] { return !owner_ && place == waiting_.begin(); };
    while (!my_turn()) {
      auto const now = Clock::now();
      if (now >= deadline) {
        waiting_.erase(place);
        call_next();
        return false;
      }
      if (deadline == never)
        place->wait(lock);
      else
        place->wait_for(lock, std::min<nanoseconds>(deadline - now, std::chrono::hours{1}));
    }
    waiting_.erase(place);
    return take();
  }

  bool try_enter() {
    std::lock_guard const guard{mutex_};
    return !owner_ && waiting_.empty() && take();
  }

  void leave() noexcept {
    std::lock_guard const guard{mutex_};
    owner_.reset();
    call_next();
  }

  /// Whether the calling thread is inside.
  bool entered() const noexcept {
    std::lock_guard const guard{mutex_};
    return inside();
  }

  std::optional<Lease> lease{};  // of the thread inside

 private:
  bool inside() const noexcept { return owner_ == std::this_thread::get_id(); }
  bool take() noexcept {
    owner_ = std::this_thread::get_id();
    return true;
  }
  void call_next() noexcept {
    if (!owner_ && !waiting_.empty()) waiting_.front().notify_one();
  }

  mutable std::mutex mutex_{};
  std::optional<std::thread::id> owner_{};
  std::list<std::condition_variable> waiting_{};
};

}  // namespace mortise::inline v1::detail
