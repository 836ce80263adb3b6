// SPDX-License-Identifier: MIT
// Nodes that are restarted: without their data their vote is void until every lease has ended that they may have forgotten.
#include <thread>

#include "quorum_servers.hpp"

using Data = support::RedisServer::Data;

namespace {

constexpr milliseconds restart_ttl = 4s;

/// A holder that has the first and the last of three nodes: the one in the middle was asleep.
struct HeldByTwo {
  explicit HeldByTwo(QuorumServers& nodes, Quorum& quorum) {
    CHECK(Lock{quorum, "warm"}.try_acquire());
    nodes[1].freeze();
    lease.emplace(Lock{quorum, "lock", {.ttl = restart_ttl}}.acquire());
    std::this_thread::sleep_for(300ms);  // what was on its way to the frozen one is given up
    CHECK(lease->extend());
  }
  std::optional<Lease> lease{};
};

}  // namespace

TEST_CASE("a node that is restarted empty under a held lock has no vote, for whoever knew it before") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), {.quarantine = restart_ttl}};
  Quorum rival{nodes.uris(), {.quarantine = restart_ttl}};
  CHECK(Lock{rival, "warm2"}.try_acquire());
  HeldByTwo holder{nodes, quorum};
  nodes[2].kill();
  nodes[2].restart(Data::lost);
  nodes[1].thaw();
  for (auto& node : nodes) node.command({"DEL", "warm"});
  nodes[1].command({"DEL", "lock"});  // should the frozen one have been asked after all
  Lock lock{rival, "lock", {.ttl = restart_ttl}};
  auto const until = Clock::now() + 2s;
  while (Clock::now() < until) {
    bool granted = false;
    auto const error = error_of([&] { granted = lock.try_acquire().has_value(); return 0; });
    CHECK_FALSE(granted);
    if (error) CHECK(error->errc() == Errc::no_quorum);
  }
  nodes[0].freeze();  // now nobody opposes
  auto const error = error_of([&] { return lock.try_acquire(); });
  if (Clock::now() < until + 1500ms) {
    REQUIRE(error);
    CHECK(error->errc() == Errc::no_quorum);
    CHECK_THAT(error->what(), contains(nodes.endpoint(2) + ": in quarantine for "));
  }
  nodes[0].thaw();
  CHECK(wait_until([&] { return !holder.lease->held(); }, 15s));  // one of three is no majority
  CHECK(lock.acquire_for(20s));
}

TEST_CASE("a rival that has never seen the nodes before knows an empty one by its age, or by the node that opposes") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), {.quarantine = restart_ttl}};
  HeldByTwo holder{nodes, quorum};
  bool const much_later = GENERATE(false, true);
  if (much_later) std::this_thread::sleep_for(3200ms);  // ages are told in whole seconds
  nodes[2].kill();
  nodes[2].restart(Data::lost);
  nodes[1].thaw();
  auto const restarted = Clock::now();
  nodes[1].command({"DEL", "lock"});  // should the frozen one have been asked after all
  if (much_later) nodes[0].freeze();
  Quorum rival{nodes.uris(), {.quarantine = restart_ttl}};
  Lock lock{rival, "lock", {.ttl = restart_ttl}};
  while (Clock::now() < restarted + 1500ms) {
    bool granted = false;
    auto const error = error_of([&] { granted = lock.try_acquire().has_value(); return 0; });
    CHECK_FALSE(granted);
    if (error) CHECK(error->errc() == Errc::no_quorum);
  }
  if (much_later) nodes[0].thaw();
}

TEST_CASE("a node that is restarted with its data waits too, and keeps the leases it knows") {
  QuorumServers nodes{3, {.append_only = true}};
  Quorum quorum{nodes.uris(), {.quarantine = 2s}};
  Lock lock{quorum, "lock", {.ttl = 3s}};
  auto lease = lock.acquire();
  for (std::size_t node = 0; node < 3; ++node) {
    nodes[node].kill();
    nodes[node].restart(Data::kept);
    CHECK(lease.extend());
  }
  CHECK(nodes.holding("lock") == "xxx");
  CHECK(lease.confirm());
  auto const error = error_of([&] { return Lock{quorum, "other"}.try_acquire(); });
  if (error) {  // on a slow machine the first one's quarantine may be over
    CHECK(error->errc() == Errc::no_quorum);
    CHECK_THAT(error->what(), contains("in quarantine for"));
  }
  CHECK(Lock{quorum, "other"}.acquire_for(15s));
}

TEST_CASE("a quarantine of nothing in the options is the largest TTL in use") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris()};
  auto const tried = [&](milliseconds ttl) { return errc_of([&] { return Lock{quorum, "lock", {.ttl = ttl}}.try_acquire(); }); };
  CHECK_FALSE(tried(3s));
  for (std::size_t node = 0; node < 2; ++node) nodes[node].restart(Data::lost);
  CHECK(tried(3s) == Errc::no_quorum);
  CHECK(wait_until([&] { return !tried(3s); }, 15s));
  CHECK(tried(1h) == Errc::no_quorum);
  CHECK(tried(3s) == Errc::no_quorum);  // an hour's lease may have been forgotten from now on
}
