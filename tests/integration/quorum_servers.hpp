// SPDX-License-Identifier: MIT
// Several private servers, and what the tests of quorums ask them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "lock_server.hpp"

using mortise::Event;
using mortise::Quorum;
using mortise::QuorumOptions;

/// Servers that have only just been started: with a quarantine, their votes would count only while nobody opposes.
struct QuorumServers : std::deque<LockServer> {
  explicit QuorumServers(std::size_t count, support::ServerOptions const& options = {}) {
    for (std::size_t i = 0; i < count; ++i) emplace_back(options);
  }

  std::vector<std::string> uris() const {
    std::vector<std::string> all;
    for (auto const& server : *this) all.push_back(server.uri());
    return all;
  }
  std::string endpoint(std::size_t node) const { return "127.0.0.1:" + std::to_string((*this)[node].port()); }

  /// By server: 'x' where the key is, '-' where it is not, '.' where nobody is asked.
  std::string holding(std::string const& name, std::string const& asleep = {}) {
    std::string all;
    for (std::size_t node = 0; node < size(); ++node)
      all += node < asleep.size() && asleep[node] == '.' ? '.' : (*this)[node].exists(name) ? 'x' : '-';
    return all;
  }
  /// Another client's lock at some of them.
  void occupy(std::initializer_list<std::size_t> nodes, std::string const& name) {
    for (auto const node : nodes) (*this)[node].command({"SET", name, "rival", "PX", "60000"});
  }
};

/// Without a quarantine: the servers are new, and so is everything.
inline QuorumOptions at_once(QuorumOptions options = {}) {
  options.quarantine = 1ms;
  return options;
}
