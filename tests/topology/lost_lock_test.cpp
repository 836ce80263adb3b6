// SPDX-License-Identifier: MIT
// What an asynchronous failover takes away, and what is left: docs/guarantees.md says the same in its words.
#include "real_nodes.hpp"

namespace topology {

TEST_CASE("a failover to a replica that lags loses the lock without replicas, and the fence still rises") {
  support::RedisServer old;
  support::RedisServer next;
  next.replica_of(old);
  FakeSentinel sentinel{old.port()};
  Told told;
  Client client{sentinel_uri(sentinel), told.options()};
  Client rival{sentinel_uri(sentinel)};
  CHECK(Lock{client, "lock"}.try_acquire());  // an earlier fence, which the replica knows
  auto const earlier = old.command({"GET", "{lock}:~fence"}).text;
  REQUIRE(wait_until([&] { return next.command({"GET", "{lock}:~fence"}).text == earlier; }));

  next.command({"REPLICAOF", "127.0.0.1", "1"});  // replication stands still
  auto lease = Lock{client, "lock", {.ttl = 30s}}.acquire();
  old.kill();
  next.promote();
  sentinel.names(next.port());

  auto const second = Lock{rival, "lock"}.acquire();
  CHECK(lease.held());  // both believe it now: that is what is lost …
  CHECK(second.held());
  CHECK(second.fence() > lease.fence());  // … and this is what is not
  mortise::FenceGate gate;
  CHECK(gate.admit(second.fence()));
  CHECK_FALSE(gate.admit(lease.fence()));
  CHECK_FALSE(lease.confirm());  // and the first learns of it by its next question
  CHECK_FALSE(lease.held());
  CHECK(wait_until([&] { return told.count(Event::Kind::lost) == 1; }));
  CHECK(told.of(Event::Kind::lost).front().endpoint == "127.0.0.1:" + std::to_string(next.port()));
}

TEST_CASE("the same failover with replicas: a grant that the replica did not confirm was never given") {
  support::RedisServer old;
  support::RedisServer next;
  next.replica_of(old);
  FakeSentinel sentinel{old.port()};
  ClientOptions options;
  options.replicas = 1;
  options.replicas_timeout = 200ms;
  Client client{sentinel_uri(sentinel), options};
  next.command({"REPLICAOF", "127.0.0.1", "1"});
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("only 0 of 1"));
  CHECK(wait_until([&] { return old.command({"EXISTS", "lock"}).integer == 0; }));
}

}  // namespace topology
