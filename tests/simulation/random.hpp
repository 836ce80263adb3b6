// SPDX-License-Identifier: MIT
// The one source of chance in a simulated history.
#pragma once

#include <cstdint>

namespace simulation {

/// splitmix64: from a seed, the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_{seed} {}

  std::uint64_t next() noexcept {
    auto mixed = state_ += 0x9E3779B97F4A7C15;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
  }
  /// From 0 to n - 1.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  std::int64_t between(std::int64_t least, std::int64_t most) noexcept {
    return least + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  bool chance(unsigned per_thousand) noexcept { return below(1000) < per_thousand; }

 private:
  std::uint64_t state_;
};

}  // namespace simulation
