// SPDX-License-Identifier: MIT
// Which server is to be asked for a key: what a deployment has to know for that, and one call's way to the right one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <mortise/detail/timing.hpp>
#include <mortise/pool.hpp>

namespace mortise::inline v1::detail {

/// The servers of one deployment. Thread-safe. The pools it names live as long as it does.
class Topology {
 public:
  /// What an error reply says about where its question has to be asked.
  struct Advice {
    enum class Again : std::uint8_t { no, later, at_once };
    Again again{Again::no};
    Pool* once{nullptr};  ///< ask this one, this time only, and with ASKING in front
    bool moved{false};    ///< the server that said it is not the one any more: whoever waits there waits in vain
  };

  Topology(Login login, milliseconds connect_timeout) : login_{std::move(login)}, connect_timeout_{connect_timeout} {}
  Topology(Topology const&) = delete;
  Topology& operator=(Topology const&) = delete;
  virtual ~Topology() = default;

  /// The server of a slot; finds out by `deadline` where it is not known. Throws.
  virtual Pool& node(std::uint16_t slot, TimePoint deadline, Wake* interrupt) = 0;
  /// The same without asking anybody: nothing where node() has to find out first.
  virtual Pool* known(std::uint16_t slot) noexcept = 0;
  /// Takes an error reply of `from` into account.
  virtual Advice heed(Pool&, std::uint16_t, std::string_view) { return {}; }
  /// No connection to it, a broken one, or no answer.
  virtual void broken(Pool& pool) { pool.note_broken(); }
  /// Whether another server takes over when one fails: then a call goes on trying for as long as it may.
  virtual bool follows() const noexcept { return true; }
  /// Whether keys live on several servers by their slots.
  virtual bool by_slot() const noexcept { return false; }

  /// Before anything is asked.
  void on_reconnect(Pool::Reconnected told) {
    std::lock_guard const guard{pools_mutex_};
    for (auto const& [address, pool] : pools_) pool->on_reconnect(told);
    reconnected_ = std::move(told);
  }

  /// In a forked child only.
  void close_inherited() noexcept { ledger_.close_inherited(); }

 protected:
  /// The pool of an address: made at its first use, and kept.
  Pool& pool_at(Address const& address) {
    std::lock_guard const guard{pools_mutex_};
    auto& pool = pools_[address.text()];
    if (!pool) {
      pool = std::make_unique<Pool>(address, login_, connect_timeout_, ledger_);
      pool->on_reconnect(reconnected_);
      pool->on_connect([this](Connection& fresh, TimePoint deadline, Wake* interrupt) { admit(fresh, deadline, interrupt); });
    }
    return *pool;
  }

  /// Looks at each new connection before it is used; throws where it leads to the wrong server.
  virtual void admit(Connection&, TimePoint, Wake*) {}

  /// When the next of `left` servers has to have answered: its share of the time, and no more than a connection may take.
  TimePoint share(TimePoint deadline, std::size_t left) const noexcept {
    auto const now = Clock::now();
    auto const until = deadline == never || deadline <= now ? deadline : now + (deadline - now) / static_cast<nanoseconds::rep>(std::max<std::size_t>(left, 1));
    return std::min(until, after(now, connect_timeout_));
  }

  SocketLedger& ledger() noexcept { return ledger_; }

 private:
  Login const login_;
  milliseconds const connect_timeout_;
  SocketLedger ledger_{};
  Pool::Reconnected reconnected_{};
  std::mutex pools_mutex_{};
  std::map<std::string, std::unique_ptr<Pool>> pools_{};
};

/// One server, which is asked for everything.
class Standalone final : public Topology {
 public:
  Standalone(Address const& address, Login login, milliseconds connect_timeout)
      : Topology{std::move(login), connect_timeout}, pool_{pool_at(address)} {}

  Pool& node(std::uint16_t, TimePoint, Wake*) override { return pool_; }
  Pool* known(std::uint16_t) noexcept override { return &pool_; }
  bool follows() const noexcept override { return false; }

 private:
  Pool& pool_;
};

/// One call's way to the server of its keys, through redirections and failovers. Of one thread.
class Route {
 public:
  Route(Topology& topology, std::uint16_t slot) noexcept : topology_{&topology}, slot_{slot} {}

  /// A connection to whoever is to be asked now.
  Pool::Lent lend(TimePoint deadline, Wake* interrupt = nullptr) {
    auto* const once = std::exchange(once_, nullptr);
    pool_ = nullptr;
    auto const time = deadline == never ? nanoseconds::max() : deadline - Clock::now();
    if (short_time_ == nanoseconds::zero()) short_time_ = std::clamp<nanoseconds>(time / 4, nanoseconds{1}, milliseconds{250});
    hurried_ = time < short_time_;
    pool_ = once != nullptr ? once : &topology_->node(slot_, deadline, interrupt);
    auto lent = pool_->lend(deadline, interrupt);
    lent->ask_each_time(once != nullptr);
    return lent;
  }

  /// After an error on the connection lent last (nothing: there was none): tells the topology, and whether the question is
  /// worth repeating, by lend() anew and after pause().
  bool follow(Connection* connection, Error const& error) noexcept {
    if (!heed(connection, error)) return false;
    // An attempt that began late tells no more than that it was late, and a redirection less than what follows it.
    if (!said_ || (!hurried_ && !redirected_)) said_ = Error{error}.passing();
    return true;
  }

  /// What a call says that was followed to its deadline.
  Error const& last_word() const noexcept { return *said_; }

  /// The question was answered.
  void arrived() noexcept { redirections_ = failures_ = 0; }

  /// How long to wait before the next attempt: a redirection is followed at once, unless servers send it around in circles.
  milliseconds pause(std::uint64_t random) noexcept {
    if (at_once_) return {};
    auto const failed = failures_++;
    return failed < 10 ? std::min(backoff(failed, random), milliseconds{100}) : backoff(failed, random);
  }

 private:
  static constexpr unsigned most_redirections = 5;

  bool heed(Connection* connection, Error const& error) noexcept {
    bool const answered = connection != nullptr && !connection->closed();
    at_once_ = redirected_ = false;
    try {
      auto const refusal = connection == nullptr ? std::string{} : connection->take_refusal();
      if (answered && !refusal.empty()) {
        auto const advice = topology_->heed(*pool_, slot_, refusal);
        if (advice.again == Topology::Advice::Again::no) return false;
        redirected_ = advice.again == Topology::Advice::Again::at_once;
        at_once_ = redirected_ && redirections_++ < most_redirections;
        once_ = at_once_ ? advice.once : nullptr;
        return true;
      }
      if (!answered && pool_ != nullptr) topology_->broken(*pool_);
    } catch (...) {  // no memory
    }
    return !answered && topology_->follows() && error.retryable();
  }

  Topology* topology_;
  std::uint16_t slot_;
  Pool* pool_{nullptr};  // asked last
  Pool* once_{nullptr};  // to be asked next, by an ASK
  bool redirected_{false};     // the last answer names another server
  bool at_once_{false};        // … which is asked without a pause
  nanoseconds short_time_{0};  // a quarter of what the first attempt had
  bool hurried_{false};        // the last attempt had less than that
  unsigned redirections_{0};
  unsigned failures_{0};
  std::optional<Error> said_{};
};

}  // namespace mortise::inline v1::detail
