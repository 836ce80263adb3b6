// SPDX-License-Identifier: MIT
// The Lease: what a holder has in hand.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/core.hpp>
#include <mortise/detail/made_once.hpp>
#include <mortise/detail/process.hpp>

namespace mortise::inline v1 {

/// A held lock: released when it goes out of scope, and only if it is still ours. Move-only; may outlive its Lock and its
/// Client. One thread at a time uses it, but held(), remaining() and lost() may be asked from any thread.
///
/// A lease ends by the clock even while nobody looks: ask held() before what must not be done without the lock, and give
/// fence() to the resource, which alone can refuse a holder that was paused too long. In a forked child a lease is inert.
class Lease {
 public:
  /// Takes it over; the other is then no lease, and holds nothing.
  Lease(Lease&& other) noexcept : state_{std::move(other.state_)}, process_{other.process_} {}
  /// Releases what it held before.
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      end();
      state_ = std::move(other.state_);
      process_ = other.process_;
    }
    return *this;
  }
  /// Releases: one round trip, at most the command timeout. Never throws: what the server did not answer is told to the
  /// observer and tried again in the background until the lease would have ended.
  ~Lease() { end(); }

  /// The fencing token of this grant. Costs nothing.
  Fence fence() const noexcept { return state_ ? state_->fence : Fence{}; }
  /// The lock's name.
  std::string const& name() const noexcept {
    static constinit detail::MadeOnce<std::string> nothing;
    return state_ ? state_->name() : nothing.get([] { return std::string{}; });
  }
  /// Whether the lease may be believed right now, by the local clock: no I/O, and independent of any thread. Once false, it
  /// stays false. False from before a release is sent.
  bool held() const noexcept { return usable() && state_->validity.held(state_->core->now()); }
  /// What is left of it if nothing renews it; zero when it is over. Rounded down.
  milliseconds remaining() const noexcept {
    if (!held()) return milliseconds::zero();
    auto const rest = state_->validity.until() - state_->core->now();
    return std::max(std::chrono::floor<milliseconds>(rest), milliseconds::zero());
  }
  /// Stop is requested when the lease is lost, at its local deadline at the latest; not by a release. Callbacks run on a
  /// library thread that does nothing else; they may block, but an exception from a stop callback ends the program (the
  /// standard's rule).
  std::stop_token lost() const noexcept { return state_ ? state_->loss.get_token() : std::stop_token{}; }

  /// Asks the server whether the lock is still ours: one round trip. False makes the lease lost. Narrows the window between
  /// check and deed to milliseconds, and does not close it: only the fence does. Throws Error if nobody answers.
  bool confirm() { return usable() && state_->core->confirm(*state_); }
  /// Lengthens the lease to the lock's TTL from now: one round trip. False makes it lost. Throws Error if nobody answers;
  /// the deadline is then what it was.
  bool extend() { return usable() && state_->core->prolong(*state_, state_->spec->options.ttl); }
  /// The same to another TTL; a lease is never shortened.
  bool extend(milliseconds ttl) { return usable() && state_->core->prolong(*state_, detail::checked_ttl(ttl)); }
  /// Gives the lock up: one round trip. True: released by us. False: it was no longer ours, or was released before. Throws
  /// Error if nobody answers within the command timeout: then it may be called again, and the library goes on by itself.
  bool release() { return usable() && state_->core->release(*state_); }
  /// Gives the lock up without waiting for the server: no round trip, at most a system call that wakes the library's thread,
  /// which says it again until it is answered or the lease would have ended. held() is false at once. The price: the next
  /// holder is in a thread switch later; whether the lock was still ours, and what went wrong, only the observer is told; and
  /// a process that ends in the same moment leaves the lock to its TTL.
  void release_later() noexcept {
    if (usable()) state_->core->release_later(*state_);
  }

 private:
  friend detail::Access;
  explicit Lease(std::shared_ptr<detail::LeaseState> state) noexcept : state_{std::move(state)} {}

  bool usable() const noexcept { return state_ && process_ == detail::process_generation(); }

  void end() noexcept {
    if (!state_) return;
    if (usable())
      state_->core->abandon(*state_);
    else
      detail::leak(std::move(state_));  // inherited: the parent's business
    state_.reset();
  }

  std::shared_ptr<detail::LeaseState> state_;
  std::uint64_t process_{detail::process_generation()};
};

}  // namespace mortise::inline v1
