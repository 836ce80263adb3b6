// SPDX-License-Identifier: MIT
// A backend inside the process, with a clock that tests move: locks, leases, fences, renewal and loss without a server.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/core.hpp>

namespace mortise::inline v1 {
namespace detail {

/// What a server would keep, with the rules of the scripts in plain C++.
class MemoryStore final : public Authority {
 public:
  struct Waiter {
    std::string_view token;
    milliseconds ttl;
    std::optional<Grant> grant{};
  };

  TimePoint now() const noexcept override { return TimePoint{nanoseconds{now_.load(std::memory_order_acquire)}}; }

  void send(std::span<Chore> batch, TimePoint, Wake*) noexcept override {
    std::lock_guard const guard{mutex_};
    for (auto& chore : batch) {
      chore.sent = now();
      if (cut_) continue;
      chore.answer = answer(chore.request);
      chore.outcome = Chore::Outcome::answered;
    }
  }
  void collect(std::span<Chore>, TimePoint, Wake*) noexcept override {}

  Reached ask(Request const& request) {
    std::lock_guard const guard{mutex_};
    if (cut_) throw Error{Errc::connection_lost, "memory backend: cut off"};
    return {answer(request), now(), false};
  }

  /// Takes the lock now or in turn. Time is the clock that tests move; `closed` and the stop token end the wait.
  Acquired acquire(LeaseState& lease, Patience const& patience, Grant& grant, std::atomic<bool> const& closed) {
    if (patience.cancel.stop_requested()) return Acquired::cancelled;
    std::stop_callback const wake{patience.cancel, [this] { notify(); }};
    std::unique_lock lock{mutex_};
    Waiter self{lease.token.stored(), lease.spec->options.ttl};
    if (!cut_ && try_grant(lease.name(), self)) {
      grant = *self.grant;
      return Acquired::granted;
    }
    if (!patience.waits) return cut_ ? throw Error{Errc::connect_failed, "memory backend: cut off"} : Acquired::busy;
    entries_[lease.name()].waiters.push_back(&self);
    changed_.wait(lock, [&] { return self.grant || closed || patience.cancel.stop_requested() || now() >= patience.deadline; });
    std::erase(entries_[lease.name()].waiters, &self);
    bool const wanted = !closed && !patience.cancel.stop_requested();
    if (self.grant && wanted) {
      grant = *self.grant;
      return Acquired::granted;
    }
    if (self.grant) free(entries_[lease.name()]);  // given in the moment it was no longer wanted
    if (closed) throw Error{Errc::closed, "the backend went away while waiting for " + printable(lease.name())};
    if (wanted && cut_) throw Error{Errc::connect_failed, "memory backend: cut off"};
    return wanted ? Acquired::busy : Acquired::cancelled;
  }

  /// Moves the clock to the next moment at which a lease ends, but not beyond `limit`.
  void advance_to(TimePoint limit) noexcept {
    std::lock_guard const guard{mutex_};
    auto next = limit;
    for (auto const& [name, entry] : entries_)
      if (!entry.owner.empty() && entry.until > now()) next = std::min(next, entry.until);
    now_.store(std::max(next, now()).time_since_epoch().count(), std::memory_order_release);
    for (auto& [name, entry] : entries_) expire(entry);
    changed_.notify_all();
  }

  void notify() noexcept {
    std::lock_guard const guard{mutex_};
    changed_.notify_all();
  }

  void cut(bool off) noexcept {
    std::lock_guard const guard{mutex_};
    cut_ = off;
    for (auto& [name, entry] : entries_) serve(entry);
  }

  /// As an outside hand would: takes the key away from whoever holds it, or puts a foreign value there.
  void overwrite(std::string const& name, std::string value, milliseconds ttl) {
    std::lock_guard const guard{mutex_};
    auto& entry = entries_[name];
    entry.owner = std::move(value);
    entry.until = after(now(), ttl);
    if (entry.owner.empty()) serve(entry);
  }

  std::optional<std::string> owner(std::string const& name) {
    std::lock_guard const guard{mutex_};
    auto const found = entries_.find(name);
    if (found == entries_.end()) return std::nullopt;
    expire(found->second);
    return found->second.owner.empty() ? std::nullopt : std::optional{label_of(found->second.owner)};
  }

 private:
  struct Entry {
    std::string owner{};
    TimePoint until{};
    std::int64_t fence{0};
    std::deque<Waiter*> waiters{};
  };

  Answer answer(Request const& request) {
    auto& entry = entries_[request.keys->lock];
    expire(entry);
    bool const mine = !request.owner.empty() && entry.owner == request.owner;
    if (request.verb == Verb::keep) {
      bool const kept = mine && entry.fence <= static_cast<std::int64_t>(request.fence.value);
      if (kept) entry.until = std::max(entry.until, after(now(), request.lease));
      return {kept, 0, {}};
    }
    if (mine) free(entry);
    return {mine, -2, {}};
  }

  bool try_grant(std::string const& name, Waiter& waiter) {
    auto& entry = entries_[name];
    expire(entry);
    if (!entry.owner.empty() || !entry.waiters.empty()) return false;
    grant_to(entry, waiter, false);
    return true;
  }

  void grant_to(Entry& entry, Waiter& waiter, bool handed_over) {
    entry.owner = waiter.token;
    entry.until = after(now(), waiter.ttl);
    waiter.grant = Grant{Fence{static_cast<std::uint64_t>(++entry.fence)}, now(), valid_until(now(), waiter.ttl), false, handed_over};
  }

  void free(Entry& entry) {
    entry.owner.clear();
    serve(entry);
  }

  void expire(Entry& entry) {
    if (!entry.owner.empty() && now() >= entry.until) free(entry);
  }

  /// Hands a free lock to the longest waiter.
  void serve(Entry& entry) {
    if (cut_ || !entry.owner.empty()) return;
    for (auto* const waiter : entry.waiters) {
      if (waiter->grant) continue;
      grant_to(entry, *waiter, true);
      break;
    }
    changed_.notify_all();
  }

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::atomic<std::int64_t> now_{nanoseconds{std::chrono::hours{1}}.count()};
  bool cut_{false};
  std::map<std::string, Entry, std::less<>> entries_{};
};

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
