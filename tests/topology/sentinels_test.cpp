// SPDX-License-Identifier: MIT
// Whom to believe: Sentinels that are behind, lie, are silent or away, played ones in front of real and played servers.
#include "fake_node.hpp"
#include "support/redis_server.hpp"
#include "support/waiting.hpp"

namespace topology {

TEST_CASE("the primary that a Sentinel names gets the lock, in the database of the URI") {
  support::RedisServer primary;
  FakeSentinel const sentinel{primary.port()};
  Client client{sentinel_uri(sentinel) + "/3"};
  auto lease = Lock{client, "lock"}.acquire();
  CHECK(primary.keys(3).size() == 2);
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(mortise::FencingCounter{client, "counter"}.next().value == 1);
  CHECK(mortise::fenced_set(client, "key", "value", mortise::Fence{1}));
}

TEST_CASE("a Sentinel that names a replica is outvoted by the ROLE of that replica") {
  support::RedisServer primary;
  support::RedisServer replica;
  replica.replica_of(primary);
  FakeSentinel const liar{replica.port()};
  FakeSentinel const other_liar{replica.port()};
  FakeSentinel const honest{primary.port()};
  Client client{sentinel_uri(liar, other_liar, honest)};
  Lock lock{client, "lock"};
  auto const lease = lock.try_acquire();
  REQUIRE(lease);
  CHECK(primary.command({"EXISTS", "lock"}).integer == 1);
}

TEST_CASE("where all Sentinels name a replica the error says which server is what") {
  support::RedisServer primary;
  support::RedisServer replica;
  replica.replica_of(primary);
  FakeSentinel const liar{replica.port()};
  Client client{sentinel_uri(liar)};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->retryable());
  CHECK_THAT(error->what(), contains("127.0.0.1:" + std::to_string(replica.port())) && contains("\"slave\"") && contains("\"group\""));
}

TEST_CASE("a Sentinel that names a server that is gone is passed over, also where two of three do") {
  support::RedisServer primary;
  FakeSentinel const stale{1};
  FakeSentinel const also_stale{1};
  FakeSentinel const honest{primary.port()};
  Client client{sentinel_uri(stale, also_stale, honest)};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("where two servers say they are the primary, the one that most Sentinels name gets the lock") {
  FakeNode old;
  FakeNode current;
  FakeSentinel const stale{old.port()};
  FakeSentinel const honest{current.port()};
  FakeSentinel const honest_too{current.port()};
  Client client{sentinel_uri(stale, honest, honest_too)};
  CHECK(Lock{client, "lock"}.try_acquire());
  CHECK(old.connections_ever() == 0);
  CHECK(current.count(Asks::acquire) == 1);
}

TEST_CASE("names in place of addresses are resolved") {
  support::RedisServer primary;
  FakeSentinel const sentinel{primary.port(), "localhost"};
  Client client{sentinel_uri(sentinel)};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("Sentinels that do not answer, or are away, leave enough time for the one that does") {
  support::RedisServer primary;
  FakeSentinel const silent{-1};
  FakeSentinel const honest{primary.port()};
  Client client{"redis+sentinel://127.0.0.1:1," + silent.host_and_port() + "," + honest.host_and_port() + "/group", {.command_timeout = 10s, .connect_timeout = 500ms}};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("a service that no Sentinel knows is refused by its name, at once also out of a wait") {
  FakeSentinel const one{0};
  FakeSentinel const two{0};
  Client client{sentinel_uri(one, two), {.command_timeout = 20s}};
  auto const error = error_of([&] { return Lock{client, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("no Sentinel knows a service \"group\"") && contains(one.host_and_port()) && contains(two.host_and_port()));
}

TEST_CASE("two seconds asked, two seconds got: with all Sentinels down, silent, or naming a server that is") {
  FakeSentinel const silent{-1};
  FakeSentinel const stale{1};
  FakeNode mute;
  mute.answers([](Words const&) { return FakeReply{.bytes = {}, .delay = support::Milliseconds{60'000}}; });
  FakeSentinel const misled{mute.port()};
  auto const uri = GENERATE_REF(values<std::string>({"redis+sentinel://:hunter2@127.0.0.1:1,127.0.0.1:2/group?sentinel_password=hunter3",
                                                     sentinel_uri(silent), sentinel_uri(stale), sentinel_uri(misled), sentinel_uri(silent, silent, misled)}));
  CAPTURE(uri);
  Client client{uri};
  Lock lock{client, "lock"};
  std::optional<Error> error;
  auto const took = time_of([&] { error = error_of([&] { return lock.acquire_for(2s); }); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK_THAT(error->what(), contains("no primary of \"group\"") && contains("127.0.0.1:") && !contains("hunter"));
  CHECK(took >= 1900ms);
  CHECK(took < 3s);
  CHECK(time_of([&] { error = error_of([&] { return lock.try_acquire(); }); }) < 2s);  // command_timeout is 1 s
  CHECK(error);
}

TEST_CASE("acquire() without a deadline ends when no Sentinel was in reach for retry_for") {
  Client client{"redis+sentinel://127.0.0.1:1/group", {.retry_for = 300ms}};
  auto const error = error_of([&] { return Lock{client, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("127.0.0.1:1:"));
}

TEST_CASE("Sentinels are logged in to with credentials of their own, which no message shows") {
  support::ServerOptions guarded;
  guarded.password = "hunter2";
  support::RedisServer primary{guarded};
  FakeSentinel const sentinel{primary.port()};
  auto const servers = sentinel.host_and_port() + "/group";
  Client client{"redis+sentinel://:hunter2@" + servers + "?sentinel_username=watch&sentinel_password=a%26b"};
  CHECK(Lock{client, "lock"}.try_acquire());
  auto const seen = sentinel.requests();
  REQUIRE_FALSE(seen.empty());
  CHECK(seen[0] == Words{"AUTH", "watch", "a&b"});

  Client wrong{"redis+sentinel://:wrong-one@" + servers};
  auto const error = error_of([&] { return Lock{wrong, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::auth_failed);
  CHECK_THAT(error->what(), contains(std::to_string(primary.port())) && !contains("wrong-one"));
}

TEST_CASE("a server that is no Sentinel says so, and a Sentinel that wants a password too") {
  support::RedisServer server;
  Client client{"redis+sentinel://127.0.0.1:" + std::to_string(server.port()) + "/group"};
  auto const error = error_of([&] { return Lock{client, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("unknown command") && contains(std::to_string(server.port())));
}

TEST_CASE("Demoted: connections to the old primary stay, and the lock is held, renewed, waited for and released all the same") {
  support::RedisServer old;
  support::RedisServer next;
  next.replica_of(old);
  FakeSentinel sentinel{old.port()};
  std::atomic<int> losses{0};
  std::mutex mutex;
  std::vector<std::string> endpoints;
  ClientOptions options;
  options.command_timeout = 5s;
  options.observer = [&](Event const& event) {
    losses += event.kind == Event::Kind::lost ? 1 : 0;
    std::lock_guard const guard{mutex};
    if (event.kind == Event::Kind::reconnected) endpoints.push_back(event.endpoint);
  };
  Client client{sentinel_uri(sentinel), options};
  Lock lock{client, "lock", {.ttl = 3s}};
  Lock unrenewed{client, "unrenewed", {.ttl = 20s, .renew = false}};
  auto lease = lock.acquire();
  auto other = unrenewed.acquire();
  support::Waiting waiting{[&] { return lock.acquire_for(60s); }};
  REQUIRE(wait_until([&] { return old.command({"EXISTS", "{lock}:~wait"}).integer == 1 && next.command({"GET", "unrenewed"}).text == old.command({"GET", "unrenewed"}).text; }));

  next.promote();
  old.command({"REPLICAOF", "127.0.0.1", std::to_string(next.port())});
  sentinel.names(next.port());

  next.reset_stats();
  CHECK(wait_until([&] { return next.commandstats()["evalsha"] + next.commandstats()["eval"] >= 6; }));  // renewals and nudges
  CHECK(lease.held());
  CHECK(lease.confirm());
  CHECK(other.extend());
  CHECK(losses == 0);
  auto const fence = lease.fence();
  CHECK(lease.release());
  CHECK(other.release());
  auto const second = waiting.get();
  REQUIRE(second);
  CHECK(second->fence() > fence);
  CHECK(next.command({"EXISTS", "lock"}).integer == 1);
  CHECK(wait_until([&] {
    std::lock_guard const guard{mutex};
    return !endpoints.empty();
  }));
  CHECK(endpoints.front() == "127.0.0.1:" + std::to_string(next.port()));
}

TEST_CASE("a held lock whose new primary does not know it is told lost at the next renewal") {
  support::RedisServer old;
  support::RedisServer next;
  FakeSentinel sentinel{old.port()};
  Client client{sentinel_uri(sentinel)};
  auto lease = Lock{client, "lock", {.ttl = 30s}}.acquire();
  sentinel.names(next.port());
  old.kill();
  CHECK_FALSE(lease.confirm());
  CHECK_FALSE(lease.held());
}

TEST_CASE("tracking goes along to the new primary") {
  support::RedisServer old;
  support::RedisServer next;
  next.replica_of(old);
  FakeSentinel sentinel{old.port()};
  ClientOptions options;
  options.tracking = true;
  Client client{sentinel_uri(sentinel), options};
  auto lease = Lock{client, "lock", {.ttl = 6s}}.acquire();
  REQUIRE(wait_until([&] { return next.command({"GET", "lock"}).text == old.command({"GET", "lock"}).text; }));
  next.promote();
  sentinel.names(next.port());
  old.kill();
  REQUIRE(wait_until([&] { return next.info("clients")["tracking_clients"] == "1"; }));
  REQUIRE(wait_until([&] { return next.commandstats()["exists"] >= 1; }));  // the first look at the key
  auto const told = time_of([&] {
    next.command({"DEL", "lock"});
    CHECK(wait_until([&] { return !lease.held(); }));
  });
  CHECK(told < 1500ms);  // the next renewal is due 2 s after the last one
}

}  // namespace topology
