// SPDX-License-Identifier: MIT
// What the proxy is told to do and what it has counted: shared by its loop and its connections, under one mutex.
#pragma once

#include "support/proxy.hpp"

#include <array>

namespace support {

inline std::size_t index_of(Direction direction) {
  return direction == Direction::request ? 0 : 1;
}

/// A rule for the next so many messages that match.
struct ProxyTrap {
  std::int64_t left = 0;
  Proxy::Predicate matches{};
  std::string bytes{};
  Cut how = Cut::fin;

  /// True, and counted, if this message is meant.
  bool catches(std::string const& request, std::string const& reply) {
    if (left <= 0 || !matches(request, reply))
      return false;
    left -= left == Proxy::always ? 0 : 1;
    return true;
  }
};

struct ProxyRules {
  struct Lane {
    Milliseconds delay{0};
    Milliseconds trickle{0};
    bool held = false;
    std::int64_t bytes = 0;
    std::int64_t messages = 0;
    std::vector<std::string> record{};
  };

  std::array<Lane, 2> lanes{};
  bool black_hole = false;
  bool recording = false;
  ProxyTrap swallow{};
  ProxyTrap cut{};
  ProxyTrap replace{};
  Proxy::Rewrite rewrite{};
};

}  // namespace support
