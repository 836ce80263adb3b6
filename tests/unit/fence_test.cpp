// SPDX-License-Identifier: MIT
// The fence: totally ordered, hashable, one number wide.
#include <cstdint>
#include <sstream>
#include <type_traits>
#include <unordered_set>

#include <mortise/fence.hpp>

#include "support/catch.hpp"

using mortise::Fence;

TEST_CASE("fences are ordered as their numbers are") {
  CHECK(Fence{1} < Fence{2});
  CHECK(Fence{2} > Fence{1});
  CHECK(Fence{2} == Fence{2});
  CHECK(Fence{2} != Fence{3});
  CHECK(Fence{2} <= Fence{2});
  CHECK(Fence{(std::uint64_t{1} << 53) - 1} > Fence{(std::uint64_t{1} << 53) - 2});
  CHECK(Fence{~std::uint64_t{0}} > Fence{std::uint64_t{1} << 63});
  CHECK((Fence{1} <=> Fence{2}) == std::strong_ordering::less);
}

TEST_CASE("a fence of nothing is zero, below every one that is granted") {
  CHECK(Fence{}.value == 0);
  CHECK(Fence{} < Fence{1});
}

TEST_CASE("a fence is no number by accident") {
  CHECK_FALSE(std::is_convertible_v<std::uint64_t, Fence>);
  CHECK_FALSE(std::is_convertible_v<Fence, std::uint64_t>);
  CHECK(std::is_trivially_copyable_v<Fence>);
  CHECK(sizeof(Fence) == sizeof(std::uint64_t));
}

TEST_CASE("a fence is written as its number") {
  std::ostringstream out;
  out << mortise::Fence{1'796'143'414'537'604} << ' ' << mortise::Fence{};
  CHECK(out.str() == "1796143414537604 0");
}

TEST_CASE("fences are keys of unordered containers") {
  std::unordered_set<Fence> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(Fence{i % 100});
  CHECK(seen.size() == 100);
  CHECK(seen.contains(Fence{99}));
  CHECK_FALSE(seen.contains(Fence{100}));
  CHECK(std::hash<Fence>{}(Fence{7}) == std::hash<Fence>{}(Fence{7}));
}
