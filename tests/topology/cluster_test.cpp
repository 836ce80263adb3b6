// SPDX-License-Identifier: MIT
// A real cluster: keys and slots of all primitives, slots that move and masters that change while locks are in use.
#include "real_nodes.hpp"

namespace topology {

TEST_CASE("all keys of every primitive are in one slot, by the cluster's own word, and every allowed name locks") {
  ClusterNodes cluster{{.replicas = false, .password = "hunter2"}};
  Client client{cluster.uri()};
  std::vector<std::string> const names{"a{b", "a{b}c", "{", "plain", "{tag}", "x{y}z{w}", std::string(500, 'k'), "\xc3\xa4\xe2\x82\xac", std::string{"n\0ul", 4}, "{\xff}", " "};
  for (auto const& name : names) {
    CAPTURE(name);
    mortise::detail::LockKeys const keys{name};
    mortise::detail::LockKeys const room{name, mortise::detail::Hold::reader};
    for (auto const& key : {keys.lock, keys.fence, keys.wake, keys.wait, room.queue, room.alive, room.turn("host:1#0"), mortise::detail::guard_key(name)}) {
      CHECK(cluster.slot(key) == keys.slot);
      CHECK(cluster.slot(key) == mortise::detail::key_slot(key));
    }
    Lock lock{client, name};
    auto lease = lock.acquire();
    CHECK(cluster.owner_of(name).command({"EXISTS", name}).integer == 1);
    CHECK(lease.confirm());
    Waiting waiting{[&] { return lock.acquire_for(60s); }};
    REQUIRE(wait_until([&] { return cluster.owner_of(name).command({"EXISTS", keys.wait}).integer == 1; }));
    CHECK(lease.release());
    auto next = waiting.get();
    REQUIRE(next);
    CHECK(mortise::fenced_set(client, name + "d", "value", next->fence()));
    CHECK_FALSE(mortise::fenced_set(client, name + "d", "value", lease.fence()));
    CHECK(mortise::FencingCounter{client, name + "c"}.next().value == 1);
    CHECK(mortise::FencingCounter{client, name + "c"}.last() == mortise::Fence{1});
    CHECK(next->release());
  }
  for (std::string const name : {"a}b", "{}x", "{}", "}"}) {  // whose siblings cannot follow them: refused, not mangled
    CAPTURE(name);
    auto const error = error_of([&] { return Lock{client, name}.try_acquire(); });
    REQUIRE(error);
    CHECK(error->errc() == Errc::invalid_option);
  }
}

TEST_CASE("readers, writers, permits and several locks at once work in a cluster, and follow a slot that moves") {
  ClusterNodes cluster{{.replicas = false}};
  Told told;
  Client client{cluster.uri(), told.options(patient())};
  auto const name = cluster.name_at(0, "shared");
  mortise::SharedLock shared{client, name, {.ttl = 20s}};
  auto reader = shared.acquire_shared_for(20s);
  auto another = shared.acquire_shared_for(20s);
  REQUIRE(reader);
  REQUIRE(another);
  Waiting writing{[&] { return shared.acquire_for(60s); }};
  CHECK_FALSE(writing.over_within(300ms));
  cluster.move_slot(cluster.slot(name), 0, 1);
  CHECK(reader->confirm());
  CHECK(reader->release());
  CHECK(another->release());
  auto writer = writing.get();
  REQUIRE(writer);
  CHECK(writer->release());

  mortise::Semaphore permits{client, "permits", 2};
  auto one = permits.try_acquire();
  auto two = permits.try_acquire();
  CHECK(one);
  CHECK(two);
  CHECK_FALSE(permits.try_acquire());

  Lock first{client, cluster.name_at(0)};
  Lock second{client, cluster.name_at(1)};
  Lock third{client, "{" + second.name() + "}"};
  CHECK(mortise::LockSet{first, second, third}.try_acquire());  // in different slots: one request each
  CHECK(mortise::LockSet{second, third}.try_acquire());         // in one slot: one request
  CHECK(told.count(Event::Kind::lost) == 0);
}

TEST_CASE("a slot moves back and forth while its lock is held and renewed: never lost, released at last") {
  ClusterNodes cluster{{.replicas = false}};
  Told told;
  Client client{cluster.uri(), told.options(patient())};
  auto const name = cluster.name_at(0);
  auto const slot = cluster.slot(name);
  auto lease = Lock{client, name, {.ttl = 4s}}.acquire();
  for (int i = 0; i < 6; ++i) {
    auto const from = static_cast<std::size_t>(i % 2);
    cluster.begin_move(slot, from, 1 - from);
    CHECK(lease.confirm());  // the keys are still where they were
    cluster.move_keys(slot, from, 1 - from);
    CHECK(lease.extend());   // ASK
    auto const renewals = told.count(Event::Kind::renewed);
    CHECK(wait_until([&] { return told.count(Event::Kind::renewed) > renewals; }));
    cluster.end_move(slot, from, 1 - from);
    CHECK(lease.confirm());  // MOVED
  }
  CHECK(lease.held());
  CHECK(told.count(Event::Kind::lost) == 0);
  CHECK(lease.release());
  CHECK(cluster.owner_of(name).command({"EXISTS", name}).integer == 0);
}

TEST_CASE("a release and an acquire that meet a slot on the move end when it has moved") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri(), patient()};
  auto const name = cluster.name_at(1);
  auto const slot = cluster.slot(name);
  Lock lock{client, name, {.ttl = 60s}};
  auto lease = lock.acquire();
  cluster.begin_move(slot, 1, 2);
  Waiting releasing{[&] { return lease.release(); }};
  Waiting acquiring{[&] { return lock.try_acquire().has_value() || lock.acquire_for(60s).has_value(); }};
  CHECK_FALSE(releasing.over_within(200ms));
  cluster.move_keys(slot, 1, 2);
  cluster.end_move(slot, 1, 2);
  CHECK(releasing.get());
  CHECK(acquiring.get());
}

TEST_CASE("a waiter whose slot moves away goes on waiting where it went") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri(), patient()};
  auto const name = cluster.name_at(2);
  auto const slot = cluster.slot(name);
  Lock lock{client, name, {.ttl = 60s}};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire_for(100s); }};
  auto const blocked_at = [&](std::size_t node) {
    for (auto const& one : cluster.node(node).client_list())
      if (one.at("flags").find('b') != std::string::npos) return true;
    return false;
  };
  REQUIRE(wait_until([&] { return blocked_at(2); }));
  cluster.move_slot(slot, 2, 0);
  CHECK(wait_until([&] { return blocked_at(0); }));
  CHECK(lease.release());
  auto const took = time_of([&] { CHECK(waiting.get()); });
  CHECK(took < 5s);
}

TEST_CASE("CLUSTER FAILOVER: held, renewed, waited for and released across it") {
  ClusterNodes cluster;
  Told told;
  Client client{cluster.uri(), told.options(patient())};
  auto const name = cluster.name_at(0);
  Lock lock{client, name, {.ttl = 20s}};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire_for(100s); }};
  mortise::detail::LockKeys const keys{name};
  REQUIRE(wait_until([&] { return cluster.node(0).command({"EXISTS", keys.wait}).integer == 1; }));
  cluster.fail_over_to(3);
  CHECK(lease.confirm());
  auto const fence = lease.fence();
  CHECK(lease.release());
  auto const next = waiting.get();
  REQUIRE(next);
  CHECK(next->fence() > fence);
  CHECK(told.count(Event::Kind::lost) == 0);
}

TEST_CASE("a master dies: its replica takes over, and calls and waiters find it within their own time") {
  ClusterNodes cluster{{.node_timeout_ms = 1000}};
  Client client{cluster.uri(), patient()};
  auto const name = cluster.name_at(0);
  auto const elsewhere = cluster.name_at(1);
  Lock lock{client, name, {.ttl = 60s}};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return lock.acquire_for(100s); }};
  mortise::detail::LockKeys const keys{name};
  REQUIRE(wait_until([&] { return cluster.node(0).command({"EXISTS", keys.wait}).integer == 1; }));
  // The replica has it all.
  REQUIRE(wait_until([&] {
    auto const of = [&](std::size_t node) { return cluster.node(node).info("replication")["master_repl_offset"]; };
    return of(0) == of(3);
  }));
  cluster.node(0).kill();
  CHECK(lease.confirm());
  auto const fence = lease.fence();
  CHECK(lease.release());
  auto const next = waiting.get();
  REQUIRE(next);
  CHECK(next->fence() > fence);
  CHECK(Lock{client, elsewhere}.try_acquire());
}

TEST_CASE("a cluster with a slot missing: its lock ends by the deadline, the others go on, and it comes back") {
  ClusterNodes cluster{{.replicas = false}};
  auto const name = cluster.name_at(0);
  auto const slot = std::to_string(cluster.slot(name));
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    cluster.node(i).config_set("cluster-require-full-coverage", "no");
    cluster.node(i).command({"CLUSTER", "DELSLOTS", slot});
  }
  Client client{cluster.uri(), {.command_timeout = 500ms}};
  Lock lock{client, name};
  std::optional<Error> error;
  CHECK(time_of([&] { error = error_of([&] { return lock.acquire_for(2s); }); }) < 3s);
  REQUIRE(error);
  CHECK(error->retryable());
  CHECK_THAT(error->what(), contains("slot"));
  CHECK(Lock{client, cluster.name_at(1)}.try_acquire());
  Waiting waiting{[&] { return lock.acquire_for(60s); }};
  for (std::size_t i = 0; i < cluster.size(); ++i)
    cluster.node(i).command({"CLUSTER", "SETSLOT", slot, "NODE", cluster.node(0).command({"CLUSTER", "MYID"}).text});
  cluster.node(0).command({"CLUSTER", "ADDSLOTS", slot});
  CHECK(waiting.get());
}

TEST_CASE("a forked child closes the sockets of all nodes unread and asks over its own") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri(), patient()};
  std::vector<Lease> leases;
  for (std::size_t node = 0; node < 3; ++node) leases.push_back(Lock{client, cluster.name_at(node)}.acquire());
  auto const connections = [&] {
    std::size_t all = 0;
    for (std::size_t node = 0; node < 3; ++node)
      for (auto const& one : cluster.node(node).client_list()) all += one.at("name").empty() ? 0U : 1U;
    return all;
  };
  REQUIRE(wait_until([&] { return connections() >= 6; }));  // of the calls and of the keeper
  support::Child child = support::Child::fork([&] {
    for (auto const& lease : leases)
      if (lease.held()) return 1;
    for (std::size_t node = 0; node < 3; ++node)
      if (Lock{client, leases[node].name()}.try_acquire()) return 2;
    return Lock{client, "child"}.acquire().release() ? 0 : 3;
  });
  auto const status = child.wait(support::Clock::now() + 60s);
  REQUIRE(status);
  CHECK(*status == 0);
  for (auto& lease : leases) {
    CHECK(lease.confirm());
    CHECK(lease.release());
  }
}

TEST_CASE("a grant that replicas must confirm is confirmed by those of its own node") {
  ClusterNodes cluster;
  auto options = patient();
  options.replicas = 1;
  options.replicas_timeout = 10s;
  Client client{cluster.uri(), options};
  for (std::size_t node = 0; node < 3; ++node) {
    auto const name = cluster.name_at(node);
    auto lease = Lock{client, name}.acquire();
    CHECK(cluster.node(node + 3).command({"READONLY"}).is_ok());
    CHECK(cluster.node(node).command({"GET", name}).text != "");
    CHECK(lease.release());
  }
  options.replicas = 2;
  options.replicas_timeout = 50ms;
  Client strict{cluster.uri(), options};
  auto const error = error_of([&] { return Lock{strict, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("of 2 replicas"));
}

TEST_CASE("a new lock in a slot that is being moved waits for it, and says so when its time is over") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri()};
  auto const name = cluster.name_at(0, "moving");
  Lock lock{client, name};
  auto const slot = cluster.slot(name);
  cluster.begin_move(slot, 0, 1);
  auto const error = error_of([&] { static_cast<void>(lock.acquire_for(1s)); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("TRYAGAIN") && contains("being moved"));
  Waiting waiting{[&] { return lock.acquire_for(60s).has_value(); }};
  CHECK_FALSE(waiting.over_within(100ms));
  cluster.end_move(slot, 0, 1);
  CHECK(waiting.get());
}

}  // namespace topology
