// SPDX-License-Identifier: MIT
// The primitives: as what a name is held, and what of that the engine has to know.
#pragma once

#include <cstdint>

namespace mortise::inline v1::detail {

/// As what one holds a name. A mutex is a key with one owner; the others are ways to be in a *room*, a set of holders.
enum class Hold : std::uint8_t {
  mutex,
  reader,  ///< with other readers
  writer,  ///< alone
  permit,  ///< one of so many
};

constexpr bool in_room(Hold hold) noexcept { return hold != Hold::mutex; }

/// The letter by which a room's scripts know it.
constexpr char letter(Hold hold) noexcept { return hold == Hold::reader ? 'r' : hold == Hold::writer ? 'w' : 'p'; }

/// How the ways to hold differ for whoever takes, keeps and gives up.
struct Primitive {
  bool claims;       ///< a waiter's blocking pop only calls it, and a claim stands behind; otherwise the element is the grant
  bool one_in_line;  ///< of the threads of one core only the first waits at the server; otherwise each does
  bool one_owner;    ///< nobody but the holder changes the key, so a change of it is news
};

/// Readers enter together: were they to stand in one line, each would wait for a round trip of the one before, and a
/// writer would come in between.
constexpr Primitive primitive(Hold hold) noexcept {
  switch (hold) {
    case Hold::mutex: return {.claims = true, .one_in_line = true, .one_owner = true};
    case Hold::reader: return {.claims = false, .one_in_line = false, .one_owner = false};
    case Hold::writer:
    case Hold::permit: break;
  }
  return {.claims = false, .one_in_line = true, .one_owner = false};
}

}  // namespace mortise::inline v1::detail
