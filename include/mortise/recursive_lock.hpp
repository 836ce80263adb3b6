// SPDX-License-Identifier: MIT
// The RecursiveLock: a Lock that the thread which holds it may lock again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <mortise/detail/process.hpp>
#include <mortise/lock.hpp>

namespace mortise::inline v1 {

/// What std::recursive_mutex is to std::mutex. The owner is a thread: locking again costs no I/O, keeps the fence, and does
/// not touch the TTL; the lease is renewed until the outermost unlock(). Whether it was lost meanwhile, a re-entry does not
/// ask: lease().held() does. Works over any Backend. Neither copied nor moved.
template <class B = Client>
class RecursiveLock {
 public:
  /// As a Lock's; it is one: a Lock of that name excludes it.
  RecursiveLock(B& backend, std::string name, LockOptions options = {})
    requires Backend<B>
      : lock_{backend, std::move(name), std::move(options)}, depth_{[](Depth*) { return std::make_shared<Depth>(); }} {}

  /// The key in Redis.
  std::string const& name() const noexcept { return lock_.name(); }

  /// Never a deadlock with itself.
  void lock() {
    if (reenter()) return;
    lock_.lock();
    entered();
  }
  /// As Lock::try_lock(), and always true for the thread that is inside.
  [[nodiscard]] bool try_lock() {
    return reenter() || (lock_.try_lock() && entered());
  }
  /// As Lock::try_lock_for(), and true at once for the thread that is inside.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> timeout) {
    return reenter() || (lock_.try_lock_for(timeout) && entered());
  }
  /// As Lock::try_lock_until(), and true at once for the thread that is inside.
  template <class C, class D>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<C, D> deadline) {
    return reenter() || (lock_.try_lock_until(deadline) && entered());
  }
  /// Undoes one lock(); the outermost releases. Does nothing for a thread that does not hold the lock.
  void unlock() noexcept {
    auto const depth = depth_.get();
    if (!depth->mine() || --depth->count > 0) return;
    depth->owner.store({}, std::memory_order_relaxed);
    lock_.unlock();
  }

  /// The lease of the outermost lock(). Throws Errc::not_held to a thread that does not hold the lock.
  Lease const& lease() const { return lock_.lease(); }
  /// The fence of that lease. Throws as lease() does.
  Fence fence() const { return lock_.fence(); }

 private:
  /// The owner writes; another thread that reads can only learn that it is not the owner.
  struct Depth {
    bool mine() const noexcept { return owner.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
    std::atomic<std::thread::id> owner{};
    std::size_t count{0};
  };

  bool reenter() {
    auto const depth = depth_.get();
    if (!depth->mine()) return false;
    ++depth->count;
    return true;
  }
  bool entered() {
    auto const depth = depth_.get();
    depth->count = 1;
    depth->owner.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }

  Lock<B> lock_;
  detail::PerProcess<Depth> depth_;
};

template <class B>
RecursiveLock(B&, std::string, LockOptions) -> RecursiveLock<B>;
template <class B>
RecursiveLock(B&, std::string) -> RecursiveLock<B>;

}  // namespace mortise::inline v1
