// SPDX-License-Identifier: MIT
// One deployment as its core sees it: requests answered one by one over connections on loan, and the keeper's batches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mortise/asked_for.hpp>
#include <mortise/core.hpp>
#include <mortise/keeper_lines.hpp>
#include <mortise/topology.hpp>
#include <mortise/wire.hpp>

namespace mortise::inline v1::detail {

/// Shared by a core and its keeper; knows nothing of leases.
class Link final : public Authority {
 public:
  Link(std::unique_ptr<Topology> topology, bool tracking) : topology_{std::move(topology)}, lines_{*topology_, tracking} {}

  Topology& topology() noexcept { return *topology_; }

  /// Runs `use(connection, pool)` on a connection to the server of a slot. Where the connection turns out to be broken, once more on
  /// a new one: only for what may be carried out twice. Where servers say that another is to be asked, or one takes over from
  /// another, until `deadline`. Throws what the last use throws.
  template <class Use>
  auto with_connection(std::uint16_t slot, TimePoint deadline, bool& repeated, Use&& use) {
    Route route{*topology_, slot};
    for (bool asked = false;;) {
      std::optional<Pool::Lent> lent;
      try {
        lent.emplace(route.lend(deadline));
        auto result = use(**lent, lent->pool());
        lent->give_back();
        return result;
      } catch (Error const& error) {
        // An error reply leaves the connection in order, but it is rare and closing it is always right.
        bool const answered = lent && !(*lent)->closed();
        bool const follows = route.follow(lent ? &**lent : nullptr, error);
        bool const broke = lent && !answered && error.errc() == Errc::connection_lost;
        asked = asked || (!answered && error.in_doubt());
        bool const again = follows || (broke && !repeated);
        repeated = repeated || broke;
        if (again && Clock::now() < deadline) {
          lent.reset();
          rest(follows ? route.pause(random_stock().take<1>()[0]) : milliseconds::zero(), deadline);
          if (Clock::now() < deadline) continue;
        }
        // If an earlier copy of the request is unanswered, whatever became of the last one leaves it in doubt.
        auto const& word = follows ? route.last_word() : error;
        if (answered) throw in_doubt_if_unanswered(word);
        throw asked ? in_doubt(word) : word;
      }
    }
  }

  /// One request whose repetition is harmless.
  Reached ask(Request const& request, TimePoint deadline) {
    Reached reached;
    with_connection(request.keys->slot, deadline, reached.repeated, [&](Connection& connection, Pool& pool) {
      auto const reply = call_script(connection, deadline, request.keys->lock, [&](ScriptBy by) {
        reached.sent = Clock::now();
        append(connection, request, by);
      });
      reached.answer = to_answer(request.verb, *reply);
      reached.endpoint = &pool.endpoint();
      return true;
    });
    return reached;
  }

  /// A release, and in the same write, behind it, an ACQUIRE of the same lock in another's name: one round trip for both. The
  /// second is sent once at most, and whatever becomes of it the release is what ask() makes of it.
  Reached release_and_ask(Request const& release, Request const& acquire, AskedFor& asked, TimePoint deadline) {
    Reached reached;
    bool alone = false;
    with_connection(release.keys->slot, deadline, reached.repeated, [&](Connection& connection, Pool& pool) {
      bool const both = !std::exchange(alone, true);
      reached.sent = Clock::now();
      append(connection, release);
      if (both) {
        append(connection, acquire);
        asked.sent = reached.sent;
        asked.copies = 1;
      }
      connection.send(deadline);
      auto reply = connection.receive(deadline);
      if (both) asked.take(connection, deadline, pool.endpoint());
      if (is_unknown_script(connection, **reply)) {
        append(connection, release, ScriptBy::text);
        connection.send(deadline);
        reply = connection.receive(deadline);
      }
      if ((*reply)->is_error()) throw connection.refusal((*reply)->text(), release.keys->lock);
      reached.answer = to_answer(release.verb, **reply);
      reached.endpoint = &pool.endpoint();
      return true;
    });
    return reached;
  }

  void prepare(TimePoint deadline, Wake* interrupt) noexcept override { lines_.prepare(deadline, interrupt); }
  void send(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept override { lines_.send(batch, deadline, interrupt); }
  void collect(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept override { lines_.collect(batch, deadline, interrupt); }
  bool tracks() const noexcept override { return lines_.tracks(); }
  int changes() const noexcept override { return lines_.changes(); }
  bool take_changes(std::vector<std::string>& names) noexcept override { return lines_.take_changes(names); }

  /// Told once, when the server cannot do what was asked for as an option.
  void on_degraded(std::function<void(std::string const& reason)> told) { lines_.on_degraded(std::move(told)); }

  static Error in_doubt_if_unanswered(Error const& error) { return error.in_doubt() ? in_doubt(error) : error; }
  static Error in_doubt(Error const& error) {
    if (error.errc() == Errc::in_doubt) return error;
    return Error{Errc::in_doubt, std::string{"sent, but no answer: "} + error.what()};
  }

 private:
  static void rest(milliseconds time, TimePoint deadline) noexcept {
    if (time > milliseconds::zero()) await_descriptor(-1, 0, std::min(after(Clock::now(), time), deadline), nullptr);
  }

  std::unique_ptr<Topology> topology_;
  KeeperLines lines_;
};

}  // namespace mortise::inline v1::detail
