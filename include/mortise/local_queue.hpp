// SPDX-License-Identifier: MIT
// Threads of one core that wait for one name stand in line here. Only the first of them waits at the server, and not even
// that one while a thread of the same core holds the lock: whoever releases it then asks in the name of the next.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <mortise/asked_for.hpp>
#include <mortise/chore.hpp>
#include <mortise/detail/wake.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// How long the next thread in line waits for a holder of its own core before it takes a place at the server; a hold that
/// takes longer is worth the place.
inline constexpr milliseconds local_patience{50};
/// Where others turn out to be in line at the server, threads do not wait for each other for so long.
inline constexpr milliseconds local_reserve{100};

/// First come, first served among the threads of one core: connections grow with the names waited for, not with threads.
/// Readers alone wait each in a line of their own, with a connection of their own.
class LocalQueue {
  struct Ticket;
  struct NamedLine;

 public:
  enum class Turn : std::uint8_t { first, timed_out, cancelled, closed };
  class Place;

  /// The next in line, while a request is made in its name. It may leave meanwhile.
  struct Next {
    std::shared_ptr<Ticket> ticket{};
    std::shared_ptr<LeaseState> lease{};
    std::string token{};
    AskedFor asked{};
    explicit operator bool() const noexcept { return ticket != nullptr; }
  };

  /// Waits until this thread is the first for its name, and nobody of this core is about to serve it.
  std::pair<Turn, std::shared_ptr<Place>> enter(LeaseState& lease, TimePoint deadline, std::stop_token const& cancel);

  /// A thread of this core has given that lock up: whoever is first in line need not wait for its next look.
  void hint(std::string_view name) noexcept {
    std::lock_guard const guard{mutex_};
    if (auto const found = lines_.find({name, Hold::mutex}); found != lines_.end()) found->second->ring();
  }

  /// Nobody waits here any more: everybody is woken.
  void close() noexcept;
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

 private:
  using Tickets = std::list<std::shared_ptr<Ticket>>;
  using Lines = std::multimap<std::tuple<std::string_view, Hold>, std::shared_ptr<NamedLine>>;  // by views into their specs

  /// One thread in line.
  struct Ticket {
    enum class Stage : std::uint8_t { standing, being_served, served, first };
    Ticket(LeaseState& of, TimePoint until) : lease{of}, deadline{until} {}
    LeaseState& lease;  // stands as long as the ticket is in line
    TimePoint deadline;
    std::condition_variable called{};
    Stage stage{Stage::standing};
    bool naps{false};  // looks by itself now and then whether it has become the first
    AskedFor asked{};
  };

  /// The line of one name, while anybody stands in it or holds the lock out of it.
  struct NamedLine final : Line {
    using Line::Line;
    void kick(Error const* refusal) noexcept override {
      {
        std::lock_guard const guard{kick_mutex};
        kicked = true;
        if (refusal != nullptr) refused = *refusal;
      }
      bell->ring();
    }
    void ring() noexcept {
      if (bell) bell->ring();
    }
    /// Whether the first is to wait here for the holder's release.
    bool waits_here(TimePoint now) const noexcept { return holder != nullptr && now < held_since + local_patience && now >= reserved_until; }

    std::unique_ptr<Wake> bell{};  // while anybody stands in line
    std::mutex kick_mutex{};
    bool kicked{false};
    std::optional<Error> refused{};
    Tickets tickets{};
    Place const* holder{nullptr};
    TimePoint held_since{};
    TimePoint reserved_until{};  // for those who wait at the server
    Lines::iterator entry{};
  };

  std::shared_ptr<NamedLine> line_for(std::shared_ptr<LockSpec const> const& spec);
  std::optional<Turn> turn_of(NamedLine const& line, Ticket const& ticket, std::stop_token const& cancel, TimePoint now) const noexcept;
  TimePoint next_look(NamedLine const& line, Ticket& ticket, TimePoint now) const noexcept;
  void leave(NamedLine& line, Tickets::iterator place, Tickets& left) noexcept;
  void leave_first(NamedLine& line) noexcept;
  void hold(Place const& place, NamedLine& line) noexcept;
  void let_go(Place const& place, NamedLine& line) noexcept;
  Next next(Place const& place, NamedLine& line, TimePoint deadline) noexcept;
  void serve(NamedLine& line, Next const& next) noexcept;
  void pass_on(NamedLine& line) noexcept;
  void retire(NamedLine& line) noexcept;
  void keep_bell(NamedLine& line) noexcept;

  static constexpr std::size_t most_spare_bells = 16;

  std::mutex mutex_{};
  std::atomic<bool> closed_{false};
  Lines lines_{};
  std::vector<std::unique_ptr<Wake>> spare_bells_{};
};

/// A place in line, from the moment it is the first. Leaving it calls the next; so does the end of a hold.
class LocalQueue::Place {
 public:
  explicit Place(LocalQueue& queue) noexcept : queue_{queue} {}
  Place(Place const&) = delete;
  Place& operator=(Place const&) = delete;
  ~Place() {
    if (line_) holds_ ? queue_.let_go(*this, *line_) : queue_.leave_first(*line_);
  }

  Line& line() const noexcept { return *line_; }
  /// Rings when the wait is cancelled, the queue closed, or the waiter kicked.
  Wake& bell() const noexcept { return *line_->bell; }
  /// Whether it was kicked since it was last asked. Throws the refusal it was kicked with.
  bool was_kicked() const {
    std::lock_guard const guard{line_->kick_mutex};
    if (line_->refused) throw Error{*std::exchange(line_->refused, std::nullopt)};
    return std::exchange(line_->kicked, false);
  }
  /// What has been asked for in the name of this thread already.
  AskedFor const& asked() const noexcept { return asked_; }

  /// The lock is held: from here on this is the holder's, and those who come wait for its release. Only in the line of a mutex.
  void hold() noexcept {
    holds_ = true;
    queue_.hold(*this, *line_);
  }
  /// About to release: who has to be asked for in the same write, answered by `deadline`; nobody, if nobody waits here.
  Next next(TimePoint deadline) const noexcept { return holds_ ? queue_.next(*this, *line_, deadline) : Next{}; }
  /// Released, and this is what came of it.
  void serve(Next const& next) const noexcept { queue_.serve(*line_, next); }

 private:
  friend LocalQueue;
  LocalQueue& queue_;
  std::shared_ptr<NamedLine> line_{};
  AskedFor asked_{};
  bool holds_{false};
};

// --- below: bodies

inline auto LocalQueue::enter(LeaseState& lease, TimePoint deadline, std::stop_token const& cancel)
    -> std::pair<Turn, std::shared_ptr<Place>> {
  auto const place = std::make_shared<Place>(*this);
  auto const ticket = std::make_shared<Ticket>(lease, deadline);
  Tickets mine{ticket};
  auto const at = mine.begin();

  std::unique_lock lock{mutex_};
  if (closed()) return {Turn::closed, nullptr};
  auto const line = line_for(lease.spec);
  line->tickets.splice(line->tickets.end(), mine);
  auto const is_first = [&] {
    ticket->stage = Ticket::Stage::first;
    place->line_ = line;
    place->asked_ = ticket->asked;
    return std::pair{Turn::first, place};
  };
  if (turn_of(*line, *ticket, {}, Clock::now()) == Turn::first) return is_first();

  lock.unlock();  // a callback on a stop already requested runs right here
  std::stop_callback const wake{cancel, [this, ticket] {
                                  std::lock_guard const guard{mutex_};
                                  ticket->called.notify_one();
                                }};
  lock.lock();
  for (;;) {
    auto const now = Clock::now();
    if (auto const turn = turn_of(*line, *ticket, cancel, now)) {
      auto result = *turn == Turn::first ? is_first() : std::pair{*turn, std::shared_ptr<Place>{}};
      if (*turn != Turn::first) leave(*line, at, mine);
      lock.unlock();  // before the callback goes: it may be waiting for the mutex
      return result;
    }
    auto const look = next_look(*line, *ticket, now);
    if (look == never)
      ticket->called.wait(lock);
    else
      ticket->called.wait_for(lock, std::min<nanoseconds>(look - now, std::chrono::hours{1}));
  }
}

/// How this thread's wait here has ended; nothing: it has not.
inline auto LocalQueue::turn_of(NamedLine const& line, Ticket const& ticket, std::stop_token const& cancel, TimePoint now) const noexcept
    -> std::optional<Turn> {
  bool const late = now >= ticket.deadline;
  bool const stopped = closed() || cancel.stop_requested();
  if (ticket.stage == Ticket::Stage::served) return Turn::first;
  // What is being asked in its name may be granted: whoever leaves now has to undo it, as the first.
  if (ticket.stage == Ticket::Stage::being_served) return stopped || late ? std::optional{Turn::first} : std::nullopt;
  if (closed()) return Turn::closed;
  if (stopped) return Turn::cancelled;
  if (line.tickets.front().get() == &ticket) return late || !line.waits_here(now) ? std::optional{Turn::first} : std::nullopt;
  return late ? std::optional{Turn::timed_out} : std::nullopt;
}

/// Until when this thread may sleep if nobody calls it. Behind a holder of this core nobody is called but to be served: so
/// each looks by itself, the later the farther behind it stands. With holds shorter than the patience nobody ever does.
inline TimePoint LocalQueue::next_look(NamedLine const& line, Ticket& ticket, TimePoint now) const noexcept {
  auto const& front = *line.tickets.front();
  // The first calls when it goes on, unless it holds the lock.
  ticket.naps = line.holder != nullptr && front.stage == Ticket::Stage::standing;
  if (!ticket.naps) return ticket.deadline;
  if (&front == &ticket) return std::min(ticket.deadline, line.held_since + local_patience);
  auto const ahead = static_cast<int>(std::min<std::size_t>(line.tickets.size(), 20));
  return std::min(ticket.deadline, after(now, ahead * local_patience));
}

inline void LocalQueue::close() noexcept {
  std::lock_guard const guard{mutex_};
  closed_.store(true, std::memory_order_release);
  for (auto const& [name, line] : lines_) {
    line->ring();
    for (auto const& ticket : line->tickets) ticket->called.notify_one();
  }
}

/// With a bell.
inline auto LocalQueue::line_for(std::shared_ptr<LockSpec const> const& spec) -> std::shared_ptr<NamedLine> {
  std::tuple const key{std::string_view{spec->name()}, spec->keys.hold};
  auto const found = lines_.find(key);
  bool const joins = found != lines_.end() && primitive(spec->keys.hold).one_in_line;
  if (joins && found->second->bell) return found->second;
  auto bell = spare_bells_.empty() ? std::make_unique<Wake>() : std::move(spare_bells_.back());
  if (!spare_bells_.empty()) spare_bells_.pop_back();
  auto const line = joins ? found->second : std::make_shared<NamedLine>(spec);
  line->bell = std::move(bell);
  if (!joins) line->entry = lines_.emplace(std::tuple{std::string_view{line->spec->name()}, spec->keys.hold}, line);
  return line;
}

inline void LocalQueue::leave(NamedLine& line, Tickets::iterator place, Tickets& left) noexcept {
  bool const was_first = place == line.tickets.begin();
  left.splice(left.end(), line.tickets, place);
  if (line.tickets.empty()) return line.holder == nullptr ? retire(line) : keep_bell(line);
  if (was_first) line.tickets.front()->called.notify_one();  // its turn came in the moment it gave up
}

inline void LocalQueue::leave_first(NamedLine& line) noexcept {
  std::lock_guard const guard{mutex_};
  pass_on(line);
  if (line.tickets.empty()) return line.holder == nullptr ? retire(line) : keep_bell(line);
  line.tickets.front()->called.notify_one();
}

/// The first goes; whoever is the next finds nothing that was meant for the one before.
inline void LocalQueue::pass_on(NamedLine& line) noexcept {
  line.tickets.pop_front();
  line.bell->silence_if_rung();
  {
    std::lock_guard const unkicked{line.kick_mutex};
    line.kicked = false;
    line.refused.reset();
  }
  if (closed()) line.ring();
}

inline void LocalQueue::hold(Place const& place, NamedLine& line) noexcept {
  auto const now = Clock::now();
  std::lock_guard const guard{mutex_};
  pass_on(line);
  line.holder = &place;
  line.held_since = now;
  if (line.tickets.empty()) return keep_bell(line);  // thousands of locks may be held
  auto& front = *line.tickets.front();
  if (!front.naps || !line.waits_here(now)) front.called.notify_one();
}

inline void LocalQueue::let_go(Place const& place, NamedLine& line) noexcept {
  std::lock_guard const guard{mutex_};
  if (line.holder != &place) return;  // another thread has it by now: this one's lease was lost, or it served that thread
  line.holder = nullptr;
  if (line.tickets.empty()) return retire(line);
  line.tickets.front()->called.notify_one();
}

inline auto LocalQueue::next(Place const& place, NamedLine& line, TimePoint deadline) noexcept -> Next {
  try {
    std::lock_guard const guard{mutex_};
    if (closed() || line.holder != &place || line.tickets.empty()) return {};
    auto const& front = line.tickets.front();
    if (front->stage != Ticket::Stage::standing || Clock::now() >= front->deadline) return {};
    Next next{front, front->lease.shared_from_this(), front->lease.token.stored(), {}};
    next.asked.doubt_until = after(deadline, front->lease.spec->options.ttl);
    front->asked = next.asked;
    front->asked.copies = 1;  // for whoever leaves before it is answered
    front->stage = Ticket::Stage::being_served;
    return next;
  } catch (...) {  // no memory: then it asks for itself
    return {};
  }
}

inline void LocalQueue::serve(NamedLine& line, Next const& next) noexcept {
  {
    std::lock_guard const guard{mutex_};
    if (!next.asked.answer.yes && next.asked.copies == 0) line.reserved_until = after(Clock::now(), local_reserve);
    next.ticket->asked = next.asked;
    if (next.ticket->stage == Ticket::Stage::being_served) next.ticket->stage = Ticket::Stage::served;
  }
  next.ticket->called.notify_one();
}

/// The last one has left, and nobody holds.
inline void LocalQueue::retire(NamedLine& line) noexcept {
  keep_bell(line);
  lines_.erase(line.entry);
}

/// Nobody stands here any more. The bell is kept for the next name: making one costs two system calls.
inline void LocalQueue::keep_bell(NamedLine& line) noexcept {
  if (!line.bell) return;
  if (spare_bells_.size() < most_spare_bells) {
    try {
      spare_bells_.reserve(most_spare_bells);
      line.bell->silence_if_rung();
      spare_bells_.push_back(std::move(line.bell));
    } catch (...) {  // then it is closed
    }
  }
  line.bell.reset();
}

}  // namespace mortise::inline v1::detail
