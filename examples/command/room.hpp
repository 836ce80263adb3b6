// SPDX-License-Identifier: MIT
// A look at a room, which is what a SharedLock or a Semaphore keeps under its name, and the forced release of who is in it.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <mortise/detail/timing.hpp>
#include <mortise/key.hpp>
#include <mortise/reply.hpp>
#include <mortise/room_scripts.hpp>
#include <mortise/token.hpp>

#include "json.hpp"

namespace command {

/// Who was in at one instant.
struct Room {
  struct Guest {
    std::string kind{};   ///< r reader, w writer, p permit
    std::string token{};  ///< never to be printed
    std::int64_t ttl_ms{};
  };

  int permits{};                ///< 0: for readers and writers
  std::int64_t count{};         ///< how many are in
  std::vector<Guest> guests{};  ///< those whose time is over first, and not more than a reply can hold
};

/// The part of a snapshot that is about a room: what it is, how many are in, {'<kind>:<token>', ms left, …}.
inline Room room_in(mortise::detail::ReplyView what, mortise::detail::ReplyView count, mortise::detail::ReplyView guests) {
  Room room{.count = count.integer()};
  auto const text = what.text();
  std::from_chars(text.data(), text.data() + text.size(), room.permits);  // "5 permits", or else "readers and writers"
  for (std::size_t i = 0; i + 1 < guests.size(); i += 2) {
    auto const member = guests[i].text();
    room.guests.push_back({std::string{member.substr(0, 1)}, std::string{member.substr(2)}, guests[i + 1].integer()});
  }
  return room;
}

inline std::string_view role_of(Room::Guest const& guest) {
  return guest.kind == "r" ? "reader" : guest.kind == "w" ? "writer" : "permit";
}

/// `2 readers (host:17, host:18)`.
inline std::string list(std::vector<Room::Guest> const& guests, std::int64_t count) {
  std::string names;
  for (auto const& guest : guests) names += (names.empty() ? "" : ", ") + mortise::detail::label_of(guest.token);
  auto const left_out = count - static_cast<std::int64_t>(guests.size());
  if (left_out > 0) names += " and " + std::to_string(left_out) + " more";
  return std::to_string(count) + ' ' + std::string{role_of(guests.front())} + (count == 1 ? "" : "s") + " (" + names + ')';
}

/// What stands behind "is" for people.
inline std::string described(Room const& room) {
  if (room.permits == 0) return "a shared lock held by " + list(room.guests, room.count);
  return "a semaphore of " + std::to_string(room.permits) + " with " + list(room.guests, room.count) + " taken";
}

inline void print_json(Room const& room) {
  std::cout << "{\"kind\":\"" << (room.permits == 0 ? "shared lock" : "semaphore") << "\",\"permits\":"
            << (room.permits == 0 ? "null" : std::to_string(room.permits)) << ",\"count\":" << room.count << ",\"holders\":[";
  for (auto const* separator = ""; auto const& guest : room.guests) {
    std::cout << separator << "{\"as\":\"" << role_of(guest) << "\",\"holder\":" << json_string(mortise::detail::label_of(guest.token))
              << ",\"ttl_ms\":" << guest.ttl_ms << '}';
    separator = ",";
  }
  std::cout << "]}";
}

/// Releases in the place of those who were seen, each by its token, so nobody who came later is put out; waiters are let in
/// as by any release. `ask` sends one command. Returns whom it was in time for.
inline std::vector<Room::Guest> put_out(Room const& room, mortise::detail::LockKeys const& keys,
                                        std::function<mortise::detail::Reply(std::initializer_list<std::string_view>)> const& ask) {
  std::vector<Room::Guest> out;
  for (auto const& guest : room.guests) {
    auto const reply = ask({"EVAL", mortise::detail::room_script(mortise::detail::Verb::release).text, "4", keys.lock, keys.fence, keys.queue,
                            keys.alive, guest.token, guest.kind, std::to_string(room.permits), "0",
                            std::to_string(mortise::detail::wall_microseconds()), std::to_string(mortise::detail::fence_retention.count()), "0",
                            std::to_string(mortise::detail::turn_time.count()), "0", ""});
    if (reply.view()[0].integer() == 1) out.push_back(guest);
  }
  return out;
}

}  // namespace command
