// SPDX-License-Identifier: MIT
// The measurements: each runs for some seconds and gives tables.
#pragma once

#include <string>
#include <vector>

#include "floor.hpp"
#include "table.hpp"

namespace bench {

/// The private server of this run, by its two sockets, and whether only it is to be seen that everything works.
struct Setting {
  Endpoint tcp{};
  Endpoint local{};
  std::vector<Endpoint> nodes{};  ///< more servers, for quorums
  bool quick{false};
  std::string others{};  ///< the folder of the programs that drive other clients; empty: without them
};

/// An uncontended acquire and release, one thread.
std::vector<Table> pair(Setting const& setting);
/// From owner to owner on one contended lock: how long it takes, how many a second, how many commands, how fair.
std::vector<Table> handoff(Setting const& setting);
/// Readers, writers and permits: how long each side waits, and what it sends.
std::vector<Table> rooms(Setting const& setting);
/// Many held leases: what keeping them costs, and whether any is late.
std::vector<Table> renewal(Setting const& setting);
/// Pairs a second of many threads that share a Client.
std::vector<Table> threads_of_a_client(Setting const& setting);
/// Locks that several servers have to agree on.
std::vector<Table> quorum(Setting const& setting);
/// What people would use instead.
std::vector<Table> others(Setting const& setting);
/// Memory and threads for each client, held lease and waiter. Comes first: memory that was used before would hide it.
std::vector<Table> footprint(Setting const& setting);

}  // namespace bench
