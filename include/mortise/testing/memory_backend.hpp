// SPDX-License-Identifier: MIT
// A backend inside the process, with a clock that tests move: locks, leases, fences, renewal and loss without a server.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/core.hpp>
#include <mortise/testing/memory_store.hpp>

namespace mortise::inline v1 {
namespace detail {

/// Keeper and herald without threads: whoever moves the clock runs them.
class MemoryCore final : public Core {
 public:
  explicit MemoryCore(Herald::Observer observer) : MemoryCore{std::make_shared<MemoryStore>(), std::move(observer)} {}

  MemoryStore& store() noexcept { return *store_; }

  void close() noexcept override {
    closed_.store(true);
    store_->notify();
  }

  void advance(milliseconds by) {
    auto const target = after(now(), std::max(by, milliseconds::zero()));
    for (;;) {
      auto const due = std::min(keeper().next_due(), herald().next_due());
      store_->advance_to(std::clamp(due, now(), target));
      keeper().step();
      herald().step();
      if (now() >= target && std::min(keeper().next_due(), herald().next_due()) > target) return;
    }
  }

 protected:
  Acquired acquire(LeaseState& lease, Patience const& patience, Grant& grant) override {
    auto const acquired = store_->acquire(lease, patience, grant, closed_);
    if (acquired == Acquired::granted) lease.may_live_until(after(now(), lease.spec->options.ttl));
    return acquired;
  }
  Reached ask(Request const& request, TimePoint) override { return store_->ask(request); }
  std::string const& label() const noexcept override { return label_; }
  void start() override {}

 private:
  MemoryCore(std::shared_ptr<MemoryStore> store, Herald::Observer observer)
      : Core{store, milliseconds{1000}, std::move(observer), 1}, store_{std::move(store)} {}

  std::shared_ptr<MemoryStore> store_;
  std::atomic<bool> closed_{false};
  std::string label_{"memory"};
};

}  // namespace detail

namespace testing {

/// Locks without a server: `Lock lock{backend, "name"}` behaves as over a Client, but the time of leases and of waits for them
/// passes only in advance(). (Threads that share one Lock object stand in front of it in real time.)
/// Renewals, losses, lost() callbacks and observer events happen in advance(), on its thread, each at its own moment; a
/// thread that waits for a lock wakes when the clock passes its deadline or the lock comes to it. Fences count from 1.
class MemoryBackend {
 public:
  static constexpr bool one_authority = true;  ///< rooms work over it

  /// An empty store. The observer is told as a Client's is.
  explicit MemoryBackend(std::function<void(Event const&)> observer = {})
      : handle_{std::make_shared<detail::CoreHandle>(
            [observer = std::move(observer)](detail::Core*) { return std::make_shared<detail::MemoryCore>(observer); })} {}
  MemoryBackend(MemoryBackend const&) = delete;
  MemoryBackend& operator=(MemoryBackend const&) = delete;
  /// Wakes whoever waits, with Errc::closed.
  ~MemoryBackend() {
    if (auto const core = handle_->peek()) core->close();
  }

  /// The time by which leases are measured here.
  TimePoint now() const { return core().now(); }

  /// Lets time pass. advance(0ms) only does what is due already.
  template <class Rep, class Period>
  void advance(std::chrono::duration<Rep, Period> by) {
    core().advance(detail::to_milliseconds(by));
  }

  /// Cuts the holders and waiters off from the store, or lets them back: requests fail, renewals go unanswered.
  void cut_off(bool off) { core().store().cut(off); }

  /// Deletes the lock's key, as somebody with redis-cli might.
  void erase(std::string const& name) { core().store().overwrite(name, {}, milliseconds::zero()); }
  /// Puts a foreign client's value there for `ttl`, whoever holds the lock.
  void occupy(std::string const& name, milliseconds ttl) { core().store().overwrite(name, "foreign", ttl); }
  /// The readable label of the holder, or nothing.
  std::optional<std::string> holder(std::string const& name) const { return core().store().owner(name); }

 private:
  friend detail::Access;
  detail::MemoryCore& core() const { return static_cast<detail::MemoryCore&>(*handle_->get()); }
  std::shared_ptr<detail::CoreHandle> handle_;
};

}  // namespace testing
}  // namespace mortise::inline v1
