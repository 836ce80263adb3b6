// SPDX-License-Identifier: MIT
// What is known of one lease, at a stable address: who holds what, and one atomic number that says whether it may be believed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <mortise/detail/timer_heap.hpp>
#include <mortise/fence.hpp>
#include <mortise/key.hpp>
#include <mortise/options.hpp>
#include <mortise/time.hpp>
#include <mortise/token.hpp>

namespace mortise::inline v1::detail {

/// What all leases of one Lock share.
struct LockSpec {
  LockKeys keys;
  LockOptions options;
  std::string const& name() const noexcept { return keys.lock; }
};

/// How a lease stands.
enum class Standing : std::uint8_t { pending, held, released, lost };

/// Until when a lease is believed, and how it ended. The one place where that is decided: whoever sees first that the
/// time is over makes it so, and a renewal that comes later finds it ended, so no lease ever comes back.
class Validity {
 public:
  Standing standing() const noexcept {
    auto const word = word_.load(std::memory_order_acquire);
    return word > 0 ? Standing::held : static_cast<Standing>(-word);
  }

  /// When the belief ends; the epoch when it has ended.
  TimePoint until() const noexcept {
    auto const word = word_.load(std::memory_order_acquire);
    return TimePoint{nanoseconds{word > 0 ? word : 0}};
  }

  /// Whether it may be believed at `now`; if its time is over, it is lost from here on.
  bool held(TimePoint now) noexcept {
    auto word = word_.load(std::memory_order_acquire);
    while (word > 0 && now.time_since_epoch().count() >= word)
      if (word_.compare_exchange_weak(word, -std::int64_t{static_cast<int>(Standing::lost)}, std::memory_order_acq_rel)) return false;
    return word > 0;
  }

  void begin(TimePoint until) noexcept { word_.store(std::max<std::int64_t>(until.time_since_epoch().count(), 1), std::memory_order_release); }

  /// Lengthens the belief. False: it had ended before the renewal's answer was looked at, so that does not count.
  bool prolong(TimePoint until, TimePoint now) noexcept {
    auto word = word_.load(std::memory_order_acquire);
    auto const wanted = until.time_since_epoch().count();
    while (held(now)) {
      word = word_.load(std::memory_order_acquire);
      if (word <= 0) return false;
      if (word >= wanted) return true;
      if (word_.compare_exchange_weak(word, wanted, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  /// Ends it. Returns how it stood before.
  Standing end(Standing how) noexcept {
    auto word = word_.load(std::memory_order_acquire);
    while (word > 0 && !word_.compare_exchange_weak(word, -std::int64_t{static_cast<int>(how)}, std::memory_order_acq_rel)) {
    }
    return word > 0 ? Standing::held : static_cast<Standing>(-word);
  }

 private:
  std::atomic<std::int64_t> word_{0};  // > 0: believed until then, ns of Clock; <= 0: minus the Standing
};

class Core;
struct Unsettled;

/// One lease. Made before the request is sent, so that nothing can fail for want of memory once the lock is granted.
struct LeaseState : std::enable_shared_from_this<LeaseState> {
  LeaseState(std::shared_ptr<Core> of, std::shared_ptr<LockSpec const> lock, OwnerToken owner)
      : core{std::move(of)}, spec{std::move(lock)}, token{std::move(owner)} {}

  std::shared_ptr<Core> const core;
  std::shared_ptr<LockSpec const> const spec;
  OwnerToken token;  // changes only before the grant
  Fence fence{};
  TimePoint granted{};
  Validity validity{};
  std::atomic<std::int64_t> latest_end_ns{0};  // the key at the server is gone by then, even if every request of ours arrived
  std::shared_ptr<Unsettled> unsettled{};      // should its outcome stay unknown; made by Core::take with the token
  std::atomic<bool> settling{false};           // its release was not answered: the keeper goes on trying
  std::stop_source loss{};
  std::atomic<char const*> loss_reason{"expired"};
  std::atomic<std::string const*> endpoint{nullptr};  // of the server that answered last; lives as long as the core
  std::atomic<bool> gone{false};               // the server said so: there is nothing to release
  std::atomic<bool> downgraded{false};         // taken as a writer, held as a reader: the server knows it by its token
  std::shared_ptr<void> place{};               // in the line of its core's threads, from the grant to the release; its user's
  std::atomic<int> loose_copies{0};            // of its ACQUIRE that were never answered and may still be on their way

  // The keeper's, under its mutex.
  TimerHook renewal{};
  TimePoint renew_until{never};
  bool first_keep{false};  // the KEEP that follows a one-hop grant is still to come
  bool verify{false};      // somebody changed the key: to be looked at, renewed or not

  // The herald's, under its mutex.
  TimerHook deadline{};

  std::string const& name() const noexcept { return spec->name(); }

  /// Where the last answer came from, for events.
  std::string_view endpoint_text() const noexcept {
    auto const* const known = endpoint.load(std::memory_order_relaxed);
    return known == nullptr ? std::string_view{} : std::string_view{*known};
  }

  /// A request that may set the key's expiry is about to be written.
  void may_live_until(TimePoint end) noexcept {
    auto const wanted = end.time_since_epoch().count();
    auto seen = latest_end_ns.load(std::memory_order_relaxed);
    while (seen < wanted && !latest_end_ns.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
    }
  }
  TimePoint latest_end() const noexcept { return TimePoint{nanoseconds{latest_end_ns.load(std::memory_order_relaxed)}}; }
};

}  // namespace mortise::inline v1::detail
