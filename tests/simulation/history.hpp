// SPDX-License-Identifier: MIT
// One history: processes that use the library against simulated servers while everything goes wrong that the seed says, and
// the promises that have to hold all the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store.hpp"

namespace simulation {

struct Outcome {
  std::string wrong{};  ///< empty: every promise was kept
  std::uint64_t fingerprint{0};
  std::uint64_t events{0};
  std::uint64_t grants{0};
  std::uint64_t losses{0};  ///< of leases
  std::uint64_t errors{0};
  std::uint64_t faults{0};
  std::vector<std::string> trace{};
};

/// The same for the same seed. `traced`: with a line for everything of note.
Outcome run_history(std::uint64_t seed, Break broken = Break::none, bool traced = false);

}  // namespace simulation
