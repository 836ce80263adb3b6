// SPDX-License-Identifier: MIT
// One connection to each node of a quorum, driven by one poll: everything is written before any answer is awaited.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

#include <mortise/detail/idle_stack.hpp>
#include <mortise/detail/quorum_lane.hpp>

namespace mortise::inline v1::detail {

/// Used by one thread at a time.
class Lanes {
 public:
  explicit Lanes(std::shared_ptr<QuorumNodes> nodes) : nodes_{std::move(nodes)} {
    lanes_.reserve(nodes_->size());
    for (std::size_t node = 0; node < nodes_->size(); ++node) lanes_.emplace_back(*nodes_, node);
    polled_.resize(nodes_->size() + 1);
  }

  Lane& operator[](std::size_t node) noexcept { return lanes_[node]; }
  std::size_t size() const noexcept { return lanes_.size(); }
  std::size_t ready() const noexcept {
    return static_cast<std::size_t>(std::count_if(lanes_.begin(), lanes_.end(), [](Lane const& lane) { return lane.ready(); }));
  }

  enum class Until : std::uint8_t {
    all_are_there,  ///< every node that is on: who is not asked does not hold the lease, and cannot keep it
    enough_are,
  };
  /// Connects to the nodes that are on, and waits for their greetings; where they are too few, for any that answers after all.
  void prepare(TimePoint deadline, Until until, Wake* interrupt = nullptr) noexcept;

  /// One wait, for an answer, a moment, or the bell, and whatever it brought. Lanes that are late by then are given up.
  /// `heard` is told of answers, and lost(node) of every lane that was closed. False: the bell rang.
  template <class Heard>
  bool turn(TimePoint until, Wake* interrupt, Heard&& heard) noexcept;

  void flush() noexcept {
    for (auto& lane : lanes_) lane.flush();
  }
  void detach(bool undone) noexcept {
    for (auto& lane : lanes_) lane.detach(undone);
  }
  bool keep_up() const noexcept {
    return std::any_of(lanes_.begin(), lanes_.end(), [](Lane const& lane) { return lane.keeps_up(); });
  }
  bool unsent() const noexcept {
    return std::any_of(lanes_.begin(), lanes_.end(), [](Lane const& lane) { return lane.unsent(); });
  }
  /// Closes the connections that have not taken everything.
  void drop_unsent() noexcept {
    for (auto& lane : lanes_)
      if (lane.unsent()) lane.give_up();
  }

  /// Throws if a node of the list turned out to be another one's server.
  void check_distinct() const {
    for (auto const& lane : lanes_)
      if (lane.fault() && lane.fault()->errc() == Errc::invalid_option && !lane.ready()) throw Error{*lane.fault()};
  }

 private:
  std::shared_ptr<QuorumNodes> nodes_;
  std::vector<Lane> lanes_{};
  std::vector<pollfd> polled_{};
};

/// Sets of lanes, lent to one thread at a time.
class LanePool {
 public:
  explicit LanePool(std::shared_ptr<QuorumNodes> nodes) : nodes_{std::move(nodes)} {}

  class Lent {
   public:
    Lent(LanePool& pool, std::unique_ptr<Lanes> lanes) noexcept : pool_{&pool}, lanes_{std::move(lanes)} {}
    Lent(Lent const&) = delete;
    Lent& operator=(Lent const&) = delete;
    ~Lent() { pool_->take_back(std::move(lanes_)); }
    Lanes& operator*() const noexcept { return *lanes_; }
    Lanes* operator->() const noexcept { return lanes_.get(); }

   private:
    LanePool* pool_;
    std::unique_ptr<Lanes> lanes_;
  };

  Lent lend() {
    {
      std::lock_guard const guard{mutex_};
      if (auto last = idle_.pop()) return {*this, std::move(last->kept)};
    }
    return {*this, std::make_unique<Lanes>(nodes_)};
  }

 private:
  void take_back(std::unique_ptr<Lanes> lanes) noexcept {
    std::unique_ptr<Lanes> surplus;  // closed outside the mutex, behind what was written
    auto const now = Clock::now();
    std::lock_guard const guard{mutex_};
    surplus = idle_.push(std::move(lanes), now);
  }

  std::shared_ptr<QuorumNodes> nodes_;
  std::mutex mutex_{};
  IdleStack<std::unique_ptr<Lanes>> idle_{};
};

// --- below: bodies

inline void Lanes::prepare(TimePoint deadline, Until wanted, Wake* interrupt) noexcept {
  auto const now = Clock::now();
  bool missing = false;
  for (auto& lane : lanes_) {
    lane.catch_up(now);
    if (!lane.ready()) missing = true;
  }
  if (!missing) return;

  auto const until = std::min(deadline, after(now, std::min(nodes_->node_timeout(), nodes_->connect_timeout())));
  for (bool const last_resort : {false, true}) {
    for (std::size_t node = 0; node < lanes_.size(); ++node)
      if (lanes_[node].closed() && (last_resort || nodes_->on(node))) lanes_[node].begin(until);
    bool const all = wanted == Until::all_are_there && !last_resort;
    auto const connecting = [&] {
      return std::any_of(lanes_.begin(), lanes_.end(), [](Lane const& lane) { return !lane.closed() && !lane.ready(); });
    };
    while (connecting() && (all || ready() < nodes_->needed()) && Clock::now() < until)
      if (!turn(until, interrupt, Deaf{})) return;
    if (ready() >= nodes_->needed()) return;
  }
}

template <class Heard>
bool Lanes::turn(TimePoint until, Wake* interrupt, Heard&& heard) noexcept {
  auto const tell = [&] {
    bool any = false;
    for (std::size_t node = 0; node < lanes_.size(); ++node) {
      if (!lanes_[node].take_broken()) continue;
      heard.lost(node);
      any = true;
    }
    return any;
  };
  if (tell()) return true;  // broken while it was written to: that may decide
  auto wake_at = until;
  std::size_t count = 0;
  for (auto const& lane : lanes_) {
    polled_[count] = {-1, 0, 0};
    if (!lane.closed()) {
      polled_[count] = {lane.descriptor(), lane.wanted(), 0};
      if (polled_[count].events == 0) polled_[count].fd = -1;
      wake_at = std::min(wake_at, lane.late_at());
    }
    ++count;
  }
  polled_[count] = {interrupt == nullptr ? -1 : interrupt->descriptor(), POLLIN, 0};
  auto const begun = Clock::now();
  auto const got = ::poll(polled_.data(), polled_.size(), poll_timeout(wake_at, begun));
  if (got > 0) {
    for (std::size_t node = 0; node < lanes_.size(); ++node) {
      if (polled_[node].revents == 0) continue;
      if ((polled_[node].revents & POLLOUT) != 0) lanes_[node].flush();
      if ((polled_[node].revents & ~POLLOUT) != 0) lanes_[node].read(heard);
    }
  }
  auto const now = got > 0 ? begun : Clock::now();
  for (auto& lane : lanes_)
    if (lane.late_at() <= now) lane.give_up();
  tell();
  return interrupt == nullptr || polled_.back().revents == 0;
}

}  // namespace mortise::inline v1::detail
