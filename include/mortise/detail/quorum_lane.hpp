// SPDX-License-Identifier: MIT
// One connection to one node of a quorum: a pipeline that never waits, and whose answers never go to the wrong question.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>

#include <mortise/detail/quorum_node.hpp>
#include <mortise/wire.hpp>

namespace mortise::inline v1::detail {

/// Who hears answers that are nobody's.
struct Deaf {
  void answered(std::size_t, std::size_t, Verb, Answer const&) noexcept {}
  void refused(std::size_t, std::size_t, Verb, Error const&) noexcept {}
  void lost(std::size_t) noexcept {}
};

/// A connection that is made, greeted, used and given up without ever blocking. Answers come in the order of the questions,
/// so each is known by its place; those to an operation that is over are read and dropped. Used by one thread at a time.
class Lane {
 public:
  Lane(QuorumNodes& nodes, std::size_t node) noexcept : nodes_{&nodes}, node_{node} {}
  Lane(Lane&&) noexcept = default;
  Lane& operator=(Lane&&) = delete;
  ~Lane() { close(); }

  bool closed() const noexcept { return !connection_; }
  bool ready() const noexcept { return connection_ && greetings_ == 0; }
  /// The answer that comes next is one to the operation under way: the node has kept up so far.
  bool keeps_up() const noexcept { return !pending_.empty() && pending_.front().request != nullptr; }
  /// A part of what was asked has not left yet.
  bool unsent() const noexcept { return ready() && connection_->unsent(); }
  /// Nothing is awaited.
  bool settled() const noexcept { return ready() && pending_.empty(); }
  void hang_up() noexcept { close(); }
  /// So many questions are unanswered that another would only join them.
  bool behind() const noexcept { return pending_.size() >= most_pending; }
  int descriptor() const noexcept { return connection_ ? connection_->descriptor() : -1; }
  short wanted() const noexcept {
    return static_cast<short>((connection_->unread() > 0 ? POLLIN : 0) | (connection_->unsent() ? POLLOUT : 0));
  }
  /// When the oldest question has been unanswered for too long.
  TimePoint late_at() const noexcept {
    if (!connection_) return never;
    if (greetings_ > 0) return late_greeting_;
    return pending_.empty() ? never : after(pending_.front().sent, nodes_->node_timeout());
  }
  /// Why the connection was closed last, for a message; it names the endpoint.
  std::optional<Error> const& fault() const noexcept { return fault_; }
  /// Whether it was closed since this was last asked.
  bool take_broken() noexcept { return std::exchange(broken_, false); }

  /// Begins to connect, to log in and to ask who is there, all by `deadline`.
  void begin(TimePoint deadline) noexcept;

  /// Gathers a request, which stays where it is until detach(). Its answer is known by `tag`.
  void ask(Request const& request, std::size_t tag) noexcept;
  /// Gathers a question for the last fence of that lock: goes to heard.noted(node, fence).
  void look(LockKeys const& keys, Request const& request) noexcept;
  /// Writes what the kernel takes.
  void flush() noexcept;
  /// Reads what has arrived. `heard` has answered(node, tag, verb, Answer), refused(node, tag, verb, Error).
  template <class Heard>
  void read(Heard&& heard) noexcept;
  /// It is too late for whatever is awaited: the node goes off.
  void give_up() noexcept;
  /// Before it is used again: what has come since, a late answer or the end of the connection.
  void catch_up(TimePoint now) noexcept;
  void drop(Error const& error) noexcept;

  /// The operation is over. Answers that are still to come are nobody's; if `undone`, its RELEASE is written behind its
  /// ACQUIRE here, and will be owed should this connection break.
  void detach(bool undone) noexcept;

 private:
  static constexpr std::size_t most_pending = 32;

  struct Pending {
    Verb verb{};
    bool in_full{false};
    bool looks{false};                   // not the verb, but a look at the fence
    std::size_t tag{};
    TimePoint sent{};
    Request const* request{};            // of the operation under way
    std::shared_ptr<Debt const> debt{};  // of one that is over
  };

  void close() noexcept {
    if (connection_) connection_->send_and_close();
    connection_.reset();
    owe_pending();
  }
  void owe_pending() noexcept;
  void open_next();
  void hear_greeting(ReplyView reply);
  template <class Heard>
  void hear(ReplyView reply, Heard& heard);

  QuorumNodes* nodes_;
  std::size_t node_;
  std::unique_ptr<Connection> connection_{};
  std::vector<dialing::Resolved> targets_{};
  std::size_t target_{0};
  std::size_t greetings_{0};  // replies still to come before the first question's
  TimePoint late_greeting_{never};
  TimePoint used_{};
  std::deque<Pending> pending_{};
  std::array<bool, script_count> known_{};  // scripts said in full here: a node that has to ask back may be too late to be heard
  bool proven_{false};  // has answered a question
  std::optional<Error> fault_{};
  bool broken_{false};
};

// --- below: bodies

inline void Lane::begin(TimePoint deadline) noexcept {
  late_greeting_ = deadline;
  broken_ = false;  // whom it broke under has been told, or has gone
  try {
    targets_ = dialing::resolve(nodes_->config(node_).address);
    target_ = 0;
    open_next();
  } catch (Error const& error) {
    drop(error);
  } catch (std::exception const& fault) {
    drop(Error{Errc::connect_failed, nodes_->endpoint(node_) + ": " + fault.what()});
  }
}

/// Begins with the next address of the node that the system does not refuse at once; throws what it said of the last.
inline void Lane::open_next() {
  auto const& config = nodes_->config(node_);
  for (;;) {
    auto const& target = targets_.at(target_++);
    try {
      connection_ = std::make_unique<Connection>(nodes_->endpoint(node_), dialing::begin_to(config.address, target), nodes_->ledger());
      known_.fill(false);
      proven_ = false;
      greetings_ = connection_->greet(config.login) + 1;
      connection_->append({"INFO", "server"});
      connection_->try_send();
      return;
    } catch (Error const&) {
      connection_.reset();
      if (target_ == targets_.size()) throw;
    }
  }
}

inline void Lane::ask(Request const& request, std::size_t tag) noexcept {
  try {
    bool const known = std::exchange(known_[script_index(request)], true);
    pending_.push_back({.verb = request.verb, .in_full = !known, .tag = tag, .sent = Clock::now(), .request = &request});
    append(*connection_, request, known ? ScriptBy::hash : ScriptBy::text);
  } catch (...) {
    drop(Error{Errc::connection_lost, nodes_->endpoint(node_) + ": no memory for a request"});
  }
}

inline void Lane::look(LockKeys const& keys, Request const& request) noexcept {
  try {
    pending_.push_back({.verb = Verb::keep, .looks = true, .sent = Clock::now(), .request = &request});  // leaves nothing behind
    connection_->append({"GET", keys.fence});
  } catch (...) {
    drop(Error{Errc::connection_lost, nodes_->endpoint(node_) + ": no memory for a request"});
  }
}

inline void Lane::flush() noexcept {
  if (!connection_) return;
  try {
    connection_->try_send();
  } catch (Error const& error) {
    drop(error);
  } catch (...) {
    drop(Error{Errc::connection_lost, nodes_->endpoint(node_) + ": no memory"});
  }
}

template <class Heard>
void Lane::read(Heard&& heard) noexcept {
  try {
    while (connection_ && connection_->unread() > 0) {
      auto const reply = connection_->try_receive();
      if (!reply) return;
      if (greetings_ > 0)
        hear_greeting(**reply);
      else
        hear(**reply, heard);
    }
    used_ = Clock::now();
  } catch (Error const& error) {
    drop(error);
  } catch (std::exception const& fault) {
    drop(Error{Errc::connection_lost, nodes_->endpoint(node_) + ": " + fault.what()});
  }
}

inline void Lane::hear_greeting(ReplyView reply) {
  auto const following = --greetings_;
  if (following > 0) return connection_->check_greeting(reply, following - 1);
  std::string run_id;
  long long uptime = 0;
  if (!reply.is_error()) {  // a server that does not tell counts in full; docs/quorum.md says so
    auto const text = reply.text();
    auto const field = [&](std::string_view name) -> std::string_view {
      auto const at = text.find(name);
      if (at == std::string_view::npos) return {};
      auto const rest = text.substr(at + name.size());
      return rest.substr(0, rest.find_first_of("\r\n"));
    };
    run_id = field("\nrun_id:");
    auto const seconds = field("\nuptime_in_seconds:");
    std::from_chars(seconds.data(), seconds.data() + seconds.size(), uptime);
  }
  used_ = Clock::now();
  nodes_->greeted(node_, std::move(run_id), std::chrono::seconds{std::clamp(uptime, 0LL, 1LL << 32)}, used_);
  nodes_->put_on(node_);
}

template <class Heard>
void Lane::hear(ReplyView reply, Heard& heard) {
  if (pending_.empty()) throw Error{Errc::connection_lost, nodes_->endpoint(node_) + ": protocol error: a reply too many"};
  auto const question = std::move(pending_.front());
  pending_.pop_front();
  proven_ = true;
  nodes_->answered(node_);
  bool const forgotten = is_unknown_script(*connection_, reply) && !question.in_full;
  if (question.request == nullptr) {
    if (forgotten) known_.fill(false);
    if (question.debt && question.verb == Verb::release && reply.is_error()) nodes_->owe(node_, *question.debt);
    return;
  }
  if (question.looks) {
    std::uint64_t fence = 0;
    if (reply.is_text() && !reply.is_error()) {
      auto const text = reply.text();
      std::from_chars(text.data(), text.data() + text.size(), fence);
    }
    if constexpr (requires { heard.noted(node_, fence); }) heard.noted(node_, fence);
  } else if (forgotten) {
    pending_.push_back({.verb = question.verb, .in_full = true, .tag = question.tag, .sent = Clock::now(), .request = question.request});
    append(*connection_, *question.request, ScriptBy::text);
    connection_->try_send();
  } else if (reply.is_error()) {
    fault_ = server_error(reply.text(), nodes_->endpoint(node_), {nodes_->config(node_).login.username, question.request->keys->lock});
    heard.refused(node_, question.tag, question.verb, *fault_);
  } else {
    std::optional<Answer> answer;
    try {
      answer = to_answer(question.verb, reply);
    } catch (Error const& error) {
      throw Error{Errc::connection_lost, nodes_->endpoint(node_) + ": " + error.what()};
    }
    heard.answered(node_, question.tag, question.verb, *answer);
  }
}

inline void Lane::catch_up(TimePoint now) noexcept {
  if (!ready()) return;
  bool const looks_anyway = !pending_.empty() || now - used_ > milliseconds{10};
  if (!pending_.empty()) read(Deaf{});
  if (looks_anyway && settled() && !connection_->quiet())
    drop(Error{Errc::connection_lost, nodes_->endpoint(node_) + ": the server closed the connection"});
}

inline void Lane::give_up() noexcept {
  auto const waited = std::to_string(nodes_->node_timeout().count());
  drop(Error{Errc::timeout, nodes_->endpoint(node_) + (greetings_ > 0 ? ": no connection" : ": no answer") + " within " + waited + "ms"});
}

/// Closes the connection and tells what that means for the node.
inline void Lane::drop(Error const& error) noexcept {
  bool const late = error.errc() == Errc::timeout;
  bool const greeted = connection_ && greetings_ == 0;
  bool const elsewhere = !greeted && !late && error.errc() == Errc::connection_lost && target_ < targets_.size();
  close();
  try {
    if (elsewhere) return open_next();
    fault_ = greeted || late || error.errc() != Errc::connection_lost ? error : Error{Errc::connect_failed, error.what()};
    broken_ = true;
    if (error.errc() == Errc::invalid_option) return;  // the same server twice: told by every call
    if (late)
      nodes_->take_off(node_, fault_->what());
    else if (!proven_)  // one that was used before may just have been idle for too long
      nodes_->stumbled(node_, fault_->what());
  } catch (Error const& last) {
    broken_ = true;
    fault_.emplace(last);
    nodes_->take_off(node_, last.what());
  } catch (...) {  // no memory for the reason: it is closed, and that is seen
    broken_ = true;
  }
}

inline void Lane::detach(bool undone) noexcept {
  std::shared_ptr<Debt const> debt;
  for (auto& question : pending_) {
    auto const* const request = std::exchange(question.request, nullptr);
    if (request == nullptr || !undone) continue;
    try {
      if (!debt)
        debt = std::make_shared<Debt const>(Debt{*request->keys, std::string{request->owner}, request->retention,
                                                 after(Clock::now(), nodes_->largest_ttl()), true, 0, {}});
      question.debt = debt;
    } catch (...) {  // no memory: the lease ends by itself
    }
  }
}

/// What a broken connection leaves behind is released over another one.
inline void Lane::owe_pending() noexcept {
  Debt const* last = nullptr;
  for (auto const& question : pending_) {
    if (question.debt && question.debt.get() != last && question.verb != Verb::keep) {
      last = question.debt.get();
      try {
        nodes_->owe(node_, *last);
      } catch (...) {
      }
    }
  }
  pending_.clear();
}

}  // namespace mortise::inline v1::detail
