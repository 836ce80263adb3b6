// SPDX-License-Identifier: MIT
// What an observer is told: one small value per thing that happened to a lock or a connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <mortise/fence.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1 {

/// One thing that happened. `ClientOptions::observer` is called with it on the herald thread: after the fact, in order,
/// never under a library mutex and never on the thread that renews. An exception it throws is swallowed.
struct Event {
  /// What happened, and which members say more about it.
  enum class Kind : std::uint8_t {
    granted,            ///< fence; duration: from the call to the grant
    busy,               ///< a try found the lock held
    waited,             ///< a wait ended without a grant; duration: how long; reason: deadline, cancelled or closed
    handed_over,        ///< granted by the hand-off of a release; fence; duration: how long this caller had waited
    renewed,            ///< fence; duration: the round trip
    renewal_failed,     ///< no answer to a renewal, it is tried again; reason: why
    lost,               ///< fence; reason: expired, taken over, deleted …; endpoint: the server that answered last
    released,           ///< fence; duration: how long it was held
    release_failed,     ///< fence; reason: why; it is tried again until the lease is over
    reconnected,        ///< endpoint: a new connection replaces a broken one
    orphan_possible,    ///< a request stayed in doubt: the key may live until its TTL ends
    degraded,           ///< the server lacks something optional; reason: what, and what that means
    dropped,            ///< the observer was too slow: events were thrown away before this one; reason: how many
    no_quorum,          ///< too few nodes of a Quorum agreed to an acquisition; reason: each node and what it answered
  };

  Kind kind{};             ///< what happened
  std::string name{};      ///< the lock
  Fence fence{};           ///< 0 where there is none
  nanoseconds duration{};  ///< see Kind
  std::string endpoint{};  ///< host:port or socket path, where the event is about a server
  std::string reason{};    ///< for people: never a password or a token
};

/// The enumerator's own name, for logs and metrics.
constexpr std::string_view to_string(Event::Kind kind) noexcept {
  switch (kind) {
    case Event::Kind::granted: return "granted";
    case Event::Kind::busy: return "busy";
    case Event::Kind::waited: return "waited";
    case Event::Kind::handed_over: return "handed_over";
    case Event::Kind::renewed: return "renewed";
    case Event::Kind::renewal_failed: return "renewal_failed";
    case Event::Kind::lost: return "lost";
    case Event::Kind::released: return "released";
    case Event::Kind::release_failed: return "release_failed";
    case Event::Kind::reconnected: return "reconnected";
    case Event::Kind::orphan_possible: return "orphan_possible";
    case Event::Kind::degraded: return "degraded";
    case Event::Kind::dropped: return "dropped";
    case Event::Kind::no_quorum: return "no_quorum";
  }
  return "unknown";
}

}  // namespace mortise::inline v1
