// SPDX-License-Identifier: MIT
// What nodes of a cluster say instead of an answer, and what becomes of the call. The nodes are played, so these are quick.
#include "fake_node.hpp"

namespace topology {

TEST_CASE("MOVED: the call goes where it is sent, and the next one goes there by itself") {
  FakeCluster cluster;
  Client client{cluster.uri()};
  Lock lock{client, "lock"};
  CHECK(lock.try_acquire());
  cluster.first.refuses("MOVED " + std::to_string(mortise::detail::key_slot("lock")) + " " + cluster.second.host_and_port());
  cluster.all_slots_at(cluster.second);
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  CHECK(lease->release());
  CHECK(lock.try_acquire());
  CHECK(cluster.first.count(Asks::acquire) == 2);
  CHECK(cluster.first.count(Asks::release) == 1);
  CHECK(cluster.second.count(Asks::acquire) == 2);
  CHECK(cluster.second.count(Asks::release) == 2);
}

TEST_CASE("MOVED without a host means the host that was asked, at another port") {
  FakeCluster cluster;
  Client client{cluster.uri()};
  auto const host = GENERATE(as<std::string>{}, "", "?");
  cluster.first.refuses("MOVED " + std::to_string(mortise::detail::key_slot("lock")) + " " + host + ":" + std::to_string(cluster.second.port()));
  CHECK(Lock{client, "lock"}.try_acquire());
  CHECK(cluster.second.count(Asks::acquire) >= 1);
}

TEST_CASE("ASK: that one call asks elsewhere, with ASKING right in front of it") {
  FakeCluster cluster;
  Client client{cluster.uri()};
  Lock lock{client, "lock"};
  cluster.first.refuses("ASK 1 " + cluster.second.host_and_port());
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  auto const seen = cluster.second.requests();
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (asks(seen[i]) == Asks::acquire) CHECK(seen.at(i - 1) == Words{"ASKING"});
  cluster.first.answers({});
  CHECK(lease->release());
  CHECK(cluster.first.count(Asks::release) == 1);
  CHECK(cluster.second.count(Asks::release) == 0);
}

TEST_CASE("ASK: a blocking pop and the claim behind it each have an ASKING in front") {
  FakeCluster cluster;
  cluster.first.refuses("ASK 1 " + cluster.second.host_and_port());
  std::atomic<int> acquires{0};
  cluster.second.answers([&](Words const& words) -> std::optional<FakeReply> {
    if (asks(words) == Asks::pop) return FakeReply{.bytes = array({support::bulk("w"), support::bulk("1")})};
    if (asks(words) == Asks::acquire && acquires++ == 0) return FakeReply{.bytes = busy()};
    return std::nullopt;
  });
  Client client{cluster.uri()};
  auto const lease = Lock{client, "lock"}.acquire_for(10s);
  REQUIRE(lease);
  std::vector<std::string> order;
  for (auto const& words : cluster.second.requests())
    if (words[0] == "ASKING" || words[0] == "BLPOP" || words[0] == "EVALSHA") order.push_back(words[0]);
  REQUIRE(order.size() >= 6);
  order.resize(6);
  CHECK(order == std::vector<std::string>{"ASKING", "EVALSHA", "ASKING", "BLPOP", "ASKING", "EVALSHA"});
}

TEST_CASE("TRYAGAIN and CLUSTERDOWN are waited out, also by a single try") {
  auto const text = GENERATE(as<std::string>{}, "TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down",
                             "LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down");
  CAPTURE(text);
  FakeCluster cluster;
  std::atomic<int> asked{0};
  cluster.first.answers([&](Words const& words) -> std::optional<FakeReply> {
    if (asks(words) != Asks::acquire || asked++ >= 3) return std::nullopt;
    return FakeReply{.bytes = refused(text)};
  });
  Client client{cluster.uri(), {.command_timeout = 20s}};
  CHECK(Lock{client, "lock"}.try_acquire());
  CHECK(asked == 4);
}

TEST_CASE("what never ends in an answer ends by the deadline, retryable, with the last word of the cluster") {
  struct Row {
    std::string text, shown;
  };
  auto const row = GENERATE(values<Row>({{"TRYAGAIN Multiple keys", "TRYAGAIN"}, {"CLUSTERDOWN Hash slot not served", "CLUSTERDOWN"}, {"circle", "MOVED"}}));
  CAPTURE(row.text);
  FakeCluster cluster;
  if (row.text == "circle") {
    auto const slot = std::to_string(mortise::detail::key_slot("lock"));
    cluster.first.refuses("MOVED " + slot + " " + cluster.second.host_and_port());
    cluster.second.refuses("MOVED " + slot + " " + cluster.first.host_and_port());
  } else {
    cluster.first.refuses(row.text);
  }
  Client client{cluster.uri(), {.command_timeout = 500ms}};
  Lock lock{client, "lock"};
  for (bool const waits : {false, true}) {
    std::optional<Error> error;
    auto const took = time_of([&] { error = error_of([&] { return waits ? lock.acquire_for(500ms) : lock.try_acquire(); }); });
    REQUIRE(error);
    CHECK(error->errc() == Errc::server_refused);
    CHECK(error->retryable());
    CHECK_FALSE(error->in_doubt());
    CHECK_THAT(error->what(), contains(row.shown) && contains("127.0.0.1:"));
    CHECK(took >= 400ms);
    CHECK(took < 5s);
  }
  CHECK(cluster.first.count(Asks::acquire) + cluster.second.count(Asks::acquire) < 200);  // backed off: no storm
}

TEST_CASE("a lock whose keys a cluster cannot have together is refused before anything is sent") {
  FakeCluster cluster;
  Client client{cluster.uri()};
  for (std::string const name : {"a}b", "}", "x}{", "{}x}"}) {
    CAPTURE(name);
    Lock lock{client, name};
    for (auto const& error : {error_of([&] { return lock.try_acquire(); }), error_of([&] { return lock.acquire_for(10s); }),
                              error_of([&] { return mortise::fenced_set(client, name, "value", mortise::Fence{1}); })}) {
      REQUIRE(error);
      CHECK(error->errc() == Errc::invalid_option);
      CHECK_THAT(error->what(), contains("'}'") && contains("{tag}") && contains("cluster"));
    }
  }
  CHECK(cluster.first.connections_ever() == 0);
}

TEST_CASE("each node is told a script in full once when it does not know it") {
  FakeCluster cluster;
  for (auto* const node : {&cluster.first, &cluster.second})
    node->answers([](Words const& words) -> std::optional<FakeReply> {
      if (words[0] == "EVALSHA") return FakeReply{.bytes = refused("NOSCRIPT No matching script. Please use EVAL.")};
      return std::nullopt;
    });
  cluster.first.maps({slot_range(0, 8191, "", cluster.first.port()), slot_range(8192, 16383, "?", cluster.second.port())});
  Client client{cluster.uri()};
  for (std::string const name : {"foo", "bar"}) {  // slots 12182 and 5061
    auto lease = Lock{client, name}.try_acquire();
    REQUIRE(lease);
    CHECK(lease->confirm());
    CHECK(lease->release());
  }
  CHECK(cluster.second.count(Asks::acquire) == 2);
}

TEST_CASE("a renewal follows MOVED and ASK, and its lease never notices") {
  FakeCluster cluster;
  std::atomic<int> losses{0};
  std::atomic<int> renewals{0};
  ClientOptions options;
  options.observer = [&](Event const& event) {
    losses += event.kind == Event::Kind::lost ? 1 : 0;
    renewals += event.kind == Event::Kind::renewed ? 1 : 0;
  };
  Client client{cluster.uri(), options};
  auto lease = Lock{client, "lock", {.ttl = 900ms}}.try_acquire();
  REQUIRE(lease);
  CHECK(wait_until([&] { return renewals >= 1; }));  // asked, and answered by the first
  cluster.first.refuses("ASK 1 " + cluster.second.host_and_port());
  CHECK(wait_until([&] { return cluster.second.count(Asks::keep) >= 2; }));
  auto const asked_before = cluster.first.count(Asks::keep);
  CHECK(asked_before >= 3);
  cluster.all_slots_at(cluster.second);
  cluster.first.refuses("MOVED " + std::to_string(mortise::detail::key_slot("lock")) + " " + cluster.second.host_and_port());
  auto const keeps = cluster.second.count(Asks::keep);
  CHECK(wait_until([&] { return cluster.second.count(Asks::keep) >= keeps + 3; }));
  CHECK(cluster.first.count(Asks::keep) <= asked_before + 2);
  CHECK(lease->held());
  CHECK(losses == 0);
  CHECK(lease->release());
}

TEST_CASE("a node that falls silent costs its own leases, and no others") {
  FakeCluster cluster;
  for (auto* const node : {&cluster.first, &cluster.second})
    node->maps({slot_range(0, 8191, "127.0.0.1", cluster.first.port()), slot_range(8192, 16383, "127.0.0.1", cluster.second.port())});
  Client client{cluster.uri()};
  auto const other = Lock{client, "bar", {.ttl = 2s}}.try_acquire();  // at the first node
  auto const silent = Lock{client, "foo", {.ttl = 2s}}.try_acquire();
  REQUIRE(other);
  REQUIRE(silent);
  cluster.second.answers([](Words const&) { return FakeReply{.bytes = {}, .delay = support::Milliseconds{60'000}}; });
  CHECK(wait_until([&] { return !silent->held(); }));
  CHECK(other->held());
  auto const keeps = cluster.first.count(Asks::keep);
  CHECK(wait_until([&] { return !other->held() || cluster.first.count(Asks::keep) >= keeps + 6; }));
  CHECK(other->held());
}

TEST_CASE("the map comes from another node when the first one asked does not answer") {
  FakeCluster cluster;
  cluster.first.answers([](Words const&) { return FakeReply{.bytes = {}, .delay = support::Milliseconds{60'000}}; });
  cluster.all_slots_at(cluster.second);
  Client client{cluster.uri() + "," + cluster.second.host_and_port(), {.command_timeout = 10s, .connect_timeout = 300ms}};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("a slot that nobody serves, a cluster that nobody reaches, and a server that is no cluster are told apart") {
  FakeCluster cluster;
  cluster.first.maps({slot_range(0, 1, "127.0.0.1", cluster.first.port())});
  Client partial{cluster.uri(), {.command_timeout = 300ms}};
  auto const unserved = error_of([&] { return Lock{partial, "lock"}.try_acquire(); });
  REQUIRE(unserved);
  CHECK(unserved->retryable());
  CHECK_THAT(unserved->what(), contains("serves slot " + std::to_string(mortise::detail::key_slot("lock"))));

  Client nobody{"redis+cluster://user:hunter2@127.0.0.1:1,127.0.0.1:2", {.command_timeout = 300ms}};
  auto const unreachable = error_of([&] { return Lock{nobody, "lock"}.try_acquire(); });
  REQUIRE(unreachable);
  CHECK(unreachable->errc() == Errc::connect_failed);
  CHECK_THAT(unreachable->what(), contains("127.0.0.1:1:") && contains("127.0.0.1:2:") && !contains("hunter2"));

  cluster.first.answers([](Words const& words) -> std::optional<FakeReply> {
    if (words[0] == "CLUSTER") return FakeReply{.bytes = refused("ERR This instance has cluster support disabled")};
    return std::nullopt;
  });
  Client single{cluster.uri(), {.command_timeout = 20s}};
  auto const alone = error_of([&] { return Lock{single, "lock"}.acquire_for(20s); });
  REQUIRE(alone);
  CHECK_FALSE(alone->retryable());
  CHECK_THAT(alone->what(), contains("no cluster") && contains("redis://"));
}

TEST_CASE("a map that is nonsense is an error, never a crash") {
  auto const ranges = GENERATE(values<std::string>({"+OK\r\n", "*1\r\n:1\r\n", "*-1\r\n", ":7\r\n", "$-1\r\n"}));
  auto const first = GENERATE(-1, 0, 16384);
  auto const port = GENERATE(0, 65536);
  FakeCluster cluster;
  cluster.first.answers([&](Words const& words) -> std::optional<FakeReply> {
    if (words[0] != "CLUSTER") return std::nullopt;
    return FakeReply{.bytes = first == 0 ? ranges : array({slot_range(first, 16383, "h", port)})};
  });
  Client client{cluster.uri(), {.command_timeout = 50ms}};
  CHECK(error_of([&] { return Lock{client, "lock"}.try_acquire(); }));
}

}  // namespace topology
