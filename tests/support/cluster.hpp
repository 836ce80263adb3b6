// SPDX-License-Identifier: MIT
// A private Redis Cluster and a private Sentinel group of real processes, and what operators do to them.
#pragma once

#include "support/redis_server.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace support {

/// Three masters, and after them in the same order a replica of each, if there are to be any.
class ClusterNodes {
public:
  struct Options {
    bool replicas = true;
    /// cluster-node-timeout.
    std::int64_t node_timeout_ms = 2000;
    std::string password{};
  };

  ClusterNodes() : ClusterNodes(Options{}) {}
  explicit ClusterNodes(Options const& options);

  /// redis+cluster:// with the first three nodes.
  std::string uri() const;
  RedisServer& node(std::size_t index) { return nodes_.at(index); }
  std::size_t size() const { return nodes_.size(); }

  /// CLUSTER KEYSLOT.
  std::uint16_t slot(std::string const& key);
  /// Which node serves the slot now, by the first node that runs; the answer of others may differ for a while.
  std::size_t owner(std::uint16_t slot);
  RedisServer& owner_of(std::string const& key) { return node(owner(slot(key))); }
  /// A name with this prefix whose slot is served by a node at the start.
  std::string name_at(std::size_t node, std::string const& prefix = "lock");

  /// Marks the slot as leaving `from` for `to`.
  void begin_move(std::uint16_t slot, std::size_t from, std::size_t to);
  /// Carries the keys that are there now over.
  void move_keys(std::uint16_t slot, std::size_t from, std::size_t to);
  /// Makes `to` the owner, once no key is left behind.
  void end_move(std::uint16_t slot, std::size_t from, std::size_t to);
  void move_slot(std::uint16_t slot, std::size_t from, std::size_t to);

  /// CLUSTER FAILOVER at a replica, and waits until it is the master.
  void fail_over_to(std::size_t replica);
  /// All running nodes say that the cluster is well.
  bool settled();

private:
  void wait_settled();

  std::string password_;
  std::deque<RedisServer> nodes_{};
};

/// A primary, its replicas, and the Sentinels that look after them, with a service called "group".
class SentinelNodes {
public:
  struct Options {
    int replicas = 2;
    int sentinels = 3;
    std::int64_t down_after_ms = 1000;
    std::string password{};
    std::string sentinel_password{};
  };

  SentinelNodes() : SentinelNodes(Options{}) {}
  explicit SentinelNodes(Options const& options);

  /// redis+sentinel:// with all Sentinels.
  std::string uri() const;
  /// The first is the primary at the start.
  RedisServer& server(std::size_t index) { return servers_.at(index); }
  RedisServer& sentinel(std::size_t index) { return sentinels_.at(index); }
  /// The server that says ROLE master, by the first Sentinel that runs and knows.
  RedisServer& primary();
  bool is_primary(std::size_t index);
  /// SENTINEL FAILOVER at a Sentinel, and waits until another server is the primary for all of them.
  void fail_over();
  /// Another server than `old` is the primary, for all Sentinels that run.
  bool another_than(RedisServer const& old);

private:
  std::uint16_t named_by(RedisServer& sentinel);

  Options options_;
  std::deque<RedisServer> servers_{};
  std::deque<RedisServer> sentinels_{};
};

}  // namespace support
