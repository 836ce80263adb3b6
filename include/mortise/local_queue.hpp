// SPDX-License-Identifier: MIT
// Threads of one core that wait for one name stand in line here; only the first of them waits at the server.
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
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <mortise/chore.hpp>
#include <mortise/detail/wake.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// First come, first served among the threads of one core: connections grow with the names waited for, not with threads.
/// Readers alone wait each in a line of their own, with a connection of their own.
class LocalQueue {
  struct Ticket {
    std::condition_variable called{};
  };

  struct NamedLine;
  using Lines = std::multimap<std::tuple<std::string_view, Hold>, std::shared_ptr<NamedLine>>;  // by views into their specs

  /// The line of one name, while anybody stands in it.
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
    std::unique_ptr<Wake> bell{};
    std::mutex kick_mutex{};
    bool kicked{false};
    std::optional<Error> refused{};
    std::list<Ticket> tickets{};
    Lines::iterator entry{};
  };

 public:
  enum class Turn : std::uint8_t { first, timed_out, cancelled, closed };

  /// A place in line, from the moment it is the first. Leaving it calls the next.
  class Place {
   public:
    Place(LocalQueue& queue, std::shared_ptr<NamedLine> line) noexcept : queue_{&queue}, line_{std::move(line)} {}
    Place(Place&& other) noexcept : queue_{other.queue_}, line_{std::move(other.line_)} {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (line_) queue_->leave_first(*line_);
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

   private:
    LocalQueue* queue_;
    std::shared_ptr<NamedLine> line_;
  };

  /// Waits until this thread is the first for its name.
  std::pair<Turn, std::optional<Place>> enter(std::shared_ptr<LockSpec const> const& spec, TimePoint deadline,
                                              std::stop_token const& cancel);

  /// A thread of this core has given that lock up: whoever is first in line need not wait for its next look.
  void hint(std::string_view name) noexcept {
    std::lock_guard const guard{mutex_};
    if (auto const found = lines_.find({name, Hold::mutex}); found != lines_.end()) found->second->bell->ring();
  }

  /// Nobody waits here any more: everybody is woken.
  void close() noexcept;
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

 private:
  std::shared_ptr<NamedLine> line_for(std::shared_ptr<LockSpec const> const& spec);
  void leave(NamedLine& line, std::list<Ticket>::iterator ticket, std::list<Ticket>& grave) noexcept;
  void leave_first(NamedLine& line) noexcept;
  void retire(NamedLine& line) noexcept;

  static constexpr std::size_t most_spare_bells = 16;

  std::mutex mutex_{};
  std::atomic<bool> closed_{false};
  Lines lines_{};
  std::vector<std::unique_ptr<Wake>> spare_bells_{};
};

// --- below: bodies

inline auto LocalQueue::enter(std::shared_ptr<LockSpec const> const& spec, TimePoint deadline, std::stop_token const& cancel)
    -> std::pair<Turn, std::optional<Place>> {
  std::unique_lock lock{mutex_};
  if (closed()) return {Turn::closed, std::nullopt};
  auto line = line_for(spec);
  auto const ticket = line->tickets.emplace(line->tickets.end());
  auto const is_first = [&] { return ticket == line->tickets.begin(); };
  if (is_first()) return {Turn::first, Place{*this, std::move(line)}};

  lock.unlock();  // a callback on a stop already requested runs right here
  std::list<Ticket> left;  // outlives the callback, which may be about to call this ticket
  std::stop_callback const wake{cancel, [this, ticket] {
                                  std::lock_guard const guard{mutex_};
                                  ticket->called.notify_one();
                                }};
  lock.lock();
  for (;;) {
    auto const turn = closed()                  ? Turn::closed
                      : cancel.stop_requested() ? Turn::cancelled
                      : is_first()              ? Turn::first
                                                : Turn::timed_out;
    if (turn == Turn::first) {
      Place place{*this, std::move(line)};
      lock.unlock();  // before the callback goes: it may be waiting for the mutex
      return {turn, std::move(place)};
    }
    auto const now = Clock::now();
    if (turn != Turn::timed_out || now >= deadline) {
      leave(*line, ticket, left);
      lock.unlock();
      return {turn, std::nullopt};
    }
    if (deadline == never)
      ticket->called.wait(lock);
    else
      ticket->called.wait_for(lock, std::min<nanoseconds>(deadline - now, std::chrono::hours{1}));
  }
}

inline void LocalQueue::close() noexcept {
  std::lock_guard const guard{mutex_};
  closed_.store(true, std::memory_order_release);
  for (auto const& [name, line] : lines_) {
    line->bell->ring();
    for (auto& ticket : line->tickets) ticket.called.notify_one();
  }
}

inline auto LocalQueue::line_for(std::shared_ptr<LockSpec const> const& spec) -> std::shared_ptr<NamedLine> {
  std::tuple const key{std::string_view{spec->name()}, spec->keys.hold};
  if (auto const found = lines_.find(key); found != lines_.end() && primitive(spec->keys.hold).one_in_line) return found->second;
  auto line = std::make_shared<NamedLine>(spec);
  if (spare_bells_.empty()) {
    line->bell = std::make_unique<Wake>();
  } else {
    line->bell = std::move(spare_bells_.back());
    spare_bells_.pop_back();
  }
  line->entry = lines_.emplace(std::tuple{std::string_view{line->spec->name()}, spec->keys.hold}, line);
  return line;
}

inline void LocalQueue::leave(NamedLine& line, std::list<Ticket>::iterator ticket, std::list<Ticket>& grave) noexcept {
  bool const was_first = ticket == line.tickets.begin();
  grave.splice(grave.end(), line.tickets, ticket);
  if (line.tickets.empty()) return retire(line);
  if (was_first) line.tickets.front().called.notify_one();  // its turn came in the moment it gave up
}

inline void LocalQueue::leave_first(NamedLine& line) noexcept {
  std::lock_guard const guard{mutex_};
  line.tickets.pop_front();
  if (line.tickets.empty()) return retire(line);
  line.bell->silence_if_rung();
  {
    std::lock_guard const unkicked{line.kick_mutex};
    line.kicked = false;
    line.refused.reset();
  }
  if (closed()) line.bell->ring();
  line.tickets.front().called.notify_one();
}

/// The last one has left. The bell is kept for the next name: making one costs two system calls.
inline void LocalQueue::retire(NamedLine& line) noexcept {
  if (spare_bells_.size() < most_spare_bells) {
    try {
      spare_bells_.reserve(most_spare_bells);
      line.bell->silence_if_rung();
      spare_bells_.push_back(std::move(line.bell));
    } catch (...) {  // then it is closed
    }
  }
  lines_.erase(line.entry);
}

}  // namespace mortise::inline v1::detail
