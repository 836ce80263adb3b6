// SPDX-License-Identifier: MIT
// The herald: the thread that tells. It fires lost() at a lease's deadline and calls the observer; it never does I/O.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <mortise/detail/worker.hpp>
#include <mortise/lease_state.hpp>
#include <mortise/observer.hpp>

namespace mortise::inline v1::detail {

/// Tells the time to everything that holds; tests have one that they move.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual TimePoint now() const noexcept { return Clock::now(); }
};

/// Deadlines and events. User code runs here only, one call at a time, without any mutex held; it may block or throw, and
/// may destroy whatever it likes, the Client included.
class Herald : public std::enable_shared_from_this<Herald> {
 public:
  using Observer = std::function<void(Event const&)>;

  Herald(std::shared_ptr<TimeSource const> time, Observer observer) : time_{std::move(time)}, observer_{std::move(observer)} {}

  /// Before anything is sent: a thread, and room for one more lease. Throws.
  void start() { worker_.start(shared_from_this()); }
  void promise() {
    std::lock_guard const guard{mutex_};
    leases_.promise();
  }
  void take_back_promise() noexcept {
    std::lock_guard const guard{mutex_};
    leases_.take_back_promise();
  }

  /// Watches a lease's deadline from now on.
  void watch(LeaseState& lease) noexcept {
    std::lock_guard const guard{mutex_};
    leases_.put(lease, lease.validity.until());
    plan(lease.deadline.due);
  }

  /// Watches it no more.
  void drop(LeaseState& lease) noexcept {
    std::lock_guard const guard{mutex_};
    if (lease.deadline.set()) leases_.remove(lease);
  }

  /// The lease has been found lost: tells its holder now and not at the deadline.
  void tell(LeaseState& lease) noexcept {
    std::lock_guard const guard{mutex_};
    if (!lease.deadline.set()) return;
    leases_.move(lease, TimePoint::min());
    plan(TimePoint::min());
  }

  /// The same for a lease whose handle is about to go: it is told once more, if it has not been yet, and forgotten.
  void tell_and_forget(std::shared_ptr<LeaseState> lease) noexcept {
    std::lock_guard const guard{mutex_};
    if (!lease->deadline.set()) return;
    leases_.remove(*lease);
    try {
      forgotten_.push_back(std::move(lease));
    } catch (...) {  // no memory to tell it with: held() says it all the same
      return;
    }
    plan(TimePoint::min());
  }

  bool observed() const noexcept { return static_cast<bool>(observer_); }

  /// Hands an event over to the observer. Never throws, never waits; what does not fit is counted.
  void post(Event::Kind kind, std::string_view name, Fence fence, nanoseconds duration = {}, std::string_view reason = {},
            std::string_view endpoint = {}) noexcept {
    if (!observer_) return;
    std::lock_guard const guard{mutex_};
    try {
      if (events_.size() < most_events)
        events_.push_back({kind, std::string{name}, fence, duration, std::string{endpoint}, std::string{reason}});
      else
        ++dropped_;
    } catch (...) {
      ++dropped_;
    }
    plan(TimePoint::min());
  }

  /// Does what is due, one thing at a time; returns when the next is.
  TimePoint step() {
    std::unique_lock lock{mutex_};
    planned_ = TimePoint::min();  // awake: nobody needs to ring
    for (;;) {
      if (!forgotten_.empty()) {
        auto lost = std::move(forgotten_.front());
        forgotten_.pop_front();
        lock.unlock();
        tell_holder(std::move(lost));
        lock.lock();
      } else if (leases_.next_due() <= time_->now()) {
        if (auto lost = overdue()) {
          lock.unlock();
          tell_holder(std::move(lost));
          lock.lock();
        }
      } else if (auto event = next_event()) {  // after the losses: an observer may be slow
        lock.unlock();
        observe(*event);
        lock.lock();
      } else {
        return planned_ = leases_.next_due();
      }
    }
  }

  TimePoint next_due() {
    std::lock_guard const guard{mutex_};
    return events_.empty() && forgotten_.empty() ? leases_.next_due() : TimePoint::min();
  }

  void stop() noexcept { worker_.stop(); }

 private:
  static constexpr std::size_t most_events = 4096;

  void plan(TimePoint due) noexcept {
    if (due >= planned_) return;
    planned_ = due;
    worker_.wake();
  }

  std::optional<Event> next_event() {
    if (events_.empty()) return std::nullopt;
    if (auto const dropped = std::exchange(dropped_, 0); dropped != 0)
      return Event{.kind = Event::Kind::dropped, .name = {}, .endpoint = {}, .reason = std::to_string(dropped)};  // short: needs no memory
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void observe(Event const& event) noexcept {
    try {
      observer_(event);
    } catch (...) {  // the observer's own affair
    }
  }

  /// The first due lease, if it is really over: a renewal moves the deadline without coming here.
  std::shared_ptr<LeaseState> overdue() noexcept {
    auto* const lease = leases_.front();
    if (lease->validity.held(time_->now())) {
      leases_.move(*lease, lease->validity.until());
      return nullptr;
    }
    auto pinned = lease->weak_from_this().lock();
    leases_.remove(*lease);
    return pinned;
  }

  void tell_holder(std::shared_ptr<LeaseState> lost) noexcept {
    if (lost->validity.standing() != Standing::lost) return;
    post(Event::Kind::lost, lost->name(), lost->fence, time_->now() - lost->granted, lost->loss_reason.load(), lost->endpoint_text());
    lost->loss.request_stop();
  }

  std::shared_ptr<TimeSource const> time_;
  Observer observer_;
  Worker<Herald> worker_{"mortise-herald"};
  std::mutex mutex_{};
  TimerHeap<LeaseState, &LeaseState::deadline> leases_{};
  std::deque<Event> events_{};
  std::deque<std::shared_ptr<LeaseState>> forgotten_{};
  std::size_t dropped_{0};
  TimePoint planned_{TimePoint::min()};
};

}  // namespace mortise::inline v1::detail
