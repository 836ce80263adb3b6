// SPDX-License-Identifier: MIT
// The doctor's findings: from what was seen of a server, without one.
#include <algorithm>
#include <optional>
#include <string>

#include "../../examples/command/diagnosis.hpp"
#include "support/catch.hpp"

using command::diagnose;
using command::Facts;
using command::Finding;
using command::Severity;
using support::contains;

namespace {

/// A server on which there is nothing to find.
Facts healthy() {
  Facts facts;
  facts.info = command::fields_of(
      "# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:3\r\nmaxclients:10000\r\n# Memory\r\nused_memory:1000000\r\n"
      "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\nrdb_last_bgsave_status:ok\r\n"
      "aof_last_write_status:ok\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n");
  facts.config = {{"appendfsync", "always"}, {"save", ""}, {"min-replicas-to-write", "0"}, {"timeout", "0"}, {"tcp-keepalive", "300"}};
  facts.clock_ahead_ms = 3;
  facts.trials = {{.what = "take a lock"}, {.what = "wait for a lock"}};
  return facts;
}

/// What is said about one thing; the worst of it.
std::optional<Finding> about(Facts const& facts, std::string const& what) {
  auto const findings = diagnose(facts);
  auto const found = std::ranges::find(findings, what, &Finding::about);
  return found == findings.end() ? std::nullopt : std::optional{*found};
}

void check(Facts const& facts, std::string const& what, Severity severity, std::string const& says) {
  auto const finding = about(facts, what);
  REQUIRE(finding);
  INFO(finding->says);
  CHECK(finding->severity == severity);
  CHECK_THAT(finding->says, contains(says));
  CHECK(finding->advice.empty() == (severity == Severity::fine));
  CHECK(worst(diagnose(facts)) == severity);
}

Facts with(std::string const& name, std::string const& value) {
  auto facts = healthy();
  (facts.config.contains(name) ? facts.config : facts.info)[name] = value;
  return facts;
}

}  // namespace

TEST_CASE("a server on which nothing is wrong has only fine findings, one for each thing that was looked at") {
  auto const findings = diagnose(healthy());
  CHECK(worst(findings) == Severity::fine);
  for (auto const* const what : {"locks", "version", "eviction", "persistence", "replication", "clock", "tls", "maxclients"})
    CHECK(std::ranges::count(findings, std::string{what}, &Finding::about) == 1);
}

TEST_CASE("a policy that evicts is an error as soon as there is a limit") {
  auto facts = with("maxmemory_policy", "allkeys-lru");
  check(facts, "eviction", Severity::warning, "as soon as maxmemory is set");
  facts.info["maxmemory"] = "100000000";
  check(facts, "eviction", Severity::error, "two hold at once");
  facts.info["maxmemory_policy"] = "volatile-ttl";  // locks have an expiry
  check(facts, "eviction", Severity::error, "two hold at once");
  facts.info["maxmemory_policy"] = "noeviction";
  check(facts, "eviction", Severity::fine, "nothing is evicted");
  facts.info["used_memory"] = "95000000";
  check(facts, "eviction", Severity::warning, "OOM");
}

TEST_CASE("what a restart would lose is a warning, and a server that cannot save an error") {
  check(with("aof_enabled", "0"), "persistence", Severity::warning, "a restart loses all locks");
  auto snapshots = with("aof_enabled", "0");
  snapshots.config["save"] = "3600 1 300 100";
  check(snapshots, "persistence", Severity::warning, "since the last snapshot");
  snapshots.config.erase("save");  // CONFIG was refused
  check(snapshots, "persistence", Severity::warning, "since the last snapshot");
  check(with("appendfsync", "no"), "persistence", Severity::warning, "appendfsync is no");
  check(with("appendfsync", "everysec"), "persistence", Severity::fine, "everysec");
  check(with("rdb_last_bgsave_status", "err"), "persistence", Severity::error, "MISCONF");
  check(with("aof_last_write_status", "err"), "persistence", Severity::error, "MISCONF");
}

TEST_CASE("a replica is an error, and replicas that need not keep up are a warning") {
  check(with("role", "slave"), "replication", Severity::error, "READONLY");
  check(with("connected_slaves", "2"), "replication", Severity::warning, "2 replicas");
  auto facts = with("connected_slaves", "2");
  facts.config["min-replicas-to-write"] = "1";
  facts.info["min_slaves_good_slaves"] = "2";
  check(facts, "replication", Severity::fine, "1 of them must keep up");
  facts.info["min_slaves_good_slaves"] = "0";
  check(facts, "replication", Severity::error, "NOREPLICAS");
}

TEST_CASE("clocks more than a minute apart are a warning, whichever is ahead") {
  auto facts = healthy();
  for (std::int64_t const ahead : {61'000, -61'000}) {
    facts.clock_ahead_ms = ahead;
    check(facts, "clock", Severity::warning, "61000 ms apart");
  }
  facts.clock_ahead_ms = -59'000;
  check(facts, "clock", Severity::fine, "59000 ms apart");
}

TEST_CASE("versions outside of those that are tested are told") {
  auto const redis = [](char const* version) { return with("redis_version", version); };
  check(redis("5.0.14"), "version", Severity::error, "redis 5.0.14");
  check(redis("6.0.16"), "version", Severity::warning, "redis 6.0.16");
  check(redis("6.2.0"), "version", Severity::fine, "redis 6.2.0");
  check(redis("8.0.2"), "version", Severity::fine, "redis 8.0.2");
  check(redis("9.1.0"), "version", Severity::warning, "redis 9.1.0");
  auto valkey = [](char const* version) {
    auto facts = with("redis_version", "7.2.4");
    facts.info["valkey_version"] = version;
    return facts;
  };
  check(valkey("8.1.1"), "version", Severity::fine, "valkey 8.1.1");
  check(valkey("9.0.0"), "version", Severity::fine, "valkey 9.0.0");
  check(valkey("10.0.0"), "version", Severity::warning, "valkey 10.0.0");
  check(redis("strange"), "version", Severity::error, "strange");
}

TEST_CASE("an unencrypted connection is a warning only where it leaves the machine") {
  auto facts = healthy();
  facts.transport = Facts::Transport::plain_elsewhere;
  check(facts, "tls", Severity::warning, "not encrypted");
  facts.transport = Facts::Transport::unverified_tls;
  check(facts, "tls", Severity::warning, "not verified");
  facts.transport = Facts::Transport::tls;
  check(facts, "tls", Severity::fine, "verified");
}

TEST_CASE("connections that are closed early, found dead late, or short are told") {
  check(with("timeout", "5"), "timeout", Severity::warning, "timeout is 5 s");
  CHECK_FALSE(about(with("timeout", "300"), "timeout"));
  check(with("tcp-keepalive", "0"), "timeout", Severity::warning, "tcp-keepalive is 0 s");
  check(with("connected_clients", "8000"), "maxclients", Severity::warning, "8000 of 10000");
  check(with("connected_clients", "9500"), "maxclients", Severity::error, "renewals");
  check(with("connected_clients", "7999"), "maxclients", Severity::fine, "7999 of 10000");
}

TEST_CASE("a cluster with slots missing, failing or down is an error, and so is one that is not asked as one") {
  auto facts = with("cluster_enabled", "1");
  facts.cluster = {{"cluster_state", "ok"}, {"cluster_slots_assigned", "16384"}, {"cluster_slots_fail", "0"}, {"cluster_size", "3"}};
  check(facts, "cluster", Severity::error, "MOVED");
  facts.through_cluster = true;
  check(facts, "cluster", Severity::fine, "3 nodes");
  facts.cluster["cluster_slots_assigned"] = "16000";
  check(facts, "cluster", Severity::error, "16000 of 16384");
  facts.cluster["cluster_slots_assigned"] = "16384";
  facts.cluster["cluster_slots_fail"] = "5461";
  check(facts, "cluster", Severity::error, "5461 slots");
  facts.cluster["cluster_slots_fail"] = "0";
  facts.cluster["cluster_state"] = "fail";
  check(facts, "cluster", Severity::error, "cluster_state is fail");
}

TEST_CASE("a trial that failed is an error where locks need it, and a warning where only an option does") {
  auto facts = healthy();
  facts.trials.push_back({.what = "ask replicas to confirm", .needed = false, .failure = "NOPERM", .denied = true});
  check(facts, "rights", Severity::warning, "cannot ask replicas to confirm: NOPERM");
  CHECK(about(facts, "locks"));  // the lock itself works
  facts.trials.push_back({.what = "wait for a lock", .failure = "NOPERM", .denied = true});
  CHECK(worst(diagnose(facts)) == Severity::error);
  CHECK_FALSE(about(facts, "locks"));
  facts = healthy();
  facts.trials.push_back({.what = "take a lock", .failure = "LOADING"});
  CHECK(about(facts, "locks")->severity == Severity::error);
}

TEST_CASE("what may not be looked at is a finding, and nothing is made up in its place") {
  Facts facts;
  facts.info_refusal = "NOPERM";
  facts.config_refusal = "ERR unknown command";
  auto const findings = diagnose(facts);
  CHECK(worst(findings) == Severity::warning);
  CHECK_THAT(about(facts, "info")->says, contains("NOPERM"));
  CHECK_THAT(about(facts, "config")->says, contains("unknown command"));
  CHECK(findings.size() == 3);  // and tls, which is known without asking
}

TEST_CASE("the worst comes first, and junk in INFO is passed over") {
  auto facts = with("maxmemory_policy", "allkeys-lru");
  facts.info["maxmemory"] = "1000";
  facts.info["aof_enabled"] = "0";
  auto const findings = diagnose(facts);
  CHECK(findings.front().severity == Severity::error);
  CHECK(findings.back().severity == Severity::fine);
  CHECK(std::ranges::is_sorted(findings, std::ranges::greater{}, &Finding::severity));
  CHECK(command::fields_of("\r\n:\r\nno colon\r\n# x:y\r\na:b:c\n").at("a") == "b:c");
  CHECK(worst(diagnose(with("maxmemory", "much"))) == Severity::fine);
}
