// SPDX-License-Identifier: MIT
// One deployment as its core sees it: connections on loan, requests answered one by one, and the keeper's batches.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mortise/chore.hpp>
#include <mortise/core.hpp>
#include <mortise/key_watch.hpp>
#include <mortise/pool.hpp>
#include <mortise/wire.hpp>

namespace mortise::inline v1::detail {

/// Shared by a core and its keeper; knows nothing of leases.
class Link final : public Authority {
 public:
  Link(Address address, Login login, milliseconds connect_timeout, bool tracking)
      : pool_{std::move(address), std::move(login), connect_timeout}, tracking_{tracking} {}

  Pool& pool() noexcept { return pool_; }

  /// Runs `use(connection)` on a connection on loan. Where the connection turns out to be broken, once more on a new one:
  /// only for what may be carried out twice. Throws what the second use throws.
  template <class Use>
  auto with_connection(TimePoint deadline, bool& repeated, Use&& use) {
    for (bool asked = false;;) {
      auto lent = lend_again(deadline, asked);
      try {
        auto result = use(*lent);
        lent.give_back();
        return result;
      } catch (Error const& error) {
        // An error reply leaves the connection in order, but it is rare and closing it is always right.
        if (!lent->closed()) throw in_doubt_if_unanswered(error);
        asked = asked || error.in_doubt();
        pool_.note_broken();
        if (error.errc() != Errc::connection_lost || repeated || Clock::now() >= deadline) throw asked ? in_doubt(error) : error;
        repeated = true;
      }
    }
  }

  /// One request whose repetition is harmless.
  Reached ask(Request const& request, TimePoint deadline) {
    Reached reached;
    with_connection(deadline, reached.repeated, [&](Connection& connection) {
      auto const reply = call_script(connection, deadline, [&](ScriptBy by) {
        reached.sent = Clock::now();
        append(connection, request, by);
      });
      reached.answer = to_answer(request.verb, *reply);
      return true;
    });
    return reached;
  }

  void prepare(TimePoint deadline, Wake* interrupt) noexcept override {
    guarded({}, [&] {
      if (keeper_ && !keeper_->quiet()) {  // hung up while idle: found before anything is sent
        keeper_.reset();
        pool_.note_broken();
      }
      if (!keeper_) {
        keeper_ = pool_.connect(deadline, interrupt);
        if (tracking_) watch_keys(deadline, interrupt);
      }
    });
  }

  void send(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept override {
    guarded(batch, [&] {
      if (!keeper_) throw Error{Errc::connect_failed, pool_.endpoint() + ": no connection for renewals"};
      auto const now = Clock::now();
      for (auto& chore : batch) {
        // A script the server had forgotten is said in full once; the requests behind it find it there again.
        auto& in_full = say_in_full_[script_index(chore.request)];
        chore.in_full = std::exchange(in_full, false);
        append(*keeper_, chore.request, chore.in_full ? ScriptBy::text : ScriptBy::hash);
        chore.sent = now;
        // A write of our own makes the server forget that the key is watched: look at it once more behind that.
        if (looks_again(chore)) keeper_->append({"EXISTS", chore.request.keys->lock});
      }
      if (!keeper_->send(deadline, interrupt)) keeper_.reset();
    });
  }

  void collect(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept override {
    if (!keeper_) return;
    guarded(batch, [&] {
      for (auto& chore : batch) {
        auto const reply = keeper_->receive(deadline, interrupt);
        if (!reply) {
          keeper_.reset();
          return;
        }
        take_answer(chore, **reply);
        if (looks_again(chore) && !keeper_->receive(deadline, interrupt)) {
          keeper_.reset();
          return;
        }
      }
    });
  }

  bool tracks() const noexcept override { return tracking_; }
  int changes() const noexcept override { return watch_.descriptor(); }
  bool take_changes(std::vector<std::string>& names) noexcept override {
    if (!watch_.attached()) return false;
    try {
      return watch_.hear(names);
    } catch (...) {  // the line is dead: look at everything, over a new one
      watch_.detach();
      keeper_.reset();
      return true;
    }
  }

  /// Told once, when the server cannot do what was asked for as an option.
  void on_degraded(std::function<void(std::string const& reason)> told) { degraded_ = std::move(told); }

  static Error in_doubt_if_unanswered(Error const& error) { return error.in_doubt() ? in_doubt(error) : error; }
  static Error in_doubt(Error const& error) {
    if (error.errc() == Errc::in_doubt) return error;
    return Error{Errc::in_doubt, std::string{"sent, but no answer: "} + error.what()};
  }

 private:
  /// If an earlier copy of the request is unanswered, having no connection for the next leaves it in doubt.
  Pool::Lent lend_again(TimePoint deadline, bool asked) {
    try {
      return pool_.lend(deadline);
    } catch (Error const& error) {
      throw asked ? in_doubt(error) : error;
    }
  }

  void take_answer(Chore& chore, ReplyView reply) {
    if (is_unknown_script(reply) && !chore.in_full) {
      say_in_full_[script_index(chore.request)] = true;
      chore.outcome = Chore::Outcome::unknown_script;
    } else if (reply.is_error()) {
      chore.error = server_error(reply.text(), pool_.endpoint());
      chore.outcome = Chore::Outcome::refused;
    } else {
      chore.answer = to_answer(chore.request.verb, reply);
      chore.outcome = Chore::Outcome::answered;
    }
  }

  bool looks_again(Chore const& chore) const noexcept { return watch_.attached() && chore.request.verb == Verb::keep && primitive(chore.request.hold()).one_owner; }

  /// A server that refuses is done without: changes are then found at the next renewal.
  void watch_keys(TimePoint deadline, Wake* interrupt) {
    try {
      watch_.attach(*keeper_, pool_, deadline, interrupt);
    } catch (Error const& error) {
      watch_.detach();
      if (error.retryable()) throw;
      tracking_.store(false);
      if (degraded_) degraded_(std::string{"no client tracking, a lost key is found at the next renewal: "} + error.what());
    }
  }

  /// The keeper's I/O: a fault closes its connection and is noted at every request that has no answer yet.
  template <class Work>
  void guarded(std::span<Chore> batch, Work&& work) noexcept {
    try {
      work();
    } catch (std::exception const& fault) {
      keeper_.reset();
      pool_.note_broken();
      try {
        auto const* const error = dynamic_cast<Error const*>(&fault);
        for (auto& chore : batch)
          if (chore.outcome == Chore::Outcome::unanswered)
            chore.error = error != nullptr ? *error : Error{Errc::connection_lost, fault.what()};
      } catch (...) {  // no memory for the reason: unanswered all the same
      }
    }
  }

  Pool pool_;
  std::unique_ptr<Connection> keeper_{};  // the keeper thread's
  std::array<bool, script_count> say_in_full_{};
  std::atomic<bool> tracking_;
  KeyWatch watch_{};
  std::function<void(std::string const&)> degraded_{};
};

}  // namespace mortise::inline v1::detail
