// SPDX-License-Identifier: MIT
// A server that is there and refuses: the class of the error, what its message says, and that all goes on when the state ends.
#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>

#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

/// A passing refusal: its class, its word and its advice.
void check_refusal(std::optional<Error> const& error, std::string const& word, std::string const& advice) {
  REQUIRE(error);
  INFO(error->what());
  CHECK(error->errc() == Errc::server_refused);
  CHECK(error->retryable());
  CHECK_FALSE(error->in_doubt());
  CHECK_THAT(error->what(), contains(word) && contains(advice) && contains("127.0.0.1:"));
}

/// What a state that refuses writes does to everything: `begin` and `end` switch it.
template <class Begin, class End>
void refuses_writes(LockServer& redis, std::string const& word, std::string const& advice, Begin const& begin, End const& end) {
  Client client{redis.uri()};
  Lock lock{client, "other"};
  auto kept = Lock{client, "kept", {.ttl = 1min}}.acquire();
  auto lasting = std::optional{Lock{client, "lasting", {.ttl = 1h}}.acquire()};
  auto brief = Lock{client, "brief", {.ttl = 300ms}}.acquire();
  begin();
  check_refusal(error_of([&] { return lock.try_acquire(); }), word, advice);
  check_refusal(error_of([&] { return lock.acquire_for(100ms); }), word, advice);
  CHECK(wait_until([&] { return !brief.held(); }));  // its renewals are refused
  CHECK(kept.held());
  check_refusal(error_of([&] { return kept.release(); }), word, advice);
  CHECK_FALSE(kept.held());
  lasting.reset();  // a destructor cannot tell, but goes on trying
  for (auto const* const key : {"kept", "lasting"})
    if (auto const there = redis.command({"EXISTS", key}); !there.is_error()) CHECK(there.integer == 1);
  Waiting waiting{[&] { return lock.acquire_for(1min); }};
  CHECK_FALSE(waiting.over_within(200ms));
  end();
  CHECK(waiting.get());
  CHECK(wait_until([&] { return !redis.exists("kept") && !redis.exists("lasting"); }));  // long before their TTL
  CHECK(Lock{client, "kept"}.try_acquire());
  CHECK(wait_until([&] { return !redis.exists("brief"); }));
}

}  // namespace

TEST_CASE("LOADING: tries are refused as passing, waits and releases go on when the data is there") {
  LockServer redis{{.config = {"key-load-delay 500", "loading-process-events-interval-bytes 1024"}}};
  redis.command({"EVAL", "for i = 1, 2000 do redis.call('SET', 'filler:' .. i, 'x') end", "0"});
  Client client{redis.uri()};
  auto lease = Lock{client, "held", {.ttl = 1min}}.acquire();
  std::atomic<bool> ended{false}, met{false}, otherwise{false};
  std::thread trying{[&] {
    while (!ended) {
      auto const error = error_of([&] { return Lock{client, "tried"}.try_acquire(); });
      if (!error || error->errc() != Errc::server_refused) continue;
      met = true;
      if (!error->retryable() || std::string_view{error->what()}.find("LOADING") == std::string_view::npos) otherwise = true;
      std::this_thread::sleep_for(10ms);
    }
  }};
  Client waiter{redis.uri()};
  Waiting waiting{[&] { return Lock{waiter, "awaited"}.acquire_for(1min); }};
  CHECK(waiting.get());
  redis.restart(LockServer::Data::kept);
  Waiting after{[&] { return Lock{waiter, "awaited"}.acquire_for(1min); }};
  ended = true;
  trying.join();
  CHECK(met);
  CHECK_FALSE(otherwise);
  CHECK(after.get());
  CHECK(lease.held());
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK_FALSE(redis.exists("held"));
}

TEST_CASE("BUSY: an endless script is waited out, and never killed by us") {
  LockServer redis{{.config = {"lua-time-limit 5"}}};
  Client client{redis.uri()};
  Lock lock{client, "other"};
  auto kept = Lock{client, "kept", {.ttl = 1min}}.acquire();
  auto brief = Lock{client, "brief", {.ttl = 300ms}}.acquire();
  auto script = redis.connect();
  script.send({"EVAL", "while true do end", "0"});
  REQUIRE(wait_until([&] { return redis.command({"PING"}).is_error(); }));
  check_refusal(error_of([&] { return lock.try_acquire(); }), "BUSY", "SCRIPT KILL");
  check_refusal(error_of([&] { return lock.acquire_for(100ms); }), "BUSY", "SCRIPT KILL");
  CHECK(wait_until([&] { return !brief.held(); }));
  check_refusal(error_of([&] { return kept.release(); }), "BUSY", "SCRIPT KILL");
  Waiting waiting{[&] { return lock.acquire_for(1min); }};
  CHECK_FALSE(waiting.over_within(200ms));
  CHECK(redis.command({"PING"}).is_error());  // still
  redis.command({"SCRIPT", "KILL"});
  CHECK(waiting.get());
  CHECK(wait_until([&] { return !redis.exists("kept"); }));
  auto const stats = redis.commandstats();
  CHECK((stats.contains("script|kill") ? stats.at("script|kill") : stats.at("script")) == 1);  // the test's own
}

TEST_CASE("MISCONF: a server that cannot save refuses all writes, releases too, and is served again when it can") {
  LockServer redis;
  auto const dump = redis.folder() / "dump.rdb";
  refuses_writes(
      redis, "MISCONF", "persistence",
      [&] {
        std::filesystem::create_directory(dump);  // where the file has to go
        redis.config_set("save", "3600 1");
        redis.command({"BGSAVE"});
        REQUIRE(wait_until([&] { return redis.info("persistence").at("rdb_last_bgsave_status") == "err"; }));
      },
      [&] {
        std::filesystem::remove(dump);
        redis.command({"BGSAVE"});
        REQUIRE(wait_until([&] { return redis.info("persistence").at("rdb_last_bgsave_status") == "ok"; }));
      });
}

TEST_CASE("NOREPLICAS: a server that misses its replicas refuses all writes, releases too, until they are back") {
  LockServer redis;
  LockServer replica;
  replica.replica_of(redis);
  redis.config_set("min-replicas-to-write", "1");
  redis.config_set("min-replicas-max-lag", "2");
  REQUIRE(wait_until([&] { return redis.info("replication")["min_slaves_good_slaves"] == "1"; }));
  refuses_writes(
      redis, "NOREPLICAS", "min-replicas-to-write",
      [&] {
        replica.promote();
        REQUIRE(wait_until([&] { return redis.info("replication")["min_slaves_good_slaves"] == "0"; }));
      },
      [&] { replica.replica_of(redis); });
}

TEST_CASE("READONLY: a primary that becomes a replica while locks are held refuses by name, and serves again as a primary") {
  LockServer redis;
  refuses_writes(
      redis, "READONLY", "primary", [&] { redis.command({"REPLICAOF", "127.0.0.1", "1"}); }, [&] { redis.promote(); });
}

TEST_CASE("MASTERDOWN: a replica that lost its primary and serves no stale data refuses by name") {
  LockServer redis{{.config = {"replica-serve-stale-data no"}}};
  refuses_writes(
      redis, "MASTERDOWN", "primary", [&] { redis.command({"REPLICAOF", "127.0.0.1", "1"}); }, [&] { redis.promote(); });
}

TEST_CASE("a waiter whose server becomes a replica and a primary again waits on") {
  LockServer redis;
  Client client{redis.uri()};
  auto held = Lock{client, "lock", {.ttl = 1min}}.acquire();
  Client other{redis.uri()};
  Waiting waiting{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.command({"REPLICAOF", "127.0.0.1", "1"});
  CHECK_FALSE(waiting.over_within(300ms));
  redis.promote();
  REQUIRE(redis.has_blocked(1));
  CHECK(held.release());
  CHECK(waiting.get().held());
}

TEST_CASE("OOM: a full server grants nothing new, but renews, releases and hands over") {
  LockServer redis;
  Client client{redis.uri()};
  Client other{redis.uri()};
  auto lease = Lock{client, "lock", {.ttl = 500ms}}.acquire();
  Waiting turn{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.config_set("maxmemory", "1");
  check_refusal(error_of([&] { return Lock{client, "new"}.try_acquire(); }), "OOM", "maxmemory");
  check_refusal(error_of([&] { return Lock{client, "new"}.acquire_for(100ms); }), "OOM", "maxmemory");
  std::this_thread::sleep_for(1s);  // two TTLs
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(turn.get().held());
  Waiting waiting{[&] { return Lock{client, "new"}.acquire_for(1min); }};
  CHECK_FALSE(waiting.over_within(200ms));
  redis.config_set("maxmemory", "0");
  CHECK(waiting.get());
}

TEST_CASE("a lock that the server evicts is lost at the next renewal, and the next fence is higher all the same") {
  LockServer redis;
  Client client{redis.uri()};
  auto renewed = Lock{client, "renewed", {.ttl = 600ms}}.acquire();
  auto unrenewed = Lock{client, "unrenewed", {.ttl = 1h, .renew = false}}.acquire();
  redis.config_set("maxmemory-policy", "allkeys-lru");
  redis.config_set("maxmemory", "1");
  redis.command({"SET", "filler", "x"});
  REQUIRE(redis.keys().empty());  // the counters of the fences too
  redis.config_set("maxmemory", "0");
  CHECK(wait_until([&] { return !renewed.held(); }));
  CHECK(unrenewed.held());  // nobody has asked
  CHECK_FALSE(unrenewed.confirm());
  auto const next = Lock{client, "renewed"}.acquire();
  CHECK(next.fence() > renewed.fence());
}

TEST_CASE("a server that closes idle connections costs no release and no wait") {
  LockServer redis;
  redis.config_set("timeout", "1");
  Client client{redis.uri()};
  auto lease = Lock{client, "lock", {.ttl = 1min, .renew = false}}.acquire();
  Client other{redis.uri()};
  Waiting waiting{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  std::this_thread::sleep_for(3s);
  CHECK(redis.blocked() == 1);
  CHECK(lease.release());
  CHECK(waiting.get().held());
}

TEST_CASE("too many clients: refused as passing, held locks are renewed, and everybody gets in when there is room") {
  LockServer redis;
  Client client{redis.uri()};
  auto held = Lock{client, "held", {.ttl = 1s}}.acquire();
  std::this_thread::sleep_for(500ms);  // its renewals have their connection
  redis.config_set("maxclients", "20");
  std::vector<support::RawClient> outside;
  REQUIRE(wait_until([&] {
    outside.push_back(redis.connect());
    return outside.back().command({"PING"}).is_error();
  }));
  Client late{redis.uri(), {.command_timeout = 2s}};
  check_refusal(error_of([&] { return Lock{late, "other"}.try_acquire(); }), "max number of clients", "maxclients");
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < 40; ++i)
    waiting.emplace_back([&, i] { return Lock{late, "name:" + std::to_string(i % 10)}.acquire_for(1min).has_value(); });
  std::this_thread::sleep_for(2s);  // two TTLs
  CHECK(held.held());
  CHECK(held.confirm());
  outside.clear();
  CHECK(std::ranges::all_of(waiting, [](auto& one) { return one.get(); }));
  CHECK(held.release());
}
