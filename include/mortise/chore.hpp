// SPDX-License-Identifier: MIT
// What the keeper has to do: the things it looks after, one request of a batch with what came of it, and who carries batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mortise/detail/verbs.hpp>
#include <mortise/detail/wake.hpp>
#include <mortise/error.hpp>
#include <mortise/herald.hpp>
#include <mortise/lease_state.hpp>

namespace mortise::inline v1::detail {

class Keeper;

/// A name that somebody of this core waits for at the server.
struct Line : std::enable_shared_from_this<Line> {
  explicit Line(std::shared_ptr<LockSpec const> lock) : spec{std::move(lock)} {}
  virtual ~Line() = default;

  /// Tells the waiter that its server does not answer, so that it has to look for itself; or that it never will hand this
  /// lock over, and why.
  virtual void kick(Error const* refusal) noexcept = 0;

  std::shared_ptr<LockSpec const> const spec;
  std::shared_ptr<std::string const> waiter{};  // the token of whoever waits there; the keeper's, under its mutex
  TimerHook nudge{};                            // so is this
};

/// A token that may still hold a lock nobody knows of: released again and again until that is sure, or its time is over.
/// Made, with its room in the keeper's heap, before the token's first request: to settle needs no memory.
struct Unsettled {
  Unsettled(std::shared_ptr<LockSpec const> lock, std::string token) : spec{std::move(lock)}, owner{std::move(token)} {}
  Unsettled(Unsettled const&) = delete;
  Unsettled& operator=(Unsettled const&) = delete;
  ~Unsettled();  // gives unused room back

  std::shared_ptr<LockSpec const> const spec;
  std::string const owner;
  Keeper* room_at{nullptr};  // where room is kept for it, until it is used
  TimePoint until{};
  int copies{0};  // of its ACQUIRE that may still be on the way: "not yours" proves nothing before they have been undone
  unsigned attempts{0};
  std::shared_ptr<LeaseState> released{};  // by release_later(): to be told of, and its core is to live until then
  TimerHook retry{};
  std::shared_ptr<Unsettled> self{};  // owns itself while it stands in the keeper's heap
};

/// One request of a batch, and what came of it.
struct Chore {
  enum class Outcome : std::uint8_t {
    unanswered,
    answered,
    refused,
    again,  ///< not carried out, to be said once more at once: the script was unknown, or another server is to be asked
  };

  Request request{};
  std::shared_ptr<LeaseState> lease{};  // one of these three
  std::shared_ptr<Line> line{};
  std::shared_ptr<std::string const> waiter{};  // of the line
  std::shared_ptr<Unsettled> unsettled{};

  TimePoint sent{};
  bool in_full{false};  // the script was sent by its text
  Outcome outcome{Outcome::unanswered};
  bool asking{false};   // an ASKING of its own was sent in front
  std::string const* endpoint{nullptr};  // of the server that answered
  bool moved{false};    // the server that answered is not the one to ask any more
  Answer answer{};
  std::optional<Error> error{};

  char const* reason() const noexcept { return error ? error->what() : "no answer"; }
};

/// Whoever carries a batch to the servers: first all of it is written, then all answers are read.
class Authority : public TimeSource {
 public:
  /// Gets a connection ready, so that writing does not wait for one.
  virtual void prepare(TimePoint, Wake*) noexcept {}
  /// Writes the batch; what could not be written stays unanswered, with its error.
  virtual void send(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept = 0;
  /// Reads the answers of what was written.
  virtual void collect(std::span<Chore> batch, TimePoint deadline, Wake* interrupt) noexcept = 0;

  /// Whether it hears of changes to held keys, and the descriptor that is readable then (-1: none yet).
  virtual bool tracks() const noexcept { return false; }
  virtual int changes() const noexcept { return -1; }
  /// Adds the names whose keys were changed; true: any of them may have been.
  virtual bool take_changes(std::vector<std::string>&) noexcept { return false; }
};

}  // namespace mortise::inline v1::detail
