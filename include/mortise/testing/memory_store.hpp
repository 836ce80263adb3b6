// SPDX-License-Identifier: MIT
// What a server would keep of locks, with the rules of the scripts in plain C++ and a clock that is moved.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mortise/core.hpp>

namespace mortise::inline v1::detail {

/// The rules are those of a room; a mutex is one for a single writer.
class MemoryStore final : public Authority {
 public:
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
  Acquired acquire(LeaseState& lease, Patience const& patience, Grant& grant, std::atomic<bool> const& closed);

  /// Moves the clock to the next moment at which a lease ends, but not beyond `limit`.
  void advance_to(TimePoint limit) noexcept {
    std::lock_guard const guard{mutex_};
    auto next = limit;
    for (auto const& [name, entry] : entries_)
      for (auto const& holder : entry.holders)
        if (holder.until > now()) next = std::min(next, holder.until);
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
    entry.holders.clear();
    if (!value.empty()) entry.holders.push_back({std::move(value), Hold::mutex, 0, after(now(), ttl)});
    serve(entry);
  }

  std::optional<std::string> owner(std::string const& name) {
    std::lock_guard const guard{mutex_};
    auto const found = entries_.find(name);
    if (found == entries_.end()) return std::nullopt;
    expire(found->second);
    return found->second.holders.empty() ? std::nullopt : std::optional{label_of(found->second.holders.front().token)};
  }

 private:
  struct Waiter {
    LeaseState const& lease;
    std::optional<Grant> grant{};
    std::optional<Error> refusal{};

    LockKeys const& keys() const noexcept { return lease.spec->keys; }
  };
  struct Holder {
    std::string token;
    Hold hold;
    int permits;
    TimePoint until;
  };
  struct Entry {
    std::vector<Holder> holders{};
    std::int64_t fence{0};
    std::deque<Waiter*> waiters{};
  };

  Answer answer(Request const& request);
  bool try_grant(Entry& entry, Waiter& waiter);
  void grant_to(Entry& entry, Waiter& waiter, bool handed_over);
  void serve(Entry& entry);
  void expire(Entry& entry) {
    if (std::erase_if(entry.holders, [this](Holder const& holder) { return now() >= holder.until; }) > 0) serve(entry);
  }
  void remove(Entry& entry, std::string_view token) {
    std::erase_if(entry.holders, [&](Holder const& holder) { return holder.token == token; });
    serve(entry);
  }
  static bool admits(Entry const& entry, LockKeys const& keys) noexcept;
  static std::optional<Error> refusal(Entry const& entry, LockKeys const& keys);

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::atomic<std::int64_t> now_{nanoseconds{std::chrono::hours{1}}.count()};
  bool cut_{false};
  std::map<std::string, Entry, std::less<>> entries_{};
};

// --- below: bodies

inline Acquired MemoryStore::acquire(LeaseState& lease, Patience const& patience, Grant& grant, std::atomic<bool> const& closed) {
  if (patience.cancel.stop_requested()) return Acquired::cancelled;
  std::stop_callback const wake{patience.cancel, [this] { notify(); }};
  std::unique_lock lock{mutex_};
  auto& entry = entries_[lease.name()];
  Waiter self{lease};
  if (!cut_ && try_grant(entry, self)) {
    grant = *self.grant;
    return Acquired::granted;
  }
  if (!patience.waits) return cut_ ? throw Error{Errc::connect_failed, "memory backend: cut off"} : Acquired::busy;
  entry.waiters.push_back(&self);
  changed_.wait(lock, [&] { return self.grant || self.refusal || closed || patience.cancel.stop_requested() || now() >= patience.deadline; });
  std::erase(entry.waiters, &self);
  bool const wanted = !closed && !patience.cancel.stop_requested();
  if (self.grant && wanted) {
    grant = *self.grant;
    return Acquired::granted;
  }
  if (self.grant)
    remove(entry, lease.token.stored());  // given in the moment it was no longer wanted
  else
    serve(entry);  // whoever stood behind may be able to go now
  if (closed) throw Error{Errc::closed, "the backend went away while waiting for " + printable(lease.name())};
  if (wanted && self.refusal) throw Error{*self.refusal};
  if (wanted && cut_) throw Error{Errc::connect_failed, "memory backend: cut off"};
  return wanted ? Acquired::busy : Acquired::cancelled;
}

inline Answer MemoryStore::answer(Request const& request) {
  auto& entry = entries_[request.keys->lock];
  expire(entry);
  auto const mine = std::ranges::find(entry.holders, request.owner, &Holder::token);
  if (request.owner.empty() || mine == entry.holders.end()) return {false, -2, {}};
  if (request.verb == Verb::release) {
    remove(entry, request.owner);
    return {true, -2, {}};
  }
  if (!in_room(request.hold()) && entry.fence > static_cast<std::int64_t>(request.fence.value)) return {false, 0, {}};
  mine->until = std::max(mine->until, after(now(), request.lease));
  if (request.downgrade) {
    mine->hold = Hold::reader;
    serve(entry);
  }
  return {true, 0, {}};
}

inline bool MemoryStore::try_grant(Entry& entry, Waiter& waiter) {
  expire(entry);
  if (auto refused = refusal(entry, waiter.keys())) throw Error{*std::move(refused)};
  bool const others_wait = std::ranges::any_of(entry.waiters, [](Waiter const* other) { return !other->grant && !other->refusal; });
  if (others_wait || !admits(entry, waiter.keys())) return false;
  grant_to(entry, waiter, false);
  return true;
}

inline void MemoryStore::grant_to(Entry& entry, Waiter& waiter, bool handed_over) {
  auto const& spec = *waiter.lease.spec;
  auto const ttl = spec.options.ttl;
  entry.holders.push_back({waiter.lease.token.stored(), spec.keys.hold, spec.keys.permits, after(now(), ttl)});
  if (spec.keys.hold != Hold::reader || entry.fence == 0) ++entry.fence;  // a reader gets the fence of what it may read
  waiter.grant = Grant{Fence{static_cast<std::uint64_t>(entry.fence)}, now(), valid_until(now(), ttl), false, handed_over};
}

/// In the order of arrival, up to the first who may not be in with those inside.
inline void MemoryStore::serve(Entry& entry) {
  if (cut_) return;
  for (auto* const waiter : entry.waiters) {
    if (waiter->grant || waiter->refusal) continue;
    waiter->refusal = refusal(entry, waiter->keys());
    if (waiter->refusal) continue;
    if (!admits(entry, waiter->keys())) break;
    grant_to(entry, *waiter, true);
  }
  changed_.notify_all();
}

inline bool MemoryStore::admits(Entry const& entry, LockKeys const& keys) noexcept {
  if (entry.holders.empty()) return true;
  if (keys.hold == Hold::permit) return entry.holders.size() < static_cast<std::size_t>(keys.permits);
  return keys.hold == Hold::reader && entry.holders.front().hold == Hold::reader;
}

/// Why this name cannot be what the caller takes it for: it is something else for those who hold it.
inline std::optional<Error> MemoryStore::refusal(Entry const& entry, LockKeys const& keys) {
  if (entry.holders.empty()) return std::nullopt;
  auto const& is = entry.holders.front();
  if (in_room(is.hold) != in_room(keys.hold)) return Error{Errc::wrong_type, "memory backend: " + printable(keys.lock) + " is in use as a lock of another kind"};
  if (is.permits == keys.permits) return std::nullopt;
  auto const what = [](int permits) { return permits > 0 ? std::to_string(permits) + " permits" : std::string{"readers and writers"}; };
  return Error{Errc::server_refused, "memory backend: " + printable(keys.lock) + " is in use with " + what(is.permits) + ", not " + what(keys.permits)}.permanent();
}

}  // namespace mortise::inline v1::detail
