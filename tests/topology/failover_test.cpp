// SPDX-License-Identifier: MIT
// A real Sentinel group: its primary is demoted or dies while locks are held, renewed and waited for.
#include "real_nodes.hpp"

namespace topology {

TEST_CASE("SENTINEL FAILOVER: a held lock stays held and renewed, its waiter gets it after the release, fences rise") {
  SentinelNodes group;
  Told told;
  Client client{group.uri(), told.options(patient())};
  Lock lock{client, "lock", {.ttl = 20s}};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire_for(100s); }};
  REQUIRE(wait_until([&] { return group.server(0).command({"EXISTS", "{lock}:~wait"}).integer == 1; }));
  REQUIRE(wait_until([&] { return group.server(1).command({"EXISTS", "lock"}).integer == 1 && group.server(2).command({"EXISTS", "lock"}).integer == 1; }));

  group.fail_over();
  CHECK(lease.confirm());
  CHECK(lease.held());
  CHECK(told.count(Event::Kind::lost) == 0);
  auto const fence = lease.fence();
  CHECK(lease.release());
  auto const next = waiting.get();
  REQUIRE(next);
  CHECK(next->fence() > fence);
  CHECK(group.primary().command({"EXISTS", "lock"}).integer == 1);
}

TEST_CASE("the primary dies: calls are answered by the next one as soon as there is one, within their own time") {
  SentinelNodes group;
  Client client{group.uri(), patient()};
  Lock lock{client, "lock", {.ttl = 60s}};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire_for(100s); }};
  REQUIRE(wait_until([&] { return group.server(0).command({"EXISTS", "{lock}:~wait"}).integer == 1; }));
  REQUIRE(wait_until([&] { return group.server(1).command({"EXISTS", "lock"}).integer == 1 && group.server(2).command({"EXISTS", "lock"}).integer == 1; }));
  auto& old = group.server(0);
  old.kill();
  CHECK(lease.confirm());
  CHECK(wait_until([&] { return group.another_than(old); }));
  auto const fence = lease.fence();
  CHECK(lease.release());
  auto const next = waiting.get();
  REQUIRE(next);
  CHECK(next->fence() > fence);
  CHECK(Lock{client, "another"}.try_acquire());
}

TEST_CASE("the primary freezes: a waiter that is blocked there goes on waiting at the next one") {
  SentinelNodes group;
  Told told;
  Client client{group.uri(), told.options({.command_timeout = 2s, .retry_for = 60s})};
  Lock lock{client, "lock", {.ttl = 60s}};
  auto lease = std::optional{lock.acquire()};
  Waiting waiting{[&] { return lock.acquire_for(100s); }};
  REQUIRE(wait_until([&] { return group.server(0).command({"EXISTS", "{lock}:~wait"}).integer == 1; }));
  REQUIRE(wait_until([&] { return group.server(1).command({"EXISTS", "lock"}).integer == 1 && group.server(2).command({"EXISTS", "lock"}).integer == 1; }));
  auto& old = group.server(0);
  old.freeze();
  REQUIRE(wait_until([&] { return group.another_than(old); }, 60s));
  CHECK(wait_until([&] {
    try {
      return lease->release();
    } catch (Error const&) {
      return false;
    }
  }));
  auto const next = waiting.get();
  CHECK(next);
  for (auto const& event : told.of(Event::Kind::reconnected)) CHECK_THAT(event.endpoint, contains("127.0.0.1:"));
  CHECK(told.count(Event::Kind::reconnected) >= 1);
  old.thaw();
}

TEST_CASE("two of three Sentinels are down: the third is enough to find the primary") {
  SentinelNodes group{{.replicas = 0, .sentinel_password = "hunter2"}};
  group.sentinel(0).kill();
  group.sentinel(1).kill();
  Client client{group.uri()};
  auto lease = Lock{client, "lock"}.acquire_for(20s);
  REQUIRE(lease);
  CHECK(lease->release());
}

TEST_CASE("Sentinels that were never named are learned, and asked when all that were have gone") {
  SentinelNodes group{{.replicas = 0}};
  Client client{"redis+sentinel://127.0.0.1:" + std::to_string(group.sentinel(0).port()) + "/group", patient()};
  CHECK(Lock{client, "lock"}.try_acquire());
  group.sentinel(0).kill();
  group.server(0).kill_clients();  // so that it has to ask again
  CHECK(Lock{client, "lock"}.try_acquire());
}

}  // namespace topology
