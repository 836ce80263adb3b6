// SPDX-License-Identifier: MIT
// The keeper's connections, one to each server it has something to say to, and how its batches travel over them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mortise/chore.hpp>
#include <mortise/key_watch.hpp>
#include <mortise/topology.hpp>
#include <mortise/wire.hpp>

namespace mortise::inline v1::detail {

/// Of the keeper's thread, but for tracks(). A batch is written to all its servers before any answer is read. A server that
/// did not answer is tried again for moments only: leases on other servers have to be renewed meanwhile.
class KeeperLines {
 public:
  KeeperLines(Topology& topology, bool tracking) : topology_{topology}, tracking_{tracking} {}

  void prepare(TimePoint deadline, Wake* interrupt) noexcept;
  void send(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept;
  void collect(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept;

  bool tracks() const noexcept { return tracking_; }
  int changes() const noexcept { return watch_.descriptor(); }
  bool take_changes(std::vector<std::string>& names) noexcept;

  void on_degraded(std::function<void(std::string const& reason)> told) { degraded_ = std::move(told); }

 private:
  /// The way to one server.
  struct Line {
    Pool* pool{};
    std::unique_ptr<Connection> connection{};
    std::array<bool, script_count> say_in_full{};
    bool wanted{false};                 // there is something to say
    unsigned failures{0};               // at a stretch
    TimePoint not_before{TimePoint::min()};
    TimePoint used{};
    std::optional<Error> fault{};       // why there is no connection
  };
  using Lines = std::map<Pool*, Line>;

  static constexpr milliseconds first_budget{100}, most_budget{400};  // for a server that failed, while there are others
  static constexpr milliseconds longest_unused{60'000};
  static constexpr unsigned most_redirections = 5, most_futile = 4;

  Line* line_for(Chore const& chore, bool& asking);
  void find_servers(TimePoint deadline, Wake* interrupt) noexcept;
  void connect(Line& line, TimePoint deadline, Wake* interrupt);
  void watch_keys(Line& line, TimePoint deadline, Wake* interrupt);
  void append_to(Line& line, Chore& chore);
  void take_answer(Line& line, Chore& chore, ReplyView reply);
  bool looks_again(Line const& line, Chore const& chore) const noexcept {
    return watch_.attached() && watched_ == line.connection.get() && chore.request.verb == Verb::keep &&
           primitive(chore.request.hold()).one_owner;
  }
  void fail(Line& line, std::span<Chore> batch, std::exception const& fault) noexcept;
  void drop(Line& line) noexcept;

  Topology& topology_;
  Lines lines_{};
  std::vector<Line*> carried_by_{};             // by place in the batch
  std::vector<std::uint16_t> unknown_slots_{};  // whose server is to be found before the next batch
  std::optional<Error> not_found_{};            // why it was not
  std::map<std::string, Pool*> once_{};         // names whose next request goes elsewhere, by an ASK
  unsigned redirections_{0};                    // batches at a stretch of which something was sent elsewhere
  unsigned futile_{0};                          // batches at a stretch of which nothing was sent
  std::atomic<bool> tracking_;
  KeyWatch watch_{};
  Connection const* watched_{nullptr};
  std::function<void(std::string const&)> degraded_{};
};

// --- below: bodies

/// Finds servers and connects, so that writing does not wait for either.
inline void KeeperLines::prepare(TimePoint deadline, Wake* interrupt) noexcept {
  find_servers(deadline, interrupt);
  auto const began = Clock::now();
  for (auto& [pool, line] : lines_) {
    try {
      if (line.connection && !line.connection->quiet()) {  // hung up while idle: found before anything is sent
        drop(line);
        topology_.broken(*pool);
        line.wanted = !topology_.follows();  // another may have taken over
      }
      if (line.connection && lines_.size() > 1 && began - line.used > longest_unused) {  // of a server that is asked no more
        drop(line);
        line.wanted = false;
      }
      if (line.connection || !line.wanted || Clock::now() < line.not_before) continue;
      line.fault.reset();
      auto until = deadline;
      if (lines_.size() > 1 && line.failures > 0)
        until = std::min(until, after(Clock::now(), std::min(first_budget * (1 << std::min(line.failures - 1, 4U)), most_budget)));
      connect(line, until, interrupt);
    } catch (std::exception const& fault) {
      fail(line, {}, fault);
    }
  }
}

inline void KeeperLines::find_servers(TimePoint deadline, Wake* interrupt) noexcept {
  not_found_.reset();
  try {
    // At first, and for a single server always: before there is anything to say to it.
    if (lines_.empty() && !topology_.by_slot()) unknown_slots_.push_back(0);
    for (auto const slot : std::exchange(unknown_slots_, {})) {
      auto& pool = topology_.node(slot, deadline, interrupt);
      auto& line = lines_[&pool];
      line.pool = &pool;
      line.wanted = true;
    }
  } catch (Error const& error) {
    not_found_ = error;
  } catch (...) {  // no memory: said when the batch is sent
  }
}

inline void KeeperLines::connect(Line& line, TimePoint deadline, Wake* interrupt) {
  line.connection = line.pool->connect(deadline, interrupt);
  line.used = Clock::now();
  if (tracking_) watch_keys(line, deadline, interrupt);
}

/// The line a request goes over; nothing: its server is not known, or there is no connection to it yet.
inline auto KeeperLines::line_for(Chore const& chore, bool& asking) -> Line* {
  auto const& keys = *chore.request.keys;
  auto* pool = topology_.known(keys.slot);
  if (!once_.empty()) {
    if (auto const elsewhere = once_.find(keys.lock); elsewhere != once_.end()) {
      pool = elsewhere->second;
      asking = true;
    }
  }
  if (pool == nullptr) {
    if (std::find(unknown_slots_.begin(), unknown_slots_.end(), keys.slot) == unknown_slots_.end()) unknown_slots_.push_back(keys.slot);
    return nullptr;
  }
  auto& line = lines_[pool];
  line.pool = pool;
  if (!std::exchange(line.wanted, true) && Clock::now() >= line.not_before) line.fault.reset();
  return &line;
}

inline void KeeperLines::send(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept {
  try {
    carried_by_.assign(batch.size(), nullptr);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      auto& chore = batch[i];
      bool asking = false;
      auto* const line = line_for(chore, asking);
      if (line == nullptr || !line->connection) {
        chore.error = line == nullptr ? not_found_ : line->fault;
        if (!chore.error && futile_ < most_futile) chore.outcome = Chore::Outcome::again;  // now it is known what to get ready
        continue;
      }
      if (asking) {  // behind the ASKING nothing but this
        line->connection->append({"ASKING"});
        once_.erase(chore.request.keys->lock);
        chore.asking = true;
      }
      append_to(*line, chore);
      carried_by_[i] = line;
    }
  } catch (std::exception const&) {  // no memory: what stands half in a connection cannot be told apart
    for (auto& [pool, line] : lines_) drop(line);
  }
  bool const any = std::any_of(carried_by_.begin(), carried_by_.end(), [](Line const* line) { return line != nullptr; });
  futile_ = any ? 0 : futile_ + 1;
  for (auto& [pool, line] : lines_) {
    if (!line.connection || std::find(carried_by_.begin(), carried_by_.end(), &line) == carried_by_.end()) continue;
    try {
      line.used = Clock::now();
      if (!line.connection->send(deadline, interrupt)) drop(line);
    } catch (std::exception const& fault) {
      fail(line, batch, fault);
    }
  }
}

inline void KeeperLines::append_to(Line& line, Chore& chore) {
  // A script the server had forgotten is said in full once; the requests behind it find it there again.
  auto& in_full = line.say_in_full[script_index(chore.request)];
  chore.in_full = std::exchange(in_full, false);
  append(*line.connection, chore.request, chore.in_full ? ScriptBy::text : ScriptBy::hash);
  chore.sent = Clock::now();
  // A write of our own makes the server forget that the key is watched: look at it once more behind that.
  if (looks_again(line, chore)) line.connection->append({"EXISTS", chore.request.keys->lock});
}

inline void KeeperLines::collect(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept {
  bool redirected = false;
  for (auto& [pool, line] : lines_) {
    try {
      for (std::size_t i = 0; i < batch.size() && line.connection; ++i) {
        auto& chore = batch[i];
        if (carried_by_[i] != &line) continue;
        bool const looks = looks_again(line, chore);
        std::optional<Reply> reply;
        if (!chore.asking || line.connection->receive(deadline, interrupt)) reply = line.connection->receive(deadline, interrupt);
        if (reply) take_answer(line, chore, **reply);
        redirected = redirected || chore.moved || chore.outcome == Chore::Outcome::again;
        if (!reply || (looks && !line.connection->receive(deadline, interrupt))) drop(line);
        line.failures = 0;
      }
    } catch (std::exception const& fault) {
      fail(line, batch, fault);
    }
  }
  redirections_ = redirected ? redirections_ + 1 : 0;
}

inline void KeeperLines::take_answer(Line& line, Chore& chore, ReplyView reply) {
  chore.endpoint = &line.pool->endpoint();
  if (is_unknown_script(*line.connection, reply) && !chore.in_full) {
    line.say_in_full[script_index(chore.request)] = true;
    chore.outcome = Chore::Outcome::again;
    return;
  }
  if (!reply.is_error()) {
    chore.answer = to_answer(chore.request.verb, reply);
    chore.outcome = Chore::Outcome::answered;
    return;
  }
  auto const advice = topology_.heed(*line.pool, chore.request.keys->slot, reply.text());
  chore.moved = advice.moved;
  chore.error = line.connection->refusal(reply.text(), chore.request.keys->lock);
  chore.outcome = Chore::Outcome::refused;
  if (advice.again == Topology::Advice::Again::no) return;
  chore.error = std::move(*chore.error).passing();
  if (advice.again != Topology::Advice::Again::at_once || redirections_ >= most_redirections) return;
  if (advice.once != nullptr) once_[chore.request.keys->lock] = advice.once;
  chore.outcome = Chore::Outcome::again;
}

/// A hint from the server: true if any key may have been changed.
inline bool KeeperLines::take_changes(std::vector<std::string>& names) noexcept {
  if (!watch_.attached()) return false;
  try {
    return watch_.hear(names);
  } catch (...) {  // it is dead: look at everything, over a new one
    watch_.detach();
    for (auto& [pool, line] : lines_)
      if (line.connection.get() == watched_) drop(line);
    return true;
  }
}

/// A server that refuses is done without: changes are then found at the next renewal.
inline void KeeperLines::watch_keys(Line& line, TimePoint deadline, Wake* interrupt) {
  try {
    watch_.attach(*line.connection, *line.pool, deadline, interrupt);
    watched_ = line.connection.get();
  } catch (Error const& error) {
    watch_.detach();
    if (error.retryable()) throw;
    tracking_.store(false);
    if (degraded_) degraded_(std::string{"no client tracking, a lost key is found at the next renewal: "} + error.what());
  }
}

/// A fault closes the connection and is noted at every request that went over it and has no answer.
inline void KeeperLines::fail(Line& line, std::span<Chore> batch, std::exception const& fault) noexcept {
  drop(line);
  try {
    topology_.broken(*line.pool);
    auto const* const error = dynamic_cast<Error const*>(&fault);
    line.fault = error != nullptr ? *error : Error{Errc::connection_lost, fault.what()};
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (carried_by_[i] == &line && batch[i].outcome == Chore::Outcome::unanswered) batch[i].error = *line.fault;
    // Not at the price of the others: it gets a fifth of the time at most.
    if (auto const failed = line.failures++; failed > 0 && lines_.size() > 1)
      line.not_before = after(Clock::now(), std::min(first_budget * (1 << std::min(failed - 1, 4U)), most_budget) * 4);
    line.wanted = !topology_.follows();
  } catch (...) {  // no memory for the reason: unanswered all the same
  }
}

inline void KeeperLines::drop(Line& line) noexcept {
  if (watched_ != nullptr && watched_ == line.connection.get()) watched_ = nullptr;
  line.connection.reset();
}

}  // namespace mortise::inline v1::detail
