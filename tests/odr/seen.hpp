// SPDX-License-Identifier: MIT
// What one file of the program sees of the library.
#pragma once

#include "all_headers.hpp"

#include <mortise/mortise.hpp>

#include <cstddef>
#include <typeinfo>

struct Seen {
  int version;
  std::size_t client_size, lock_size, lease_size, options_size;
  std::type_info const* lock_type;

  bool operator==(Seen const&) const = default;
};

// Internal linkage, so that each file compiles its own and the linker cannot fold them into one.
static Seen seen_here() {
  return {
      .version = MORTISE_VERSION_MAJOR * 10'000 + MORTISE_VERSION_MINOR * 100 + MORTISE_VERSION_PATCH,
      .client_size = sizeof(mortise::Client),
      .lock_size = sizeof(mortise::Lock<mortise::Client>),
      .lease_size = sizeof(mortise::Lease),
      .options_size = sizeof(mortise::ClientOptions),
      .lock_type = &typeid(mortise::Lock<mortise::Client>),
  };
}
