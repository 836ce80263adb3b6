// SPDX-License-Identifier: MIT
// Readers, writers, permits and several locks at once in a real cluster, also while a slot moves.
#include "real_nodes.hpp"

namespace topology {

TEST_CASE("readers, writers and permits take their turns in a cluster, whatever node their name lies on") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri()};
  Client other{cluster.uri()};
  for (std::size_t node = 0; node < 2; ++node) {
    auto const name = cluster.name_at(node);
    mortise::SharedLock room{client, name};
    mortise::SharedLock same{other, name};
    auto reader = room.acquire_shared();
    Waiting writer{[&] { return same.acquire(); }};
    REQUIRE(writer.asleep());
    CHECK_FALSE(room.try_acquire_shared());
    CHECK(reader.release());
    auto lease = writer.get();
    CHECK(lease.fence() > reader.fence());
    CHECK(lease.confirm());
    auto again = same.downgrade(std::move(lease));
    REQUIRE(again);
    CHECK(room.try_acquire_shared());
    CHECK(again->release());

    mortise::Semaphore permits{client, "{" + name + "}permits", 2};
    auto one = permits.acquire();
    auto const two = permits.acquire();
    Waiting third{[&] { return mortise::Semaphore{other, "{" + name + "}permits", 2}.acquire(); }};
    REQUIRE(third.asleep());
    CHECK(one.release());
    CHECK(third.get().fence() > two.fence());
  }
}

TEST_CASE("several locks in a cluster are taken together, in one slot or in many") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri()};
  Client other{cluster.uri()};
  for (auto const& names : {std::vector<std::string>{"{tag}a", "{tag}b", "{tag}c"}, std::vector<std::string>{cluster.name_at(0), cluster.name_at(1), "third"}}) {
    mortise::LockSet all{client, names};
    auto leases = all.try_acquire();
    REQUIRE(leases);
    CHECK(leases->confirm());
    for (auto const& name : names) CHECK_FALSE(Lock{other, name}.try_acquire());
    CHECK(leases->release());
    auto held = Lock{other, names[1]}.acquire();
    CHECK_FALSE(all.try_acquire());
    for (auto const i : {std::size_t{0}, std::size_t{2}}) CHECK(Lock{other, names[i]}.try_acquire());
    Waiting waiting{[&] { return all.acquire_for(60s); }};
    REQUIRE(waiting.asleep());
    CHECK(held.release());
    CHECK(waiting.get());
  }
}

TEST_CASE("a slot moves while readers are in and a writer waits: the readers stay in, and the writer gets in behind them") {
  ClusterNodes cluster{{.replicas = false}};
  Client client{cluster.uri(), patient()};
  Client other{cluster.uri(), patient()};
  auto const name = cluster.name_at(0);
  auto const slot = cluster.slot(name);
  mortise::SharedLock room{client, name, {.ttl = 20s}};
  auto one = room.acquire_shared();
  auto two = room.acquire_shared();
  Waiting writer{[&] { return mortise::SharedLock{other, name, {.ttl = 20s}}.acquire(); }};
  REQUIRE(writer.asleep());
  cluster.begin_move(slot, 0, 1);
  CHECK(one.held());
  cluster.move_keys(slot, 0, 1);
  cluster.end_move(slot, 0, 1);
  CHECK(one.confirm());
  CHECK(two.confirm());
  CHECK_FALSE(writer.over());
  CHECK(one.release());
  CHECK(two.release());
  CHECK(writer.over_within(30s));
  CHECK(writer.get().held());
}

}  // namespace topology
