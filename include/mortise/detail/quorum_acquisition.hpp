// SPDX-License-Identifier: MIT
// One acquisition of a lock at a quorum: a try, or attempts with pauses between them until it is this caller's.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/detail/quorum_attempt.hpp>
#include <mortise/local_queue.hpp>

namespace mortise::inline v1::detail {

/// What an acquisition needs of its core.
struct QuorumContext {
  QuorumNodes& nodes;
  LanePool& pool;
  LocalQueue& queue;
  Keeper& keeper;
  Herald& herald;
  ClientOptions const& options;
  std::string const& label;
};

class QuorumAcquisition {
 public:
  QuorumAcquisition(QuorumContext context, LeaseState& lease, Patience const& patience, LocalQueue::Place* place)
      : context_{context}, lease_{lease}, patience_{patience}, place_{place},
        deadline_{patience.waits ? patience.deadline : after(Clock::now(), context.options.command_timeout)} {}

  Acquired run(Grant& grant);

 private:
  std::optional<Acquired> attempt(Grant& grant);
  std::optional<Acquired> stopped();
  void recover(Error const& error, bool broke);
  void pause(nanoseconds time);
  static constexpr unsigned most_splits = 4;  // of a try
  static std::uint64_t random() { return random_stock().take<1>()[0] * 256U + random_stock().take<1>()[0]; }

  QuorumContext context_;
  LeaseState& lease_;
  Patience const& patience_;
  LocalQueue::Place* place_;
  TimePoint deadline_;
  bool tried_{false};
  unsigned busy_{0};      // attempts at a stretch that found somebody else
  unsigned failures_{0};  // … that found too few nodes
  TimePoint unreachable_since_{never};
};

// --- below: bodies

inline Acquired QuorumAcquisition::run(Grant& grant) {
  std::optional<std::stop_callback<std::function<void()>>> cancelled;
  if (place_ != nullptr && patience_.cancel.stop_possible())
    cancelled.emplace(patience_.cancel, [bell = &place_->bell()] { bell->ring(); });
  for (;; tried_ = true) {
    if (place_ != nullptr) place_->bell().silence_if_rung();  // first, so that no ring is overheard
    if (auto const end = stopped()) return *end;
    if (auto const end = attempt(grant)) return *end;
  }
}

/// Cancelled, closed, or out of time. Nothing has to be undone: each attempt undoes itself.
inline std::optional<Acquired> QuorumAcquisition::stopped() {
  if (!patience_.waits) return std::nullopt;
  if (patience_.cancel.stop_requested()) return Acquired::cancelled;
  if (context_.queue.closed()) throw Error{Errc::closed, "the Quorum went away while waiting for lock " + printable(lease_.name())};
  if (tried_ && failures_ == 0 && Clock::now() >= deadline_) return Acquired::busy;
  return std::nullopt;
}

inline std::optional<Acquired> QuorumAcquisition::attempt(Grant& grant) {
  // Each attempt has a token of its own: the RELEASE of one may never meet a later grant of it.
  if (tried_) {
    lease_.token = OwnerToken::fresh(context_.label);
    lease_.unsettled = context_.keeper.room_to_settle(lease_.spec, lease_.token.stored());
  }
  auto const patience = patience_.waits ? std::min(after(deadline_, milliseconds{20}), after(Clock::now(), context_.options.command_timeout)) : deadline_;
  lease_.may_live_until(after(patience, lease_.spec->options.ttl));
  nanoseconds wait{};
  {
    auto lanes = context_.pool.lend();
    QuorumAttempt attempt{context_.nodes, *lanes, *lease_.spec, lease_.token.stored()};
    switch (attempt.run(grant, patience)) {
      case QuorumAttempt::Result::granted:
        grant.handed_over = false;
        return Acquired::granted;
      case QuorumAttempt::Result::busy:
        failures_ = 0;
        unreachable_since_ = never;
        // Where several try at once each may get some nodes, and nobody enough: somebody should.
        if (!patience_.waits && (!attempt.split() || busy_ == most_splits || Clock::now() >= deadline_)) return Acquired::busy;
        wait = contention_pause(busy_++, attempt.split(), attempt.took(), random());
        break;
      case QuorumAttempt::Result::too_late:
        if (!patience_.waits)
          throw Error{Errc::timeout, "lock " + printable(lease_.name()) + ": its ttl of " + text(lease_.spec->options.ttl) +
                                         ", less the drift allowance, was over before enough nodes had answered: undone"};
        failures_ = 0;  // nodes are there, only slow: that is busy when the deadline comes, and no lack of a quorum
        unreachable_since_ = never;
        wait = contention_pause(busy_++, true, attempt.took(), random());
        break;
      case QuorumAttempt::Result::no_quorum: {
        busy_ = 0;
        auto const error = attempt.error();
        bool const broke = attempt.broke();
        if (failures_ == 0) context_.herald.post(Event::Kind::no_quorum, lease_.name(), Fence{}, {}, error.what());
        recover(error, broke);
        return std::nullopt;
      }
    }
  }
  pause(wait);  // without the connections: others may use them
  return std::nullopt;
}

/// Decides whether too few nodes are worth another attempt, and pauses before it. Throws if not.
inline void QuorumAcquisition::recover(Error const& error, bool broke) {
  auto const now = Clock::now();
  // Without a pause: each connection may just have been idle for too long.
  bool const at_once = broke && failures_ < context_.nodes.size();
  if (!error.retryable() || now >= deadline_ || (!patience_.waits && !at_once)) throw error;
  if (unreachable_since_ == never) unreachable_since_ = now;
  if (deadline_ == never && now - unreachable_since_ >= context_.options.retry_for) throw error;
  if (auto const failed = failures_++; !at_once) pause(backoff(failed, random()));
}

/// Ends early when the wait is cancelled, the queue closed, or a thread of this process gave the lock up.
inline void QuorumAcquisition::pause(nanoseconds time) {
  if (time <= nanoseconds::zero()) return;
  auto const now = Clock::now();
  auto const until = now + std::min<nanoseconds>(time, deadline_ == never ? time : std::max<nanoseconds>(deadline_ - now, nanoseconds::zero()));
  if (place_ != nullptr)
    place_->bell().wait_until(until);
  else
    await_descriptor(-1, 0, until, nullptr);
}

}  // namespace mortise::inline v1::detail
