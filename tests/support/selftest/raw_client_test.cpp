// SPDX-License-Identifier: MIT
// The foreign client: commands, pipelines, blocking, and dead peers without SIGPIPE.
#include "support/catch.hpp"
#include "support/raw_client.hpp"
#include "support/redis_server.hpp"
#include "support/wait_until.hpp"

using support::RawClient;
using support::RedisServer;
using namespace std::chrono_literals;

TEST_CASE("a foreign lock is taken once and released by its value only", "[raw_client]") {
  RedisServer server;
  RawClient client{server.port()};
  CHECK(client.set_nx_px("lock", "mine", 10'000));
  CHECK_FALSE(client.set_nx_px("lock", "other", 10'000));
  CHECK_FALSE(client.compare_and_delete("lock", "other"));
  CHECK(client.compare_and_delete("lock", "mine"));
}

TEST_CASE("answers of a pipeline come in order", "[raw_client]") {
  RedisServer server;
  RawClient client{server.socket_path()};
  client.send({"INCR", "n"});
  client.send({"INCR", "n"});
  client.send_bytes(support::wire_format({"ECHO", "x\r\n"}) + "PING\r\n");
  CHECK(client.receive().integer == 1);
  CHECK(client.receive().integer == 2);
  CHECK(client.receive().text == "x\r\n");
  CHECK(client.receive().text == "PONG");
}

TEST_CASE("a blocked pop is answered by a push", "[raw_client]") {
  RedisServer server;
  RawClient waiter{server.port()};
  waiter.send({"BLPOP", "list", "0"});
  CHECK_FALSE(waiter.receive_within(20ms));
  RawClient{server.port()}.command({"RPUSH", "list", "element"});
  CHECK(waiter.receive().items.at(1).text == "element");
}

TEST_CASE("a dead peer is an exception", "[raw_client]") {
  RedisServer server;
  RawClient client{server.port()};
  client.command({"PING"});
  CHECK_FALSE(client.closed_by_peer());
  server.kill();
  CHECK(support::wait_until([&] { return client.closed_by_peer(); }));
  for (int round = 0; round < 3; ++round)
    CHECK_THROWS_AS(client.command({"PING"}), std::runtime_error);
}
