// SPDX-License-Identifier: MIT
// The fencing token: the number that lets a guarded resource refuse a holder whose lock is over.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <iosfwd>

namespace mortise::inline v1 {

/// A fencing token. Strictly rising from grant to grant of one lock name, always below 2^53, so that a Lua script,
/// an SQL BIGINT and a JSON number all carry it exactly. Gaps are normal: only the order means something.
/// Source: Kleppmann, "How to do distributed locking" (2016).
struct Fence {
  std::uint64_t value{};  ///< 0: none
  /// By value.
  friend auto operator<=>(Fence const&, Fence const&) = default;
  /// The number.
  template <class Char, class Traits>
  friend std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, Fence fence) {
    return out << fence.value;
  }
};

namespace detail {

/// 2^53: the first whole number that a Lua or JSON double cannot tell from its successor.
inline constexpr std::int64_t fence_limit = 9'007'199'254'740'992;

}  // namespace detail
}  // namespace mortise::inline v1

template <>
struct std::hash<mortise::Fence> {
  std::size_t operator()(mortise::Fence fence) const noexcept { return std::hash<std::uint64_t>{}(fence.value); }
};
