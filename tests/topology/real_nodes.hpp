// SPDX-License-Identifier: MIT
// What the tests with real clusters and Sentinel groups share.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "fake_node.hpp"
#include "support/cluster.hpp"
#include "support/waiting.hpp"

namespace topology {

using support::ClusterNodes;
using support::SentinelNodes;
using support::Waiting;

/// Counts what an observer is told.
class Told {
 public:
  ClientOptions options(ClientOptions from = {}) {
    from.observer = [this](Event const& event) {
      std::lock_guard const guard{mutex_};
      events_.push_back(event);
    };
    return from;
  }
  std::int64_t count(Event::Kind kind) const {
    std::lock_guard const guard{mutex_};
    std::int64_t found = 0;
    for (auto const& event : events_) found += event.kind == kind ? 1 : 0;
    return found;
  }
  std::vector<Event> of(Event::Kind kind) const {
    std::lock_guard const guard{mutex_};
    std::vector<Event> found;
    for (auto const& event : events_)
      if (event.kind == kind) found.push_back(event);
    return found;
  }

 private:
  mutable std::mutex mutex_{};
  std::vector<Event> events_{};
};

/// Long enough for a failover on a busy machine.
inline ClientOptions patient() { return {.command_timeout = 30s, .connect_timeout = 2s, .retry_for = 60s}; }

}  // namespace topology
