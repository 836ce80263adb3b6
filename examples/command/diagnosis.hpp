// SPDX-License-Identifier: MIT
// What is wrong with a server for locks: from facts to findings, without I/O.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace command {

enum class Severity : std::uint8_t { fine, warning, error };

/// One thing that was looked at: what is so and what may come of it, and what to set.
struct Finding {
  Severity severity{};
  std::string about{};
  std::string says{};
  std::string advice{};
};

/// Something that was tried for real, and why it failed (nothing: it did not).
struct Trial {
  std::string what{};
  bool needed{true};  ///< false: only an option needs it
  std::string failure{};
  bool denied{false};  ///< for want of a right
};

/// What was seen of one server.
struct Facts {
  enum class Transport : std::uint8_t { tls, unverified_tls, plain_here, plain_elsewhere };  ///< plainly to this host, or over a network

  Transport transport{Transport::plain_here};
  bool through_cluster{false};                         ///< the URI is one of a cluster
  std::map<std::string, std::string> info{};           ///< INFO
  std::string info_refusal{};
  std::map<std::string, std::string> config{};         ///< CONFIG GET of what counts here
  std::string config_refusal{};
  std::map<std::string, std::string> cluster{};        ///< CLUSTER INFO
  std::optional<std::int64_t> clock_ahead_ms{};        ///< the server's clock minus this one
  std::vector<Trial> trials{};

  /// A field of INFO, or else of CONFIG.
  std::optional<std::string> field(std::string const& name) const {
    for (auto const* const source : {&info, &config})
      if (auto const found = source->find(name); found != source->end()) return found->second;
    return std::nullopt;
  }
  std::optional<std::int64_t> number(std::string const& name) const {
    auto const text = field(name);
    std::int64_t value = 0;
    if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc{}) return std::nullopt;
    return value;
  }
};

/// The lines `name:value` of INFO and CLUSTER INFO.
inline std::map<std::string, std::string> fields_of(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    auto const line = text.substr(0, std::min(text.find_first_of("\r\n"), text.size()));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (auto const colon = line.find(':'); colon != std::string_view::npos && !line.starts_with('#'))
      fields[std::string{line.substr(0, colon)}] = line.substr(colon + 1);
  }
  return fields;
}

/// "redis 7.0.15", or nothing.
inline std::string product(Facts const& facts) {
  if (auto const valkey = facts.field("valkey_version")) return "valkey " + *valkey;
  auto const redis = facts.field("redis_version");
  return redis ? "redis " + *redis : std::string{};
}

namespace diagnosing {

using Findings = std::vector<Finding>;

inline void trials(Facts const& facts, Findings& findings) {
  bool failed = false;
  for (auto const& trial : facts.trials) {
    if (trial.failure.empty()) continue;
    failed = failed || trial.needed;
    findings.push_back({trial.needed ? Severity::error : Severity::warning, trial.denied ? "rights" : "locks",
                        "cannot " + trial.what + ": " + trial.failure,
                        !trial.needed ? "only those need it who use this option"
                                      : trial.denied ? "docs/deployment.md lists all rights that locks need; --prefix says how the names of yours begin" : ""});
  }
  if (!failed && !facts.trials.empty())
    findings.push_back({Severity::fine, "locks", "a scratch lock was taken, waited for, handed over, renewed and released", {}});
}

inline void version(Facts const& facts, Findings& findings) {
  auto const name = product(facts);
  if (name.empty()) return;
  bool const valkey = name.starts_with("valkey");
  auto const numbers = std::string_view{name}.substr(name.find(' ') + 1);
  int major = 0;
  int minor = 0;
  auto const parsed = std::from_chars(numbers.data(), numbers.data() + numbers.size(), major);
  if (parsed.ptr < numbers.data() + numbers.size()) std::from_chars(parsed.ptr + 1, numbers.data() + numbers.size(), minor);
  auto const at_least = [&](int wanted_major, int wanted_minor) {
    return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
  };
  if (!valkey && !at_least(6, 0))
    findings.push_back({Severity::error, "version", name + ": scripts that ask for the time may not write here, so no lock is granted", "install Redis 6.2 to 8, or Valkey 7.2 to 9"});
  else if ((!valkey && (!at_least(6, 2) || major > 8)) || (valkey && (!at_least(7, 2) || major > 9)))
    findings.push_back({Severity::warning, "version", name + " is not among the versions that are tested", "use Redis 6.2 to 8, or Valkey 7.2 to 9"});
  else
    findings.push_back({Severity::fine, "version", name, {}});
}

inline void eviction(Facts const& facts, Findings& findings) {
  auto const policy = facts.field("maxmemory_policy");
  auto const limit = facts.number("maxmemory");
  if (!policy) return;
  auto const used = facts.number("used_memory");
  if (*policy != "noeviction" && limit && *limit > 0) {
    findings.push_back({Severity::error, "eviction",
                        "maxmemory-policy is " + *policy + ": when memory is full, locks that are held are thrown away, and two hold at once; fence "
                        "counters too",
                        "maxmemory-policy noeviction, and a server of its own for what may be evicted"});
  } else if (*policy != "noeviction") {
    findings.push_back({Severity::warning, "eviction", "maxmemory-policy is " + *policy + ": as soon as maxmemory is set, locks that are held may be thrown away",
                        "maxmemory-policy noeviction"});
  } else if (limit && used && *limit > 0 && *used / 9 >= *limit / 10) {
    findings.push_back({Severity::warning, "eviction", "nine tenths of maxmemory are in use: a full server grants no new lock (OOM)", "raise maxmemory, or free some"});
  } else {
    findings.push_back({Severity::fine, "eviction", "nothing is evicted (maxmemory-policy noeviction)", {}});
  }
}

inline void persistence(Facts const& facts, Findings& findings) {
  constexpr auto* loss = "; whoever held a lock then may find a second holder. Fences go on rising, from the clock";
  constexpr auto* advice = "appendonly yes, appendfsync always (or everysec: up to a second is lost)";
  auto const appending = facts.field("aof_enabled");
  for (auto const* const status : {"rdb_last_bgsave_status", "aof_last_write_status"})
    if (auto const last = facts.field(status); last && *last != "ok")
      findings.push_back({Severity::error, "persistence", std::string{status} + " is " + *last + ": the server may refuse all writes, releases too (MISCONF)",
                          "mend its disk or its folder; see the server's log"});
  if (!appending) return;
  auto const save = facts.field("save");
  auto const fsync = facts.field("appendfsync");
  if (*appending != "1") {
    findings.push_back({Severity::warning, "persistence",
                        (save && save->empty() ? std::string{"nothing is written to disk: a restart loses all locks and fence counters"}
                                               : std::string{"no append-only file: a restart loses the locks and fence counters since the last snapshot"}) + loss,
                        advice});
  } else if (fsync && *fsync == "no") {
    findings.push_back({Severity::warning, "persistence", std::string{"appendfsync is no: a crash of the machine loses the last half minute or so"} + loss, advice});
  } else {
    findings.push_back({Severity::fine, "persistence", "append-only file, appendfsync " + fsync.value_or("unknown"), {}});
  }
}

inline void replication(Facts const& facts, Findings& findings) {
  auto const role = facts.field("role");
  if (!role) return;
  if (*role != "master") {
    findings.push_back({Severity::error, "replication", "this server is a replica: it refuses every lock (READONLY)", "connect to its primary"});
    return;
  }
  auto const replicas = facts.number("connected_slaves").value_or(0);
  auto const wanted = facts.number("min-replicas-to-write").value_or(0);
  auto const good = facts.number("min_slaves_good_slaves").value_or(replicas);
  if (wanted > good) {
    findings.push_back({Severity::error, "replication", "min-replicas-to-write is " + std::to_string(wanted) + ", and " + std::to_string(good) +
                        " are in reach: every lock and every release is refused (NOREPLICAS)", "bring the replicas back, or lower min-replicas-to-write"});
  } else if (replicas > 0 && wanted == 0) {
    findings.push_back({Severity::warning, "replication", std::to_string(replicas) + " replicas, and none has to keep up: a failover may lose locks that are held, and two hold at once",
                        "min-replicas-to-write 1, ClientOptions::replicas = 1, and check the fence at the resource"});
  } else {
    findings.push_back({Severity::fine, "replication", replicas == 0 ? "a primary without replicas" : std::to_string(replicas) + " replicas, " + std::to_string(wanted) + " of them must keep up", {}});
  }
}

inline void clock(Facts const& facts, Findings& findings) {
  if (!facts.clock_ahead_ms) return;
  auto const apart = std::abs(*facts.clock_ahead_ms);
  auto const says = "the server's clock and this one are " + std::to_string(apart) + " ms apart";
  // Scripts let a client's clock count for a minute on either side of the server's.
  if (apart > 60'000)
    findings.push_back({Severity::warning, "clock", says + ": locks do not care, but should the server lose a fence counter, fences may fall behind those this machine has seen",
                        "set both clocks by NTP"});
  else
    findings.push_back({Severity::fine, "clock", says, {}});
}

inline void connections(Facts const& facts, Findings& findings) {
  switch (facts.transport) {
    case Facts::Transport::tls: findings.push_back({Severity::fine, "tls", "encrypted, and the server's certificate is verified", {}}); break;
    case Facts::Transport::plain_here: findings.push_back({Severity::fine, "tls", "not encrypted, and does not leave this machine", {}}); break;
    case Facts::Transport::unverified_tls:
      findings.push_back({Severity::warning, "tls", "the server's certificate is not verified: anybody in between can read and change everything", "TlsOptions::verify = true, with the right ca_file"});
      break;
    case Facts::Transport::plain_elsewhere:
      findings.push_back({Severity::warning, "tls", "not encrypted: passwords and owner tokens can be read and used by whoever sees the network", "rediss:// with <mortise/tls.hpp>, or a tunnel"});
      break;
  }
  if (auto const timeout = facts.number("timeout"); timeout && *timeout > 0 && *timeout < 60)
    findings.push_back({Severity::warning, "timeout", "timeout is " + std::to_string(*timeout) + " s: connections that idle between two locks are made anew each time", "timeout 0"});
  if (auto const keepalive = facts.number("tcp-keepalive"); keepalive && (*keepalive == 0 || *keepalive > 600))
    findings.push_back({Severity::warning, "timeout", "tcp-keepalive is " + std::to_string(*keepalive) + " s: a waiter whose machine has gone stays first in line for long", "tcp-keepalive 60"});

  auto const clients = facts.number("connected_clients");
  auto const most = facts.number("maxclients");
  if (!clients || !most || *most <= 0) return;
  auto const says = std::to_string(*clients) + " of " + std::to_string(*most) + " connections are in use";
  if (*clients * 20 >= *most * 19)
    findings.push_back({Severity::error, "maxclients", says + ": new ones are refused, and with them locks and renewals", "raise maxclients"});
  else if (*clients * 5 >= *most * 4)
    findings.push_back({Severity::warning, "maxclients", says + ": a waiter takes one for each name it waits for", "raise maxclients"});
  else
    findings.push_back({Severity::fine, "maxclients", says, {}});
}

inline void cluster(Facts const& facts, Findings& findings) {
  bool const clustered = facts.field("cluster_enabled") == "1";
  if (clustered && !facts.through_cluster)
    findings.push_back({Severity::error, "cluster", "this server is part of a cluster: locks of other slots are refused (MOVED)", "connect with redis+cluster://"});
  auto const value = [&](char const* name) {
    auto const found = facts.cluster.find(name);
    return found == facts.cluster.end() ? std::string{} : found->second;
  };
  if (facts.cluster.empty()) return;
  bool bad = false;
  if (value("cluster_slots_assigned") != "16384") {
    bad = true;
    findings.push_back({Severity::error, "cluster", value("cluster_slots_assigned") + " of 16384 slots are assigned: locks of the others are refused (CLUSTERDOWN)",
                        "redis-cli --cluster fix"});
  }
  if (auto const failing = value("cluster_slots_fail"); !failing.empty() && failing != "0") {
    bad = true;
    findings.push_back({Severity::error, "cluster", failing + " slots belong to nodes that fail: their locks cannot be taken, renewed or released", "bring the nodes or their replicas back"});
  }
  if (value("cluster_state") != "ok" && !bad)
    findings.push_back({Severity::error, "cluster", "cluster_state is " + value("cluster_state") + ": every lock is refused (CLUSTERDOWN)", "redis-cli --cluster check"});
  else if (!bad)
    findings.push_back({Severity::fine, "cluster", "all slots are served by " + value("cluster_size") + " nodes", {}});
}

}  // namespace diagnosing

/// All that there is to say, the worst first.
inline std::vector<Finding> diagnose(Facts const& facts) {
  std::vector<Finding> findings;
  diagnosing::trials(facts, findings);
  if (!facts.info_refusal.empty())
    findings.push_back({Severity::warning, "info", "INFO is refused, so version, eviction, persistence and replicas were not looked at: " + facts.info_refusal,
                        "look with a user who may, or allow +info"});
  if (!facts.config_refusal.empty())
    findings.push_back({Severity::warning, "config", "CONFIG GET is refused, so appendfsync, save, min-replicas-to-write, timeout and tcp-keepalive were not looked at: " + facts.config_refusal,
                        "look with a user who may, or allow +config|get"});
  if (facts.field("loading") == "1")
    findings.push_back({Severity::error, "state", "the server is reading its data (LOADING)", "wait until it is done"});
  for (auto* const look : {&diagnosing::version, &diagnosing::eviction, &diagnosing::persistence, &diagnosing::replication, &diagnosing::clock,
                           &diagnosing::connections, &diagnosing::cluster})
    look(facts, findings);
  std::stable_sort(findings.begin(), findings.end(), [](Finding const& one, Finding const& other) { return one.severity > other.severity; });
  return findings;
}

inline Severity worst(std::vector<Finding> const& findings) {
  auto worst = Severity::fine;
  for (auto const& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

}  // namespace command
