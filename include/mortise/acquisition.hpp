// SPDX-License-Identifier: MIT
// One acquisition of a lock on one deployment: a try, or a wait in turn with the hand-off of docs/protocol.md.
#pragma once

#include <array>
#include <cstdio>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/link.hpp>
#include <mortise/local_queue.hpp>

namespace mortise::inline v1::detail {

/// What an acquisition needs of its core.
struct AcquisitionContext {
  Link& link;
  Keeper& keeper;
  LocalQueue& queue;
  ClientOptions const& options;
  std::string const& label;
};

/// One call: one token, however often it is sent. At its end either the lease is granted, or everything that may have
/// been carried out is being undone.
class Acquisition {
 public:
  Acquisition(AcquisitionContext context, LeaseState& lease, Patience const& patience, LocalQueue::Place* place)
      : context_{context}, route_{context.link.topology(), lease.spec->keys.slot}, lease_{lease}, patience_{patience}, place_{place},
        began_{Clock::now()},
        deadline_{patience.waits ? patience.deadline : after(began_, context.options.command_timeout)} {
    if (place_ == nullptr) return;
    copies_ = asked().answer.yes ? 1 : asked().copies;
    doubt_until_ = asked().doubt_until;
    tried_ = asked().copies > 0;
  }

  Acquired run(Grant& grant);

 private:
  AskedFor const& asked() const noexcept { return place_->asked(); }
  bool granted_to_us(Grant& grant) const noexcept;
  /// What became of a blocking pop and the claim behind it.
  struct Popped {
    bool answered{false};    // false: the wait ended on this side
    std::string element{};   // of the wake list
    Answer claim{};
    TimePoint received{};
  };

  std::optional<Acquired> attempt(Grant& grant);
  std::optional<Acquired> wait_at_server(Grant& grant, Answer const& busy);
  std::optional<Acquired> stopped();
  Answer ask(milliseconds wait, std::string_view popped);
  Popped block(milliseconds pop, std::uint64_t bound);
  std::optional<Reply> await_element();
  bool take(Grant& grant, Answer const& answer, TimePoint until, bool brief);
  bool make_valid(Grant& grant);
  void confirm_replicas();
  void recover(Error const& error);
  void pause(milliseconds time);
  [[noreturn]] void fail(Error const& error);
  void give_up() noexcept;
  void hang_up() noexcept;
  void settle() noexcept;
  void start_over();
  void give_back() noexcept {
    lent_->give_back();
    lent_.reset();
  }

  LockKeys const& keys() const noexcept { return lease_.spec->keys; }
  std::string const& token() const noexcept { return lease_.token.stored(); }
  milliseconds ttl() const noexcept { return lease_.spec->options.ttl; }
  Primitive how() const noexcept { return primitive(keys().hold); }
  milliseconds brief_lease() const noexcept { return how().claims ? std::min(ttl(), handoff_lease) : turn_time; }
  milliseconds retention() const noexcept { return retention_for(ttl()); }
  bool doubtful() const noexcept { return copies_ > 0 || in_line_; }
  /// One request may end a little after the deadline of the whole: a grant that comes then still counts.
  TimePoint step_deadline() const noexcept {
    return std::min(after(deadline_, patience_.waits ? milliseconds{25} : milliseconds{0}),
                    after(Clock::now(), context_.options.command_timeout));
  }
  Wake* bell() const noexcept { return place_ == nullptr ? nullptr : &place_->bell(); }

  AcquisitionContext context_;
  Route route_;
  LeaseState& lease_;
  Patience const& patience_;
  LocalQueue::Place* place_;
  TimePoint began_;
  TimePoint deadline_;
  std::optional<Pool::Lent> lent_{};
  TimePoint sent_{};             // of the last ACQUIRE
  int copies_{0};                // of ACQUIRE with this token that were written and never answered
  TimePoint doubt_until_{};      // what they may have set is gone by then
  bool in_line_{false};          // the server has this token in a line, from which it can be served at any time
  bool tried_{false};            // at least one attempt is over
  unsigned failures_{0};         // at a stretch
  TimePoint unreachable_since_{never};
};

// --- below: bodies

inline Acquired Acquisition::run(Grant& grant) {
  if (place_ != nullptr && granted_to_us(grant)) return Acquired::granted;
  std::optional<std::stop_callback<std::function<void()>>> cancelled;
  if (place_ != nullptr && patience_.cancel.stop_possible()) cancelled.emplace(patience_.cancel, [bell = bell()] { bell->ring(); });
  for (;;) {
    if (place_ != nullptr) place_->bell().silence_if_rung();  // first, so that no ring is overheard
    if (auto const end = stopped()) return *end;
    try {
      if (auto const end = attempt(grant)) return *end;
      failures_ = 0;
      unreachable_since_ = never;
      route_.arrived();
    } catch (Error const& error) {
      recover(error);
    } catch (...) {  // no memory: whatever was asked for is undone
      give_up();
      throw;
    }
    tried_ = true;
  }
}

/// Asked for by the holder before, with its release, and good: an answer that came too late is asked for again, by the same token.
inline bool Acquisition::granted_to_us(Grant& grant) const noexcept {
  if (!asked().answer.yes) return false;
  grant = Grant{Fence{static_cast<std::uint64_t>(asked().answer.value)}, asked().sent, valid_until(asked().sent, ttl()), false, true};
  if (grant.until <= Clock::now()) return false;
  lease_.endpoint.store(asked().endpoint, std::memory_order_relaxed);
  lease_.may_live_until(doubt_until_);
  return true;
}

/// Cancelled, closed, or out of time: then nothing of this call remains.
inline std::optional<Acquired> Acquisition::stopped() {
  if (!patience_.waits) return std::nullopt;
  bool const cancelled = patience_.cancel.stop_requested();
  bool const closed = context_.queue.closed();
  bool const late = tried_ && failures_ == 0 && Clock::now() >= deadline_;
  if (!cancelled && !closed && !late) return std::nullopt;
  give_up();
  if (!cancelled && closed) throw Error{Errc::closed, "the Client went away while waiting for lock " + printable(lease_.name())};
  return cancelled ? Acquired::cancelled : Acquired::busy;
}

/// One ACQUIRE and, if it has to wait, one turn in the line. Nothing: try again.
inline std::optional<Acquired> Acquisition::attempt(Grant& grant) {
  if (!lent_) lent_.emplace(route_.lend(step_deadline(), bell()));
  // With no time left to wait it is a try, and nobody is told of a waiter.
  auto const answer = ask(patience_.waits && Clock::now() < deadline_ ? waiting_life : milliseconds::zero(), {});
  if (answer.yes) return take(grant, answer, valid_until(sent_, ttl()), false) ? std::optional{Acquired::granted} : std::nullopt;
  in_line_ = patience_.waits && in_room(keys().hold);
  if (patience_.waits && Clock::now() < deadline_) return wait_at_server(grant, answer);
  give_back();
  if (doubtful()) settle();
  return Acquired::busy;
}

inline std::optional<Acquired> Acquisition::wait_at_server(Grant& grant, Answer const& busy) {
  context_.keeper.watch(place_->line(), busy.value, token());
  auto const pop = pop_timeout(remaining(deadline_, Clock::now()));
  auto const first_sent = sent_;
  auto popped = block(pop, pop_bound(busy.server_time, pop));
  if (!popped.answered) return std::nullopt;
  auto answer = popped.claim;
  auto until = valid_until_handed_over(first_sent, busy.server_time, answer.server_time, popped.received, brief_lease());
  bool brief = true;
  if (!answer.yes && !popped.element.empty()) {
    // Popped, but the claim behind it came too late to prove it: claim by the fence itself, one hop more.
    // Should its answer be lost, the next attempt finds the lock taken by this token, or the reservation runs out.
    answer = ask(waiting_life, popped.element);
    until = valid_until(sent_, ttl());
    brief = false;
  }
  if (!answer.yes) return std::nullopt;  // out of time, or the reservation ran out: then again, at the tail
  if (!how().claims && context_.options.replicas > 0) {
    // WAIT speaks of this connection's own writes, and another's let us in: one of our own makes it good.
    answer = ask(waiting_life, {});
    until = valid_until(sent_, ttl());
    brief = false;
    if (!answer.yes) return std::nullopt;
  }
  grant.handed_over = true;
  return take(grant, answer, until, brief) ? std::optional{Acquired::granted} : std::nullopt;
}

inline Answer Acquisition::ask(milliseconds wait, std::string_view popped) {
  auto const deadline = step_deadline();
  auto const request = acquire_request(keys(), token(), ttl(), retention(), wait, popped);
  ++copies_;
  doubt_until_ = std::max(doubt_until_, after(deadline, ttl()));
  try {
    auto const reply = call_script(**lent_, deadline, keys().lock, [&](ScriptBy by) {
      sent_ = Clock::now();
      append(**lent_, request, by);
    });
    auto const answer = to_answer(Verb::acquire, *reply);
    --copies_;
    return answer;
  } catch (Error const& error) {
    bool const refused = error.errc() != Errc::connection_lost && error.errc() != Errc::timeout;
    if (refused) --copies_;  // an error reply is an answer too
    throw;
  }
}

/// BLPOP and the claim behind it in one write: Redis runs the second in the same turn in which the first ends. In a room
/// the element says all: whoever released has let this token in already.
inline auto Acquisition::block(milliseconds pop, std::uint64_t bound) -> Popped {
  auto& connection = **lent_;
  std::array<char, 32> seconds;
  std::snprintf(seconds.data(), seconds.size(), "%lld.%03d", static_cast<long long>(pop.count() / 1000), static_cast<int>(pop.count() % 1000));
  auto const mark = "*" + std::to_string(bound);
  auto const claim = acquire_request(keys(), token(), brief_lease(), retention(), waiting_life, mark);
  connection.append({"BLPOP", keys().turn(token()), seconds.data()});
  if (how().claims) {
    append(connection, claim);
    ++copies_;
  }
  connection.send(step_deadline());
  auto const element = await_element();
  doubt_until_ = std::max(doubt_until_, after(Clock::now(), brief_lease()));
  if (!element) return {};
  if (!how().claims) {
    doubt_until_ = std::max(doubt_until_, after(Clock::now(), waiting_life + turn_time));
    if ((*element)->is_error()) throw connection.refusal((*element)->text(), keys().lock);
    return {.answered = true, .claim = (*element)->is_array() ? to_turn((**element)[1].text()) : Answer{}, .received = Clock::now()};
  }

  // The claim's answer stands right behind, in most cases in the same segment.
  auto reply = connection.receive(step_deadline());
  if ((*element)->is_error()) {
    if ((*reply)->is_error() || !to_answer(Verb::acquire, **reply).yes) --copies_;  // refused or busy: nothing to undo
    throw connection.refusal((*element)->text(), keys().lock);
  }
  if (is_unknown_script(connection, **reply)) {
    append(connection, claim, ScriptBy::text);
    connection.send(step_deadline());
    reply = connection.receive(step_deadline());
  }
  if ((*reply)->is_error()) {
    --copies_;
    throw connection.refusal((*reply)->text(), keys().lock);
  }
  Popped popped{.answered = true, .claim = to_answer(Verb::acquire, **reply), .received = Clock::now()};
  --copies_;
  if ((*element)->is_array()) popped.element = (**element)[1].text();
  return popped;
}

/// The pop's own reply; nothing if this side ends the wait: out of time, cancelled, closed, kicked. Throws a refusal that
/// the keeper met.
inline std::optional<Reply> Acquisition::await_element() {
  // A server looks at its timeouts ten times a second: beyond a little grace this side hangs up by itself.
  auto const until = after(deadline_, milliseconds{5});
  try {
    for (;;) {
      if (auto reply = (*lent_)->receive(until, bell())) return reply;
      place_->bell().silence();
      if (patience_.cancel.stop_requested() || context_.queue.closed()) return std::nullopt;
      if (place_->was_kicked()) {
        lent_.reset();  // closed without a word: the same token asks again over a new connection
        return std::nullopt;
      }
    }
  } catch (Error const& error) {
    if (error.errc() == Errc::timeout) return std::nullopt;
    throw;
  }
}

/// Makes the grant good: replicas that were asked for, and a validity that is not over yet.
inline bool Acquisition::take(Grant& grant, Answer const& answer, TimePoint until, bool brief) {
  grant.fence = Fence{static_cast<std::uint64_t>(answer.value)};
  grant.sent = brief ? Clock::now() : sent_;
  grant.until = until;
  grant.brief = brief;
  ++copies_;  // should anything fail from here on, the token holds the lock
  doubt_until_ = std::max(doubt_until_, after(Clock::now(), ttl()));
  if (context_.options.replicas > 0) confirm_replicas();
  if (!make_valid(grant)) {
    if (!patience_.waits)
      throw Error{Errc::timeout, "granted, but its validity was over before it could be used: the TTL is too short for this server"};
    start_over();
    return false;
  }
  --copies_;
  in_line_ = false;
  lease_.endpoint.store(&lent_->pool().endpoint(), std::memory_order_relaxed);
  lease_.may_live_until(doubt_until_);
  lease_.loose_copies.store(copies_);
  give_back();
  return true;
}

/// A one-hop grant whose answer came late is worth one KEEP; any other that is over is over.
inline bool Acquisition::make_valid(Grant& grant) {
  auto const now = Clock::now();
  if (!grant.brief) return grant.until > now;
  if (grant.until - now > nanoseconds{brief_lease()} / 4) return true;
  auto const deadline = std::min(step_deadline(), after(now, brief_lease()));
  auto const request = keep_request(keys(), token(), ttl(), grant.fence, retention());
  auto const reply = call_script(**lent_, deadline, keys().lock, [&](ScriptBy by) {
    grant.sent = Clock::now();
    append(**lent_, request, by);
  });
  if (!to_answer(Verb::keep, *reply).yes) return false;
  grant.until = valid_until(grant.sent, ttl());
  grant.brief = false;
  return grant.until > Clock::now();
}

inline void Acquisition::confirm_replicas() {
  auto& connection = **lent_;
  auto const wanted = context_.options.replicas;
  auto const patience = context_.options.replicas_timeout;
  // 0 would be for ever; and the answer has to be here in time.
  auto const rest = remaining(step_deadline(), Clock::now()) - milliseconds{10};
  auto const time = std::to_string(std::max(std::min(patience, rest), milliseconds{1}).count());
  bool const fsync = context_.options.replicas_fsync;
  if (fsync)
    connection.append({"WAITAOF", "0", std::to_string(wanted), time});
  else
    connection.append({"WAIT", std::to_string(wanted), time});
  connection.send(step_deadline());
  auto const endpoint = connection.endpoint();
  std::int64_t confirmed = 0;
  try {
    auto const reply = connection.expect(step_deadline());
    confirmed = fsync ? reply.view()[1].integer() : reply.view().integer();  // {0 or 1 for the primary's own disk, replicas}
  } catch (Error const& error) {
    if (error.errc() != Errc::timeout) throw;  // an idle server looks at its timeouts late: not confirmed in time
  }
  if (confirmed >= wanted) return;
  if (patience_.waits) start_over();
  throw Error{Errc::server_refused, endpoint + ": granted, but only " + std::to_string(confirmed) + " of " + std::to_string(wanted) +
                                        " replicas confirmed it within " + text(patience) + ": undone"};
}

/// Decides whether a fault is worth another attempt, and pauses before it. Throws if not.
inline void Acquisition::recover(Error const& error) {
  auto const now = Clock::now();
  bool const follows = route_.follow(lent_ ? &**lent_ : nullptr, error);
  bool const answered = error.errc() == Errc::server_refused || !error.retryable();
  bool const broke = error.errc() == Errc::connection_lost;
  if (!follows && !error.retryable()) fail(error);
  if (now >= deadline_) fail(follows ? route_.last_word() : error);
  if (!patience_.waits && !follows && (!broke || failures_ != 0)) fail(error);
  if (answered) {
    unreachable_since_ = never;
  } else {
    if (unreachable_since_ == never) unreachable_since_ = now;
    if (deadline_ == never && now - unreachable_since_ >= context_.options.retry_for) fail(error);
  }
  lent_.reset();
  // Once without a pause: the connection may just have been idle for too long.
  auto const failed = failures_++;
  auto const random = random_stock().take<1>()[0];
  if (follows)
    pause(route_.pause(random));
  else if (!broke || failed != 0)
    pause(backoff(failed, random));
}

inline void Acquisition::pause(milliseconds time) {
  if (time == milliseconds::zero()) return;
  if (await_descriptor(-1, 0, std::min(after(Clock::now(), time), deadline_), bell()) == Awaited::interrupted) bell()->silence();
}

/// Ends the call with an error, once whatever was written is being undone.
inline void Acquisition::fail(Error const& error) {
  if (!doubtful()) throw error;
  hang_up();
  settle();
  bool const known = error.errc() == Errc::server_refused || (error.errc() == Errc::timeout && !error.in_doubt()) || !error.retryable();
  throw known ? error : Error{Errc::in_doubt, std::string{"sent, but no answer: "} + error.what()};
}

/// Leaves the line and undoes what may have been done: in a moment if the server answers, else in the background.
inline void Acquisition::give_up() noexcept {
  hang_up();
  if (!doubtful()) return;
  try {
    auto const deadline = std::min(after(Clock::now(), milliseconds{25}), after(deadline_, milliseconds{40}));  // of the 50 promised
    context_.link.ask(release_request(keys(), token(), claim_time, retention()), deadline);
    // One stood in front of a RELEASE on its own connection; unless another thread had sent it.
    if (copies_ <= 1 && (place_ == nullptr || asked().copies == 0)) return;
  } catch (...) {  // not now: in the background
  }
  settle();
}

/// Closes the connection with a RELEASE behind whatever was asked on it: if the server still runs the one, it runs the
/// other too, and if it drops the one because its client has gone, there is nothing to release.
inline void Acquisition::hang_up() noexcept {
  if (!lent_) return;
  try {
    if (doubtful()) append(**lent_, release_request(keys(), token(), claim_time, retention()));
  } catch (...) {  // no memory: settled over another connection
  }
  (*lent_)->send_and_close();
  lent_.reset();
}

inline void Acquisition::settle() noexcept {
  context_.keeper.settle(lease_, std::min(doubt_until_, after(Clock::now(), ttl())), copies_);
  copies_ = 0;
  in_line_ = false;
}

/// Gives up what this token holds and goes on with another: a RELEASE of a token may never meet a later grant of it.
inline void Acquisition::start_over() {
  give_up();
  copies_ = 0;
  in_line_ = false;
  lease_.token = OwnerToken::fresh(context_.label);
  lease_.unsettled = context_.keeper.room_to_settle(lease_.spec, token());
}

}  // namespace mortise::inline v1::detail
