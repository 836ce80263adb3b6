// SPDX-License-Identifier: MIT
#include "seen_without_tls.hpp"

#include <mortise/mortise.hpp>

std::size_t client_size() {
  return sizeof(mortise::Client);
}

std::size_t options_size() {
  return sizeof(mortise::ClientOptions);
}

bool makes_client(mortise::ClientOptions const& options) {
  try {
    mortise::Client const client{"rediss://localhost", options};
    return true;
  } catch (mortise::Error const&) {
    return false;
  }
}
