// SPDX-License-Identifier: MIT
// Grants that replicas must confirm: with a real replica, and undone where too few do.
#include "lock_server.hpp"
#include "support/waiting.hpp"

TEST_CASE("a grant that enough replicas confirm stands there too") {
  LockServer primary;
  LockServer replica;
  replica.replica_of(primary);
  Client client{primary.unix_uri(), {.replicas = 1, .replicas_timeout = 20s}};
  auto lease = Lock{client, "lock"}.acquire();
  CHECK(lease.held());
  CHECK(replica.get("lock") == primary.get("lock"));  // WAIT has seen it: no need to wait for it here
  CHECK(replica.get(fence_key("lock")) == std::to_string(lease.fence().value));
  CHECK(lease.release());
}

TEST_CASE("a grant that too few replicas confirm is undone: refused by the server, nothing left, and free for others") {
  LockServer primary;
  LockServer replica;
  replica.replica_of(primary);
  Client client{primary.unix_uri(), {.replicas = 2, .replicas_timeout = 50ms}};
  Lock lock{client, "lock"};
  auto const error = error_of([&] { return lock.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::server_refused);
  CHECK(error->retryable());
  CHECK_FALSE(error->in_doubt());
  CHECK_THAT(error->what(), contains("of 2 replicas"));
  CHECK(wait_until([&] { return primary.keys() == std::vector<std::string>{fence_key("lock")}; }));
  Client easy{primary.unix_uri()};
  CHECK(Lock{easy, "lock"}.try_acquire());
}

TEST_CASE("a wait goes on until enough replicas are there") {
  LockServer primary;
  Client client{primary.unix_uri(), {.replicas = 1, .replicas_timeout = 50ms}};
  Lock lock{client, "lock"};
  support::Waiting waiting{[&] { return lock.acquire_for(1min); }};
  CHECK_FALSE(waiting.over_within(200ms));
  LockServer replica;
  replica.replica_of(primary);
  auto const lease = waiting.get();
  REQUIRE(lease);
  CHECK(lease->held());
  CHECK(replica.get("lock") == primary.get("lock"));
}

TEST_CASE("a wait in which too few replicas confirm ends with that answer, and with nothing left") {
  LockServer primary;
  Client client{primary.unix_uri(), {.replicas = 1, .replicas_timeout = 50ms}};
  Lock lock{client, "lock"};
  for (auto patience = 200ms; patience < 300ms; patience += 7ms) {
    auto const error = error_of([&] { return lock.acquire_for(patience); });
    REQUIRE(error);
    CHECK(error->errc() == Errc::server_refused);
    CHECK_FALSE(error->in_doubt());
  }
  CHECK(wait_until([&] { return !primary.exists("lock"); }));
}

TEST_CASE("the patience with replicas does not lengthen a wait beyond its deadline") {
  LockServer primary;
  Client client{primary.unix_uri(), {.replicas = 1, .replicas_timeout = 2s}};
  Lock lock{client, "lock"};
  auto const attempt = [&] { return time_of([&] { return errc_of([&] { return lock.acquire_for(100ms); }); }); };
  CHECK(std::min({attempt(), attempt(), attempt()}) <= 150ms);
}

TEST_CASE("a replica refuses to lock, and says that it is one") {
  LockServer primary;
  LockServer replica;
  replica.replica_of(primary);
  Client client{replica.unix_uri()};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::server_refused);
  CHECK(error->retryable());
  CHECK_THAT(error->what(), contains("replica") && contains("primary"));
}
