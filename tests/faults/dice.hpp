// SPDX-License-Identifier: MIT
// Random choices of a fault test that can be made again: the seed is told, and taken from the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace faults {

/// The environment variable MORTISE_FAULTS_SEED, or a new one. A test that draws says `CAPTURE(seed)`.
inline std::uint64_t fresh_seed() {
  if (auto const* const set = std::getenv("MORTISE_FAULTS_SEED"); set != nullptr && *set != '\0') return std::strtoull(set, nullptr, 10);
  return std::random_device{}();
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_{seed} {}

  /// From 0 to `most`.
  std::int64_t up_to(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>{0, most}(engine_); }
  /// True in so many of a hundred cases.
  bool in_hundred(int cases) { return up_to(99) < cases; }
  std::chrono::microseconds time_up_to(std::chrono::microseconds most) { return std::chrono::microseconds{up_to(most.count())}; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace faults
