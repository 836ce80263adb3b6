// SPDX-License-Identifier: MIT
// The keys of one lock: the user's name, and its siblings in the same cluster slot that no other lock can have; and as what
// the name is held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <mortise/detail/crc16.hpp>
#include <mortise/detail/primitive.hpp>
#include <mortise/detail/printable.hpp>
#include <mortise/options.hpp>

namespace mortise::inline v1::detail {

inline constexpr std::size_t longest_name = 512;

/// What the keys beside a lock or a guarded key end with. No user's name may: it could be another lock's sibling.
inline constexpr std::array<std::string_view, 7> reserved_suffixes{":~fence", ":~wake",  ":~wait", ":~guard",
                                                                   ":~queue", ":~alive", ":~turn"};

/// Redis's rule: the tag is what lies between the first '{' and the first '}' behind it, if that is not empty.
/// Source: Redis Cluster specification, "Hash tags".
constexpr bool has_hash_tag(std::string_view key) noexcept {
  auto const open = key.find('{');
  if (open == std::string_view::npos) return false;
  auto const close = key.find('}', open + 1);
  return close != std::string_view::npos && close != open + 1;
}

inline constexpr std::uint16_t slot_count = 16384;

/// The cluster slot of a key: its tag alone counts, if it has one. Source: Redis Cluster specification, "Key distribution model".
constexpr std::uint16_t key_slot(std::string_view key) noexcept {
  if (has_hash_tag(key)) {
    key.remove_prefix(key.find('{') + 1);
    key = key.substr(0, key.find('}'));
  }
  return crc16(key) % slot_count;
}

/// Whether a key's siblings lie in its cluster slot. A key without a tag is wrapped to become one, and the wrapping would
/// end at the key's own '}': such keys are for deployments that are no cluster.
constexpr bool siblings_share_slot(std::string_view key) noexcept {
  return has_hash_tag(key) || key.find('}') == std::string_view::npos;
}

/// The key beside `key` for a purpose. One colon more behind a key that has a tag of its own: with one suffix for both,
/// `x` (wrapped: `{x}`) and `{x}` would share their siblings.
inline std::string sibling(std::string_view key, std::string_view suffix) {
  std::string result;
  result.reserve(key.size() + suffix.size() + 2);
  if (has_hash_tag(key)) return result.append(key).append(1, ':').append(suffix);
  return result.append(1, '{').append(key).append(1, '}').append(suffix);
}

/// Refuses, for a cluster, a key whose siblings would lie in another slot. `what` says what it is that has the name.
inline void check_same_slot(std::string_view key, std::string const& what) {
  if (!siblings_share_slot(key))
    invalid(what + ' ' + printable(key) + " has a '}' but no {tag}: in a cluster the keys beside it would lie in other slots; leave the '}' out or give it a {tag}");
}

/// Refuses what no lock or guarded key may be called. `what` says what it is that has the name.
inline void check_unreserved(std::string_view name, std::string const& what) {
  if (name.empty()) invalid(what + " is empty: at least one byte");
  for (auto const suffix : reserved_suffixes)
    if (name.ends_with(suffix))
      invalid(what + ' ' + printable(name) + " ends in " + std::string{suffix} + ": reserved for the keys beside a lock");
}

/// The keys of a lock, made from its name: any bytes, 1 to 512 of them. docs/protocol.md says what each holds.
/// Throws Errc::invalid_option.
struct LockKeys {
  explicit LockKeys(std::string_view name, Hold as = Hold::mutex, int so_many = 0)
      : lock{checked_name(name)},
        fence{sibling(name, ":~fence")},
        wake{in_room(as) ? std::string{} : sibling(name, ":~wake")},
        wait{in_room(as) ? std::string{} : sibling(name, ":~wait")},
        queue{in_room(as) ? sibling(name, ":~queue") : std::string{}},
        alive{in_room(as) ? sibling(name, ":~alive") : std::string{}},
        same_slot{siblings_share_slot(name)},
        hold{as},
        permits{so_many},
        slot{key_slot(name)} {}

  std::string lock;   ///< exactly the user's name
  std::string fence;  ///< the last fence
  std::string wake;   ///< of a mutex: the list a waiter blocks on
  std::string wait;   ///< of a mutex: exists while somebody waits
  std::string queue;  ///< of a room: who waits, in the order of arrival
  std::string alive;  ///< of a room: until when each of them counts as waiting
  bool same_slot;     ///< false: a cluster cannot have this lock, any other deployment can
  Hold hold;          ///< as what the name is held
  int permits;        ///< how many hold it at once, if as a permit
  std::uint16_t slot; ///< of all keys in a cluster, where same_slot

  /// The list that a waiter with this token blocks on. In a room each has its own, which makes the order exact.
  std::string turn(std::string_view token) const {
    if (!in_room(hold)) return wake;
    constexpr std::string_view end = "~queue";
    return queue.substr(0, queue.size() - end.size()).append(token).append(":~turn");
  }

 private:
  static std::string_view checked_name(std::string_view name) {
    check_unreserved(name, "lock name");
    if (name.size() > longest_name)
      invalid("lock name " + printable(name) + " is too long: at most " + std::to_string(longest_name) + " bytes");
    return name;
  }
};

/// Where fenced_set keeps the newest fence of a guarded key; in a cluster only where siblings_share_slot(key).
/// Throws Errc::invalid_option for an empty key and for one that is a sibling itself.
inline std::string guard_key(std::string_view key) {
  check_unreserved(key, "key");
  return sibling(key, ":~guard");
}

}  // namespace mortise::inline v1::detail
