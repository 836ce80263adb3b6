// SPDX-License-Identifier: MIT
// How a request and its answer look on the wire, whatever primitive it is for.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mortise/mutex_scripts.hpp>
#include <mortise/room_scripts.hpp>

namespace mortise::inline v1::detail {

/// Gathers one request on the connection.
inline void append(Connection& connection, Request const& request, ScriptBy by = ScriptBy::hash) {
  in_room(request.hold()) ? append_to_room(connection, request, by) : append_to_mutex(connection, request, by);
}

/// Scripts are counted through: so that what a server has forgotten can be noted for each.
inline constexpr std::size_t script_count = 6;
inline std::size_t script_index(Request const& request) noexcept {
  return static_cast<std::size_t>(request.verb) + (in_room(request.hold()) ? 3 : 0);
}

/// What the server answered; throws for a reply that none of the scripts gives.
inline Answer to_answer(Verb verb, ReplyView reply) {
  if (verb == Verb::keep) return {reply.integer() == 1, 0, {}};
  Answer answer{reply[0].integer() == 1, reply[1].integer(), {}};
  if (verb == Verb::acquire) answer.server_time = microseconds{reply[2].integer()};
  bool const grants = verb == Verb::acquire && answer.yes;
  auto const in_range = [](std::int64_t value, std::int64_t least) { return value >= least && value < fence_limit; };
  if (!in_range(answer.value, grants ? 1 : -2) || !in_range(answer.server_time.count(), 0))
    throw Error{Errc::connection_lost, "protocol error: a number out of range"}.unanswered();
  return answer;
}

}  // namespace mortise::inline v1::detail
