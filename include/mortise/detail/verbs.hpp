// SPDX-License-Identifier: MIT
// The three verbs of every primitive and their answers as plain data: what is asked, apart from how it travels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <mortise/detail/primitive.hpp>
#include <mortise/fence.hpp>
#include <mortise/key.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

enum class Verb : std::uint8_t {
  acquire,  ///< take the lock, if it is free or reserved for this caller
  keep,     ///< lengthen the lease, if owner and fence still stand
  release,  ///< give the lock up, pass a popped reservation on, or nudge: hand over a lock that nobody holds
};

/// One question. By views: what they show must live until the answer is in.
struct Request {
  Verb verb{Verb::acquire};
  LockKeys const* keys{};
  std::string_view owner{};       ///< a token; to release a mutex also "h:<fence>" (pass on) or nothing (nudge)
  milliseconds lease{};           ///< acquire, keep: the TTL; release: the life of a reservation
  Fence fence{};                  ///< keep: the fence of the grant
  milliseconds retention{};       ///< life of the fence counter
  milliseconds wait{};            ///< acquire: 0 = a try; otherwise, and for a nudge: how long the waiter counts as waiting
  std::string_view popped{};      ///< acquire a mutex: nothing, a popped fence, or "*<µs>" behind a blocking pop
  bool downgrade{false};          ///< keep: a writer goes on as a reader
  std::uint64_t floor{};          ///< acquire: least fence, the same at all nodes of a quorum; 0: the clock at the time of writing

  Hold hold() const noexcept { return keys->hold; }
};

/// The answer to a Request. What `value` means depends on the verb.
struct Answer {
  bool yes{};                  ///< granted, kept, released
  std::int64_t value{};        ///< granted: the fence; otherwise acquire, release: what the lock's PTTL says (-2 absent, -1 no expiry)
  microseconds server_time{};  ///< acquire: the server's clock
};

inline Request acquire_request(LockKeys const& keys, std::string_view token, milliseconds lease, milliseconds retention,
                               milliseconds wait, std::string_view popped = {}) noexcept {
  return {Verb::acquire, &keys, token, lease, {}, retention, wait, popped, false, 0};
}

inline Request keep_request(LockKeys const& keys, std::string_view token, milliseconds lease, Fence fence,
                            milliseconds retention) noexcept {
  return {Verb::keep, &keys, token, lease, fence, retention, {}, {}, false, 0};
}

inline Request release_request(LockKeys const& keys, std::string_view owner, milliseconds claim, milliseconds retention,
                               milliseconds wait = {}) noexcept {
  return {Verb::release, &keys, owner, claim, {}, retention, wait, {}, false, 0};
}

/// Serves whoever waits, if that is possible now, and says when to look again. A room is told in whose name.
inline Request nudge_request(LockKeys const& keys, std::string_view waiter, milliseconds claim, milliseconds retention,
                             milliseconds wait) noexcept {
  return release_request(keys, in_room(keys.hold) ? waiter : std::string_view{}, claim, retention, wait);
}

/// Whether a nudge was told that its waiter does not wait any more: it has to ask anew.
inline bool has_lost_place(Request const& nudge, Answer const& answer) noexcept { return in_room(nudge.hold()) && !answer.yes; }

}  // namespace mortise::inline v1::detail
