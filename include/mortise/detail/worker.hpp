// SPDX-License-Identifier: MIT
// A library thread: runs one step after another, sleeps between them, and ends without ever joining itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>

#include <mortise/detail/wake.hpp>

namespace mortise::inline v1::detail {

/// Blocks every signal in the thread that is started in its scope: a host's handlers never run on a library thread.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(SignalsBlocked const&) = delete;
  SignalsBlocked& operator=(SignalsBlocked const&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Runs `Owner::step()`, which returns when it wants to run again, on a thread of its own. The thread keeps its owner
/// alive; whoever drops the last other reference calls stop().
template <class Owner>
class Worker {
 public:
  explicit Worker(char const* name) noexcept : name_{name} {}

  /// At first need. Throws std::system_error if the system gives no thread.
  void start(std::shared_ptr<Owner> owner) {
    if (started_.load(std::memory_order_acquire)) return;
    std::lock_guard const guard{mutex_};
    if (started_.load(std::memory_order_relaxed)) return;
    SignalsBlocked const blocked;
    thread_ = std::thread{[owner = std::move(owner), this]() mutable {
#if defined(__linux__)
      ::pthread_setname_np(::pthread_self(), name_);
#endif
      while (!stopping()) {
        auto const until = owner->step();
        if (stopping()) break;  // the step may have heard the ring that told so, and silenced it
        if constexpr (requires { owner->also_wakes(); })
          alarm_.sleep_until(until, owner->also_wakes());
        else
          alarm_.sleep_until(until);
      }
      {
        std::lock_guard const done{mutex_};
        finished_ = true;
        finish_.notify_all();
      }
      owner.reset();  // the last thing: it may be what keeps this Worker alive
    }};
    started_.store(true, std::memory_order_release);
  }

  bool started() const noexcept { return started_.load(std::memory_order_acquire); }
  bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

  /// Runs the next step now.
  void wake() noexcept { alarm_.ring(); }

  /// Rings when the step is to be broken off.
  Wake& bell() noexcept { return alarm_.bell(); }

  /// Ends the thread and waits for it: but not when this is the thread itself, and not for long when it is stuck in
  /// something that cannot be interrupted (a callback of the user's, a name being resolved). Then it ends by itself later,
  /// and touches nothing but what it keeps alive.
  void stop() noexcept {
    stopping_.store(true, std::memory_order_release);
    alarm_.ring();
    if (!thread_.joinable()) return;
    bool finished = false;
    if (thread_.get_id() != std::this_thread::get_id()) {
      std::unique_lock lock{mutex_};
      finished = finish_.wait_for(lock, patience, [this] { return finished_; });
    }
    if (finished)
      thread_.join();
    else
      thread_.detach();
  }

 private:
  static constexpr milliseconds patience{200};

  char const* name_;
  Alarm alarm_{};
  std::mutex mutex_{};
  std::condition_variable finish_{};
  bool finished_{false};
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_{};
};

}  // namespace mortise::inline v1::detail
