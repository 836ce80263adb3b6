// SPDX-License-Identifier: MIT
// The private cluster: formed by hand, because that takes a second.
#include "support/cluster.hpp"

#include "support/wait_until.hpp"

#include <algorithm>
#include <stdexcept>

namespace support {

namespace {

constexpr std::size_t masters = 3;
constexpr std::uint16_t slots = 16384;

Answer cluster_tell(RedisServer& node, RawClient::Words const& words) {
  auto answer = node.command(words);
  if (answer.is_error())
    throw std::runtime_error{words.at(0) + " " + (words.size() > 1 ? words[1] : "") + ": " + answer.text};
  return answer;
}

std::string field(std::string const& text, std::string const& name) {
  auto const at = text.find(name + ":");
  if (at == std::string::npos)
    return {};
  auto const begin = at + name.size() + 1;
  return text.substr(begin, text.find('\r', begin) - begin);
}

}  // namespace

ClusterNodes::ClusterNodes(Options const& options) : password_{options.password} {
  for (std::size_t i = 0; i < (options.replicas ? 2 * masters : masters); ++i) {
    ServerOptions one;
    one.password = options.password;
    one.config = {"cluster-enabled yes", "cluster-node-timeout " + std::to_string(options.node_timeout_ms),
                  "cluster-replica-validity-factor 0", "repl-ping-replica-period 1"};
    if (!options.password.empty())
      one.config.push_back("masterauth " + options.password);
    nodes_.emplace_back(one);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    cluster_tell(nodes_[i], {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  for (std::size_t i = 0; i < masters; ++i)
    cluster_tell(nodes_[i], {"CLUSTER", "ADDSLOTSRANGE", std::to_string(slots * i / masters), std::to_string(slots * (i + 1) / masters - 1)});
  for (auto& from : nodes_)
    for (auto const& to : nodes_)
      if (&from != &to)
        cluster_tell(from, {"CLUSTER", "MEET", "127.0.0.1", std::to_string(to.port())});
  wait_settled();
  for (std::size_t i = masters; i < nodes_.size(); ++i)
    cluster_tell(nodes_[i], {"CLUSTER", "REPLICATE", cluster_tell(nodes_[i - masters], {"CLUSTER", "MYID"}).text});
  for (std::size_t i = masters; i < nodes_.size(); ++i)
    if (!wait_until([&] { return nodes_[i].info("replication")["master_link_status"] == "up"; }))
      throw std::runtime_error{"a replica does not synchronise:\n" + nodes_[i].log()};
  // A master ignores the failover that a replica asks for before it has heard that it is one.
  if (options.replicas && !wait_until([&] {
        return std::all_of(nodes_.begin(), nodes_.end(), [](auto& node) {
          auto const ranges = cluster_tell(node, {"CLUSTER", "SLOTS"}).items;
          return std::all_of(ranges.begin(), ranges.end(), [](auto const& range) { return range.items.size() > 3; });
        });
      }))
    throw std::runtime_error{"not everybody knows the replicas"};
  wait_settled();
}

void ClusterNodes::wait_settled() {
  if (!wait_until([this] { return settled(); }))
    throw std::runtime_error{"the cluster does not form:\n" + nodes_[0].command({"CLUSTER", "NODES"}).text};
}

bool ClusterNodes::settled() {
  auto const running = static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](auto const& node) { return node.running(); }));
  return std::all_of(nodes_.begin(), nodes_.end(), [&](auto& node) {
    if (!node.running())
      return true;
    auto const info = node.command({"CLUSTER", "INFO"}).text;
    auto const list = node.command({"CLUSTER", "NODES"}).text;
    auto const known = static_cast<std::size_t>(std::count(list.begin(), list.end(), '\n'));
    return field(info, "cluster_state") == "ok" && known >= running && list.find("handshake") == std::string::npos;
  });
}

std::string ClusterNodes::uri() const {
  std::string uri{"redis+cluster://"};
  if (!password_.empty())
    uri += ":" + percent_encoded(password_) + "@";
  for (std::size_t i = 0; i < masters; ++i)
    uri += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(nodes_[i].port());
  return uri;
}

std::uint16_t ClusterNodes::slot(std::string const& key) {
  auto const running = std::find_if(nodes_.begin(), nodes_.end(), [](auto const& node) { return node.running(); });
  return static_cast<std::uint16_t>(cluster_tell(*running, {"CLUSTER", "KEYSLOT", key}).integer);
}

std::size_t ClusterNodes::owner(std::uint16_t slot) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].running())
      continue;
    for (auto const& range : cluster_tell(nodes_[i], {"CLUSTER", "SLOTS"}).items) {
      if (slot < range.items.at(0).integer || slot > range.items.at(1).integer)
        continue;
      for (std::size_t other = 0; other < nodes_.size(); ++other)
        if (nodes_[other].port() == range.items.at(2).items.at(1).integer)
          return other;
    }
  }
  throw std::runtime_error{"nobody serves the slot " + std::to_string(slot)};
}

std::string ClusterNodes::name_at(std::size_t node, std::string const& prefix) {
  for (int i = 0;; ++i)
    if (auto name = prefix + std::to_string(i); owner(slot(name)) == node)
      return name;
}

void ClusterNodes::begin_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  auto const number = std::to_string(slot);
  cluster_tell(node(to), {"CLUSTER", "SETSLOT", number, "IMPORTING", cluster_tell(node(from), {"CLUSTER", "MYID"}).text});
  cluster_tell(node(from), {"CLUSTER", "SETSLOT", number, "MIGRATING", cluster_tell(node(to), {"CLUSTER", "MYID"}).text});
}

void ClusterNodes::move_keys(std::uint16_t slot, std::size_t from, std::size_t to) {
  for (;;) {
    RawClient::Words words{"MIGRATE", "127.0.0.1", std::to_string(node(to).port()), "", "0", "5000", "REPLACE"};
    if (!password_.empty())
      words.insert(words.end(), {"AUTH", password_});
    words.emplace_back("KEYS");
    auto const keys = cluster_tell(node(from), {"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "100"}).items;
    if (keys.empty())
      return;
    for (auto const& key : keys)
      words.push_back(key.text);
    cluster_tell(node(from), words);
  }
}

void ClusterNodes::end_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  auto const id = cluster_tell(node(to), {"CLUSTER", "MYID"}).text;
  cluster_tell(node(to), {"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id});
  // Refused as long as keys are left: somebody may have made one since.
  if (!wait_until([&] {
        move_keys(slot, from, to);
        return !node(from).command({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id}).is_error();
      }))
    throw std::runtime_error{"the slot does not move"};
}

void ClusterNodes::move_slot(std::uint16_t slot, std::size_t from, std::size_t to) {
  begin_move(slot, from, to);
  move_keys(slot, from, to);
  end_move(slot, from, to);
}

void ClusterNodes::fail_over_to(std::size_t replica) {
  auto const asked = [&] {
    node(replica).command({"CLUSTER", "FAILOVER"});
    return wait_until([&] { return node(replica).info("replication")["role"] == "master"; }, std::chrono::milliseconds{5500});
  };
  if (!asked() && !asked() && !asked())  // it gives up by itself where nodes are slow
    throw std::runtime_error{"no failover:\n" + node(replica).log()};
}

SentinelNodes::SentinelNodes(Options const& options) : options_{options} {
  for (int i = 0; i <= options.replicas; ++i) {
    ServerOptions one;
    one.password = options.password;
    one.config = {"repl-ping-replica-period 1"};
    if (!options.password.empty())
      one.config.push_back("masterauth " + options.password);
    servers_.emplace_back(one);
    if (i > 0)
      servers_.back().replica_of(servers_.front());
  }
  for (int i = 0; i < options.sentinels; ++i) {
    ServerOptions one;
    one.password = options.sentinel_password;
    one.arguments = {"--sentinel"};
    one.config = {"sentinel monitor group 127.0.0.1 " + std::to_string(servers_.front().port()) + " " + std::to_string(options.sentinels / 2 + 1),
                  "sentinel down-after-milliseconds group " + std::to_string(options.down_after_ms),
                  "sentinel failover-timeout group 4000", "sentinel parallel-syncs group 2"};
    if (!options.password.empty())
      one.config.push_back("sentinel auth-pass group " + options.password);
    if (!options.sentinel_password.empty())
      one.config.push_back("sentinel sentinel-pass " + options.sentinel_password);
    sentinels_.emplace_back(one);
  }
  auto const count = [](RedisServer& sentinel, std::string const& what) { return sentinel.command({"SENTINEL", what, "group"}).items.size(); };
  for (auto& sentinel : sentinels_)
    if (!wait_until([&] {
          return count(sentinel, "REPLICAS") == static_cast<std::size_t>(options.replicas) &&
                 count(sentinel, "SENTINELS") + 1 == static_cast<std::size_t>(options.sentinels);
        }))
      throw std::runtime_error{"the Sentinels do not find each other:\n" + sentinel.log()};
}

std::string SentinelNodes::uri() const {
  std::string uri{"redis+sentinel://"};
  if (!options_.password.empty())
    uri += ":" + percent_encoded(options_.password) + "@";
  for (std::size_t i = 0; i < sentinels_.size(); ++i)
    uri += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(sentinels_[i].port());
  uri += "/group";
  if (!options_.sentinel_password.empty())
    uri += "?sentinel_password=" + percent_encoded(options_.sentinel_password);
  return uri;
}

std::uint16_t SentinelNodes::named_by(RedisServer& sentinel) {
  auto const answer = cluster_tell(sentinel, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group"});
  return answer.items.size() < 2 ? std::uint16_t{0} : static_cast<std::uint16_t>(std::stoi(answer.items[1].text));
}

bool SentinelNodes::is_primary(std::size_t index) {
  return server(index).running() && cluster_tell(server(index), {"ROLE"}).items.at(0).text == "master";
}

RedisServer& SentinelNodes::primary() {
  for (auto& sentinel : sentinels_) {
    if (!sentinel.running())
      continue;
    auto const port = named_by(sentinel);
    for (std::size_t i = 0; i < servers_.size(); ++i)
      if (server(i).port() == port && is_primary(i))
        return server(i);
  }
  throw std::runtime_error{"there is no primary"};
}

bool SentinelNodes::another_than(RedisServer const& old) {
  return std::all_of(sentinels_.begin(), sentinels_.end(), [&](auto& sentinel) { return !sentinel.running() || named_by(sentinel) != old.port(); });
}

void SentinelNodes::fail_over() {
  auto& old = primary();
  // Refused until a Sentinel has a replica that it holds for good, and while the last failover is settling.
  if (!wait_until([&] { return sentinels_.front().command({"SENTINEL", "FAILOVER", "group"}).is_ok(); }) ||
      !wait_until([&] { return another_than(old); }))
    throw std::runtime_error{"no failover:\n" + sentinels_.front().log()};
}

}  // namespace support
