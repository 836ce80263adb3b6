// SPDX-License-Identifier: MIT
// `mortise status` and `mortise break`: a look at a lock from outside, and the operator's forced release.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include <mortise/client.hpp>
#include <mortise/detail/printable.hpp>
#include <mortise/detail/timing.hpp>
#include <mortise/key.hpp>
#include <mortise/mutex_scripts.hpp>
#include <mortise/token.hpp>

#include "arguments.hpp"
#include "connect.hpp"
#include "exit_code.hpp"
#include "json.hpp"
#include "room.hpp"

namespace command {

/// A lock as it was at one instant.
struct Snapshot {
  enum class State : std::uint8_t { free, held, reserved };

  State state{State::free};
  std::string owner{};                   ///< what the lock's key holds; never to be printed
  std::optional<std::uint64_t> fence{};  ///< the last one granted
  std::int64_t ttl_ms{-2};               ///< -1: no expiry
  bool waited_for{false};                ///< somebody waits, or did so a moment ago
  std::optional<Room> room{};            ///< held, but as a shared lock or a semaphore: by these
};

inline constexpr std::string_view snapshot_lua = R"lua(-- SNAPSHOT   KEYS lock fence wait queue
-- {value or nil, pttl, last fence or nil, > 0: somebody waits}; a room's go on: {…, what it is, how many are in,
-- {'<kind>:<token>', ms left, …}}, at most 100 of them
local value = redis.pcall('GET', KEYS[1])
local seen = {value, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), redis.call('EXISTS', KEYS[3], KEYS[4])}
if type(value) ~= 'table' then return seen end
if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
local what = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES') -- of another type: refused here
if what[2] ~= 'inf' then return value end
local T = redis.call('TIME')
local now = T[1] * 1000 + math.floor(T[2] / 1000)
local guests = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now), '(inf', 'WITHSCORES', 'LIMIT', 0, 100)
for i = 2, #guests, 2 do guests[i] = guests[i] - now end
seen[1], seen[5], seen[7] = false, what[1], guests
seen[6] = redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '(inf')
return seen
)lua";

/// One command about a lock; throws what an error reply means.
inline mortise::detail::Reply ask(mortise::Client& client, mortise::detail::LockKeys const& keys, std::initializer_list<std::string_view> words) {
  auto const handle = mortise::detail::Access::handle(client)->get();
  auto& core = static_cast<mortise::detail::ClientCore&>(*handle);
  core.check_reachable(keys.lock, "lock name");
  return core.command(keys.lock, words);
}

inline Snapshot look(mortise::Client& client, mortise::detail::LockKeys const& keys) {
  auto const reply = ask(client, keys, {"EVAL", snapshot_lua, "4", keys.lock, keys.fence, keys.wait, mortise::detail::sibling(keys.lock, ":~queue")});
  auto const seen = reply.view();
  Snapshot snapshot;
  if (!seen[0].is_nil()) {
    snapshot.owner = seen[0].text();
    snapshot.state = snapshot.owner.starts_with("h:") ? Snapshot::State::reserved : Snapshot::State::held;
  }
  snapshot.ttl_ms = seen[1].integer();
  if (!seen[2].is_nil()) {
    auto const digits = seen[2].text();
    std::uint64_t fence = 0;
    auto const end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, fence).ptr == end) snapshot.fence = fence;
  }
  snapshot.waited_for = seen[3].integer() > 0;
  if (seen.size() > 4 && seen[5].integer() > 0) {
    snapshot.room = room_in(seen[4], seen[5], seen[6]);
    snapshot.state = Snapshot::State::held;
  }
  return snapshot;
}

inline std::string lifetime(std::int64_t ttl_ms) {
  return ttl_ms < 0 ? "without expiry" : "for another " + mortise::detail::text(milliseconds{ttl_ms});
}

/// The fence of the holder; another client's grant has none, and of a room's the last may be anybody's.
inline std::optional<std::uint64_t> holders_fence(Snapshot const& seen) {
  bool const ours = seen.state == Snapshot::State::held && !seen.room && mortise::detail::label_of(seen.owner).find(' ') == std::string::npos;
  return ours ? seen.fence : std::nullopt;
}

/// For people: one line.
inline void print(std::string const& name, Snapshot const& seen) {
  std::cout << mortise::detail::printable(name) << " is ";
  switch (seen.state) {
    case Snapshot::State::free: std::cout << "free"; break;
    case Snapshot::State::held: std::cout << (seen.room ? described(*seen.room) : "held by " + mortise::detail::label_of(seen.owner)); break;
    case Snapshot::State::reserved: std::cout << "reserved for the waiter whose turn it is"; break;
  }
  if (seen.fence) std::cout << (holders_fence(seen) ? ", fence " : ", last fence ") << *seen.fence;
  if (seen.state != Snapshot::State::free) std::cout << ", " << lifetime(seen.ttl_ms);
  std::cout << (seen.waited_for ? ", waited for\n" : ", nobody waits\n");
}

/// For programs: one JSON object with null for what there is not.
inline void print_json(std::string const& name, Snapshot const& seen) {
  constexpr std::string_view states[] = {"free", "held", "reserved"};
  auto const number = [](std::optional<std::uint64_t> value) { return value ? std::to_string(*value) : "null"; };
  bool const held = seen.state == Snapshot::State::held && !seen.room;
  std::cout << "{\"name\":" << json_string(name) << ",\"state\":\"" << states[static_cast<std::size_t>(seen.state)]
            << "\",\"holder\":" << (held ? json_string(mortise::detail::label_of(seen.owner)) : "null")
            << ",\"fence\":" << number(holders_fence(seen)) << ",\"last_fence\":" << number(seen.fence)
            << ",\"ttl_ms\":" << (seen.ttl_ms < 0 ? "null" : std::to_string(seen.ttl_ms))
            << ",\"waiters\":" << (seen.waited_for ? "true" : "false");
  if (seen.room) {
    std::cout << ",\"room\":";
    print_json(*seen.room);
  }
  std::cout << "}\n";
}

inline int status(Arguments const& arguments) {
  mortise::detail::LockKeys const keys{arguments.name};
  mortise::Client client{arguments.redis, client_options(arguments)};
  auto const seen = look(client, keys);
  if (arguments.json)
    print_json(arguments.name, seen);
  else
    print(arguments.name, seen);
  return seen.state == Snapshot::State::free ? ExitCode::done : ExitCode::not_free;
}

inline int break_room(mortise::Client& client, std::string const& lock, Snapshot const& seen) {
  auto const& room = *seen.room;
  mortise::detail::LockKeys const keys{lock, room.permits > 0 ? mortise::detail::Hold::permit : mortise::detail::Hold::writer, room.permits};
  auto const out = put_out(room, keys, [&](std::initializer_list<std::string_view> words) { return ask(client, keys, words); });
  auto const name = mortise::detail::printable(lock);
  if (out.empty()) {
    std::cout << name << " changed hands: none of those seen is in any more; nothing was broken\n";
    return ExitCode::not_free;
  }
  std::cout << name << " is released in the place of " << list(out, static_cast<std::int64_t>(out.size()));
  auto const others = room.count - static_cast<std::int64_t>(room.guests.size());
  std::cout << (others > 0 ? "; " + std::to_string(others) + " more were in and are left: break again\n" : "\n");
  return others > 0 ? ExitCode::not_free : ExitCode::done;
}

inline int break_lock(Arguments const& arguments) {
  mortise::detail::LockKeys const keys{arguments.name};
  mortise::Client client{arguments.redis, client_options(arguments)};
  auto const name = mortise::detail::printable(arguments.name);
  auto const seen = look(client, keys);
  if (seen.state == Snapshot::State::free) {
    std::cout << name << " is free: nothing to break\n";
    return ExitCode::done;
  }
  if (seen.state == Snapshot::State::reserved) {
    std::cout << name << " is reserved for the waiter whose turn it is, " << lifetime(seen.ttl_ms) << ": left alone\n";
    return ExitCode::not_free;
  }
  if (seen.room) return break_room(client, arguments.name, seen);
  // Guarded: what is stored now goes, and nothing newer; waiters are let in as by any release.
  auto const claim = std::to_string(mortise::detail::claim_time.count());
  auto const retention = std::to_string(mortise::detail::fence_retention.count());
  auto const reply = ask(client, keys, {"EVAL", mortise::detail::release_lua, "4", keys.lock, keys.fence, keys.wake, keys.wait, seen.owner,
                                  claim, std::to_string(mortise::detail::wall_microseconds()), retention, "0"});
  auto const holder = mortise::detail::label_of(seen.owner);
  if (reply.view()[0].integer() != 1) {
    std::cout << name << " changed hands: " << holder << " holds it no more; nothing was broken\n";
    return ExitCode::not_free;
  }
  std::cout << name << " is released in the place of " << holder << (seen.fence ? ", last fence " + std::to_string(*seen.fence) : "")
            << (reply.view()[1].integer() > 0 ? "; reserved for the first waiter\n" : "\n");
  return ExitCode::done;
}

}  // namespace command
