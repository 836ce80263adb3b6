// SPDX-License-Identifier: MIT
// Told at once by the server: a held key that somebody deletes or overwrites, where tracking was asked for.
#include "witness.hpp"

TEST_CASE("with tracking, a deleted or overwritten key is a loss at once and not at the next renewal") {
  LockServer redis;
  Client client{redis.uri(), {.tracking = true}};
  bool const renewed = GENERATE(true, false);
  std::string const change = GENERATE(values<std::string>({"DEL", "SET", "FLUSHALL"}));
  auto const lease = Lock{client, "lock", {.ttl = 1h, .renew = renewed}}.acquire();
  auto const other = Lock{client, "other", {.ttl = 1h}}.acquire();
  CHECK(other.held());
  std::this_thread::sleep_for(200ms);  // the first look of the keeper
  if (change == "DEL") redis.command({"DEL", "lock"});
  if (change == "SET") redis.command({"SET", "lock", "thief"});
  if (change == "FLUSHALL") redis.flush_all();
  CHECK(wait_until([&] { return lease.lost().stop_requested(); }));
  CHECK_FALSE(lease.held());
  if (change != "FLUSHALL") CHECK_FALSE(other.lost().stop_requested());
}

TEST_CASE("with tracking, renewals and releases of our own are no loss") {
  LockServer redis;
  Witness witness;
  Client client{redis.uri(), {.observer = witness.observer(), .tracking = true}};
  auto lease = Lock{client, "lock", {.ttl = 600ms}}.acquire();
  std::this_thread::sleep_for(1500ms);
  CHECK(lease.extend());
  CHECK(lease.release());
  witness.first(Kind::released);
  CHECK(witness.of(Kind::lost).empty());
}

TEST_CASE("a server that refuses tracking is done without, and the observer is told") {
  LockServer redis{{.users = {"plain on >pw ~* &* +@all -client|tracking -subscribe"}}};
  Witness witness;
  Client client{redis.uri("plain", "pw"), {.observer = witness.observer(), .tracking = true}};
  auto const lease = Lock{client, "lock", {.ttl = 1500ms}}.acquire();
  CHECK_FALSE(witness.first(Kind::degraded).reason.empty());
  redis.command({"DEL", "lock"});
  CHECK(wait_until([&] { return lease.lost().stop_requested(); }));
}
