// SPDX-License-Identifier: MIT
// Connections to one server, lent to one thread at a time and taken back only when nothing is left to be read on them.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <mortise/connection.hpp>
#include <mortise/detail/idle_stack.hpp>

namespace mortise::inline v1::detail {

/// Lends connections. There is no upper limit that a thread could have to wait at: a release never queues behind waiters.
/// In use are as many as threads inside a call, one for each name waited for, and the keeper's.
class Pool {
 public:
  using Reconnected = std::function<void(std::string const& endpoint)>;
  using Admission = std::function<void(Connection& fresh, TimePoint deadline, Wake* interrupt)>;

  Pool(Address address, Login login, milliseconds connect_timeout, SocketLedger& ledger)
      : address_{std::move(address)}, login_{std::move(login)}, endpoint_{address_.text()}, connect_timeout_{connect_timeout}, ledger_{ledger} {}

  /// A connection on loan: closed at the end unless it was given back.
  class Lent {
   public:
    Lent(Pool& pool, std::unique_ptr<Connection> connection) noexcept : pool_{&pool}, connection_{std::move(connection)} {}
    Connection* operator->() const noexcept { return connection_.get(); }
    Connection& operator*() const noexcept { return *connection_; }
    void give_back() noexcept { pool_->take_back(std::move(connection_)); }
    Pool& pool() const noexcept { return *pool_; }

   private:
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  /// An idle connection that is still good, or a new one.
  Lent lend(TimePoint deadline, Wake* interrupt = nullptr) {
    while (auto idle = pop_idle()) {
      // A connection used a moment ago is not asked again: that would cost a system call for every lock.
      if (Clock::now() - idle->since < milliseconds{10} || idle->kept->quiet()) return {*this, std::move(idle->kept)};
      broken_.store(true, std::memory_order_relaxed);
    }
    return {*this, connect(deadline, interrupt)};
  }

  /// A new connection, for whoever keeps it.
  std::unique_ptr<Connection> connect(TimePoint deadline, Wake* interrupt = nullptr) {
    auto const until = std::min(deadline, after(Clock::now(), connect_timeout_));
    auto fresh = std::make_unique<Connection>(address_, login_, ledger_, until, interrupt);
    if (admission_) admission_(*fresh, until, interrupt);
    if (broken_.exchange(false, std::memory_order_relaxed) && reconnected_) reconnected_(endpoint_);
    return fresh;
  }

  /// Tells that a connection broke: the next new one counts as its successor, and idle ones that broke with it go.
  void note_broken() noexcept {
    broken_.store(true, std::memory_order_relaxed);
    std::lock_guard const guard{mutex_};
    idle_.erase_if([](Connection const& connection) { return !connection.quiet(); });
  }

  /// Whether the last thing known of it is that a connection broke.
  bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }

  /// Keeps no connection from here on, because this is not the server to ask any more; or does so again.
  void retire() noexcept {
    std::vector<Idles::Idle> closed;  // outside the mutex
    std::lock_guard const guard{mutex_};
    retired_ = true;
    closed = idle_.take_all();
  }
  void revive() {
    std::lock_guard const guard{mutex_};
    retired_ = false;
    idle_.make_room();
  }

  void on_reconnect(Reconnected told) { reconnected_ = std::move(told); }
  /// What a new connection has to pass before it is lent; throws if it does not.
  void on_connect(Admission admission) { admission_ = std::move(admission); }
  Address const& address() const noexcept { return address_; }
  std::string const& endpoint() const noexcept { return endpoint_; }

 private:
  using Idles = IdleStack<std::unique_ptr<Connection>>;

  std::optional<Idles::Idle> pop_idle() noexcept {
    std::lock_guard const guard{mutex_};
    return idle_.pop();
  }

  void take_back(std::unique_ptr<Connection> connection) noexcept {
    if (!connection->settled()) return;
    connection->ask_each_time(false);
    std::unique_ptr<Connection> surplus;  // closed outside the mutex
    auto const now = Clock::now();
    std::lock_guard const guard{mutex_};
    if (!retired_) surplus = idle_.push(std::move(connection), now);
  }

  Address address_;
  Login login_;
  std::string endpoint_;
  milliseconds connect_timeout_;
  Reconnected reconnected_{};
  Admission admission_{};
  SocketLedger& ledger_;
  std::atomic<bool> broken_{false};
  std::mutex mutex_{};
  bool retired_{false};
  Idles idle_{};
};

}  // namespace mortise::inline v1::detail
