// SPDX-License-Identifier: MIT
// The keeper: the thread that does the library's own I/O. It renews leases, nudges names that are waited for, and settles
// requests whose outcome is unknown, all in bounded batches on one connection.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <mortise/chore.hpp>
#include <mortise/detail/timing.hpp>
#include <mortise/herald.hpp>
#include <mortise/lease_state.hpp>

namespace mortise::inline v1::detail {

class Keeper : public std::enable_shared_from_this<Keeper> {
 public:
  Keeper(std::shared_ptr<Authority> authority, std::shared_ptr<Herald> herald, milliseconds command_timeout, std::uint64_t seed)
      : authority_{std::move(authority)}, herald_{std::move(herald)}, command_timeout_{command_timeout}, random_{seed | 1} {
    batch_.reserve(most_chores);
  }

  ~Keeper() {
    for (auto* const open : std::vector<Unsettled*>{unsettled_.items()}) open->self.reset();
  }

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

  /// Renews a lease from `due` on.
  void hold(LeaseState& lease, TimePoint due) noexcept;

  /// Renews it no more: when this returns, no renewal of this lease will be written.
  void drop(LeaseState& lease) noexcept;

  /// Nudges a name, which the server said will be free in `pttl` ms; from then on at least every poll. In a room, for the
  /// waiter with this token.
  void watch(Line& line, std::int64_t pttl, std::string const& waiter = {});
  void unwatch(Line& line) noexcept;

  /// Room to settle a token, kept until it is used or goes. Throws.
  std::shared_ptr<Unsettled> room_to_settle(std::shared_ptr<LockSpec const> const& spec, std::string const& owner);
  void take_back_room_to_settle() noexcept {
    std::lock_guard const guard{mutex_};
    unsettled_.take_back_promise();
  }
  /// Releases the lease's token in the background until `until`, and tells how a release in earnest went. Needs no memory.
  void settle(LeaseState& lease, TimePoint until, int copies, bool in_earnest = false) noexcept;

  TimePoint step();
  int also_wakes() const noexcept { return authority_->changes(); }
  TimePoint next_due();
  void stop() noexcept {
    {
      std::lock_guard const guard{mutex_};
      quitting_ = true;
      quit_.ring();
    }
    worker_.stop();
  }

 private:
  static constexpr milliseconds longest_patience{1000};
  static constexpr std::size_t most_chores = 128;  // their requests fit into a socket's buffer

  void hear_changes() noexcept;
  bool gather_due(TimePoint now, milliseconds& patience) noexcept;
  bool goes_along(LeaseState const& lease, TimePoint now) const noexcept;
  void conclude_renewal(Chore const& chore, TimePoint now) noexcept;
  void conclude_nudge(Chore const& chore, TimePoint now) noexcept;
  void conclude_settling(Chore const& chore, TimePoint now) noexcept;
  void kept(LeaseState& lease, TimePoint due) noexcept;
  void renew_at(LeaseState& lease, TimePoint due) noexcept;
  void forget(LeaseState& lease) noexcept;
  void plan(TimePoint due) noexcept;
  void hurry(TimePoint latest) noexcept;
  void at_leisure() noexcept;
  TimePoint earliest() const noexcept { return std::min({leases_.next_due(), lines_.next_due(), unsettled_.next_due()}); }
  TimePoint rest() noexcept;
  static TimePoint nudge_due(std::int64_t pttl, TimePoint now) noexcept;
  std::uint64_t random() noexcept;

  std::shared_ptr<Authority> authority_;
  std::shared_ptr<Herald> herald_;
  milliseconds command_timeout_;
  std::uint64_t random_;  // the thread's own; only spreads retries
  Worker<Keeper> worker_{"mortise-keeper"};
  Wake quit_{Wake::Kind::timed};  // breaks off the I/O that is under way; the worker's own bell also rings for work
  std::vector<Chore> batch_{};  // the thread's own
  std::vector<std::string> changed_{};

  std::mutex mutex_{};
  std::condition_variable written_{};
  bool writing_{false};
  std::uint64_t writes_{0};
  TimePoint occupied_until_{TimePoint::min()};  // how long the I/O that is under way may take
  bool hurried_{false};                         // by a timer of quit_
  bool quitting_{false};
  TimePoint planned_{TimePoint::min()};
  bool in_use_{false};  // locks were granted since the last rest
  TimerHeap<LeaseState, &LeaseState::renewal> leases_{};
  TimerHeap<Line, &Line::nudge> lines_{};
  TimerHeap<Unsettled, &Unsettled::retry> unsettled_{};
};

// --- below: bodies

inline void Keeper::hold(LeaseState& lease, TimePoint due) noexcept {
  std::lock_guard const guard{mutex_};
  leases_.put(lease, due);
  in_use_ = true;
  plan(due);
  // Whoever keeps this thread waiting for an answer that may never come must not make the first renewal late.
  hurry(after(due, std::max(renewal_patience(lease.spec->options.ttl, command_timeout_) / 2, milliseconds{5})));
}

inline void Keeper::drop(LeaseState& lease) noexcept {
  std::unique_lock lock{mutex_};
  if (lease.renewal.set()) leases_.remove(lease);
  // A batch that was gathered before may be on its way to the socket right now.
  written_.wait(lock, [this, write = writes_] { return !writing_ || writes_ != write; });
}

inline void Keeper::watch(Line& line, std::int64_t pttl, std::string const& waiter) {
  auto token = in_room(line.spec->keys.hold) ? std::make_shared<std::string const>(waiter) : nullptr;
  std::lock_guard const guard{mutex_};
  line.waiter = std::move(token);
  auto const due = nudge_due(pttl, authority_->now());
  if (line.nudge.set()) {
    lines_.move(line, due);
  } else {
    lines_.promise();
    lines_.put(line, due);
  }
  plan(due);
}

inline void Keeper::unwatch(Line& line) noexcept {
  std::lock_guard const guard{mutex_};
  if (line.nudge.set()) lines_.remove(line);
}

inline std::shared_ptr<Unsettled> Keeper::room_to_settle(std::shared_ptr<LockSpec const> const& spec, std::string const& owner) {
  auto open = std::make_shared<Unsettled>(spec, owner);
  std::lock_guard const guard{mutex_};
  unsettled_.promise();
  open->room_at = this;
  return open;
}

inline Unsettled::~Unsettled() {
  if (room_at != nullptr) room_at->take_back_room_to_settle();
}

inline void Keeper::settle(LeaseState& lease, TimePoint until, int copies, bool in_earnest) noexcept {
  std::lock_guard const guard{mutex_};
  auto& open = *lease.unsettled;
  open.until = std::max(open.until, until);
  open.copies = std::max(open.copies, copies);
  if (open.room_at == nullptr) return;  // at it, or done already
  if (in_earnest) open.released = lease.shared_from_this();
  open.room_at = nullptr;
  auto const due = authority_->now();
  unsettled_.put(open, due);
  open.self = lease.unsettled;
  plan(due);
}

/// Under the mutex: until something is due. Where locks come and go it wakes by itself about when the next one would be due,
/// so that who is granted one need not ring.
inline TimePoint Keeper::rest() noexcept {
  auto const due = earliest();
  return std::exchange(in_use_, false) ? std::min(due, after(authority_->now(), longest_first_keep_delay)) : due;
}

inline TimePoint Keeper::next_due() {
  std::lock_guard const guard{mutex_};
  return earliest();
}

inline void Keeper::plan(TimePoint due) noexcept {
  if (due >= planned_) return;
  planned_ = due;
  worker_.wake();
}

/// Under the mutex: the I/O that is under way, if any, ends by `latest` at the latest.
inline void Keeper::hurry(TimePoint latest) noexcept {
  if (quitting_ || latest >= occupied_until_) return;
  occupied_until_ = latest;
  hurried_ = true;
  quit_.ring_at(latest);
}

/// Under the mutex: none is under way.
inline void Keeper::at_leisure() noexcept {
  occupied_until_ = TimePoint::min();
  if (std::exchange(hurried_, false) && !quitting_) quit_.silence();
}

inline TimePoint Keeper::step() {
  for (;;) {
    if (authority_->tracks()) hear_changes();
    auto patience = command_timeout_;
    // Deadlines of sockets are in real time, also where tests move the clock.
    auto deadline = after(Clock::now(), std::min(command_timeout_, longest_patience));
    {
      std::lock_guard const guard{mutex_};
      planned_ = TimePoint::min();  // awake: nobody needs to ring
      if (worker_.stopping() || earliest() > authority_->now()) return planned_ = rest();
      occupied_until_ = deadline;
    }
    authority_->prepare(deadline, &quit_);
    {
      std::lock_guard const guard{mutex_};
      at_leisure();
      if (worker_.stopping() || !gather_due(authority_->now(), patience)) return planned_ = rest();
      writing_ = true;
      ++writes_;
      occupied_until_ = deadline = after(Clock::now(), patience);
    }
    authority_->send(batch_, deadline, &quit_);
    {
      std::lock_guard const guard{mutex_};
      writing_ = false;
    }
    written_.notify_all();
    authority_->collect(batch_, deadline, &quit_);
    {
      std::lock_guard const guard{mutex_};
      at_leisure();
    }
    auto const now = authority_->now();
    for (auto const& chore : batch_) {
      if (chore.lease) conclude_renewal(chore, now);
      if (chore.line) conclude_nudge(chore, now);
      if (chore.unsettled) conclude_settling(chore, now);
    }
    batch_.clear();
  }
}

/// Keys that somebody changed are looked at now instead of at the next renewal.
inline void Keeper::hear_changes() noexcept {
  changed_.clear();
  bool const any = authority_->take_changes(changed_);
  if (!any && changed_.empty()) return;
  std::sort(changed_.begin(), changed_.end());
  auto const now = authority_->now();
  std::lock_guard const guard{mutex_};
  try {
    for (auto* const lease : std::vector<LeaseState*>{leases_.items()}) {  // a copy: moving one changes the order
      if (!primitive(lease->spec->keys.hold).one_owner) continue;
      if (!any && !std::binary_search(changed_.begin(), changed_.end(), lease->name())) continue;
      lease->verify = true;
      leases_.move(*lease, std::min(lease->renewal.due, now));
    }
  } catch (std::bad_alloc const&) {  // then the next renewal finds it
  }
}

/// Gathers what is due, under the mutex: what is dropped from here on is not in the batch, or waits for its writing.
inline bool Keeper::gather_due(TimePoint now, milliseconds& patience) noexcept {
  while (batch_.size() < most_chores && !leases_.empty()) {
    auto& lease = *leases_.front();
    if (lease.renewal.due > now && (batch_.empty() || !goes_along(lease, now))) break;
    auto const ttl = lease.spec->options.ttl;
    bool const renews = now < lease.renew_until || lease.first_keep;
    if (!renews && !lease.verify) {  // held for as long as it may be: it ends with its TTL
      if (authority_->tracks() && primitive(lease.spec->keys.hold).one_owner)
        leases_.move(lease, never);
      else
        leases_.remove(lease);
      continue;
    }
    lease.verify = false;
    leases_.move(lease, after(after(now, command_timeout_), command_timeout_));  // until its answer says when
    lease.may_live_until(after(after(now, command_timeout_), ttl));
    patience = std::min(patience, std::max(renewal_patience(ttl, command_timeout_), milliseconds{50}));
    auto& chore = batch_.emplace_back();
    chore.request = keep_request(lease.spec->keys, lease.token.stored(), renews ? ttl : milliseconds{1}, lease.fence, retention_for(ttl));
    chore.lease = lease.shared_from_this();
  }
  while (batch_.size() < most_chores && lines_.next_due() <= now) {
    auto& line = *lines_.front();
    lines_.move(line, after(now, nudge_poll));
    auto& chore = batch_.emplace_back();
    chore.line = line.shared_from_this();
    chore.waiter = line.waiter;
    chore.request = nudge_request(line.spec->keys, chore.waiter ? std::string_view{*chore.waiter} : std::string_view{}, claim_time,
                                  retention_for(line.spec->options.ttl), waiting_life);
  }
  while (batch_.size() < most_chores && unsettled_.next_due() <= now) {
    auto& open = *unsettled_.front();
    unsettled_.move(open, after(after(now, command_timeout_), command_timeout_));
    auto& chore = batch_.emplace_back();
    chore.request = release_request(open.spec->keys, open.owner, claim_time, retention_for(open.spec->options.ttl));
    chore.unsettled = open.self;
  }
  // An answer that never comes must not make the next renewal late, nor that of a lease that begins meanwhile.
  patience = std::min(patience, longest_patience);
  if (!leases_.empty()) {
    auto const next = leases_.next_due() == never ? longest_patience : remaining(leases_.next_due(), now);
    auto const ttl = leases_.front()->spec->options.ttl;
    patience = std::min(patience, std::max(next + renewal_patience(ttl, command_timeout_) / 2, milliseconds{50}));
  }
  return !batch_.empty();
}

/// Whether the next renewal, not due yet, is near enough to go with this batch. Not one whose answer is awaited: that is due
/// two command timeouts from its sending.
inline bool Keeper::goes_along(LeaseState const& lease, TimePoint now) const noexcept {
  if (lease.first_keep || lease.verify || lease.renewal.due >= lease.renew_until) return false;
  return lease.renewal.due - now <= renewal_company(lease.spec->options.ttl, command_timeout_);
}

inline void Keeper::conclude_renewal(Chore const& chore, TimePoint now) noexcept {
  auto& lease = *chore.lease;
  auto const ttl = lease.spec->options.ttl;
  if (chore.outcome == Chore::Outcome::again) return renew_at(lease, now);
  if (chore.outcome != Chore::Outcome::answered) {
    if (!lease.validity.held(now)) return forget(lease);
    renew_at(lease, after(now, renewal_retry(ttl)));
    return herald_->post(Event::Kind::renewal_failed, lease.name(), lease.fence, now - chore.sent, chore.reason());
  }
  if (chore.endpoint != nullptr) lease.endpoint.store(chore.endpoint, std::memory_order_relaxed);
  if (!chore.answer.yes) {
    lease.gone.store(true);
    lease.loss_reason.store("taken over or deleted");
    if (lease.validity.end(Standing::lost) == Standing::held) herald_->tell(lease);
    return forget(lease);
  }
  if (lease.validity.prolong(valid_until(chore.sent, chore.request.lease), now)) {
    kept(lease, renewal_due(chore.sent, ttl));
    return herald_->post(Event::Kind::renewed, lease.name(), lease.fence, now - chore.sent);
  }
  forget(lease);
  // The server lengthened a lease that its holder had given up as lost: nobody will release it but we.
  if (lease.validity.standing() == Standing::lost) settle(lease, lease.latest_end(), 0);
}

inline void Keeper::conclude_nudge(Chore const& chore, TimePoint now) noexcept {
  auto due = now;
  bool kick = false;
  bool refused = false;
  if (chore.outcome == Chore::Outcome::answered) {
    kick = has_lost_place(chore.request, chore.answer);
    due = kick ? after(now, nudge_poll) : nudge_due(chore.answer.value, now);
  } else if (chore.outcome != Chore::Outcome::again) {
    due = after(now, backoff(10, random()));
    refused = chore.outcome == Chore::Outcome::refused && chore.error && !chore.error->retryable();
    kick = refused || chore.outcome == Chore::Outcome::unanswered;
  }
  kick = kick || chore.moved;  // it waits where nobody will hand anything over
  std::lock_guard const guard{mutex_};
  if (!chore.line->nudge.set() || chore.waiter != chore.line->waiter) return;
  lines_.move(*chore.line, due);
  if (kick) chore.line->kick(refused ? &*chore.error : nullptr);  // under the mutex: never after unwatch() returned
}

inline void Keeper::conclude_settling(Chore const& chore, TimePoint now) noexcept {
  auto& open = *chore.unsettled;
  bool const answered = chore.outcome == Chore::Outcome::answered;
  if (answered && chore.answer.yes && open.copies > 0) --open.copies;
  bool const first = chore.outcome != Chore::Outcome::again && open.attempts == 0;
  auto const due = chore.outcome == Chore::Outcome::again ? now : after(now, backoff(open.attempts++, random()));
  std::shared_ptr<LeaseState> released;
  {
    std::lock_guard const guard{mutex_};
    if (answered || due >= open.until) released = std::move(open.released);
    if ((answered && open.copies == 0) || due >= open.until) {
      unsettled_.remove(open);
      open.self.reset();
    } else {
      unsettled_.move(open, due);
    }
  }
  if (first && !answered) herald_->post(Event::Kind::orphan_possible, open.spec->name(), Fence{}, {}, chore.reason());
  if (!released || !answered) return;
  // "Not yours" proves something only of the first request: a second one may come behind its own first.
  bool const lost = !chore.answer.yes && first;
  auto const held_for = now - released->granted;
  if (lost)
    herald_->post(Event::Kind::lost, released->name(), released->fence, held_for, "taken over or deleted", released->endpoint_text());
  else
    herald_->post(Event::Kind::released, released->name(), released->fence, held_for);
}

inline void Keeper::kept(LeaseState& lease, TimePoint due) noexcept {
  std::lock_guard const guard{mutex_};
  lease.first_keep = false;
  if (lease.renewal.set()) leases_.move(lease, due);
}

inline void Keeper::renew_at(LeaseState& lease, TimePoint due) noexcept {
  std::lock_guard const guard{mutex_};
  if (!lease.renewal.set()) return;  // dropped meanwhile
  leases_.move(lease, due);
}

inline void Keeper::forget(LeaseState& lease) noexcept {
  std::lock_guard const guard{mutex_};
  if (lease.renewal.set()) leases_.remove(lease);
}

/// After the PTTL the server told: -2, nobody holds it: at once; -1, held without expiry by a foreign client: a poll.
inline TimePoint Keeper::nudge_due(std::int64_t pttl, TimePoint now) noexcept {
  if (pttl == -2) return now;
  auto const held_for = pttl < 0 ? nudge_poll : milliseconds{pttl} + milliseconds{1};
  return after(now, std::min(held_for, nudge_poll));
}

inline std::uint64_t Keeper::random() noexcept {  // xorshift64
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

}  // namespace mortise::inline v1::detail
