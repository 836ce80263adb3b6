// SPDX-License-Identifier: MIT
// The proxy: forwards faithfully, and does each fault it offers.
#include "support/catch.hpp"
#include "support/processes.hpp"
#include "support/proxy.hpp"
#include "support/redis_server.hpp"

#include <system_error>
#include <thread>

using support::Cut;
using support::Direction;
using support::Proxy;
using support::RawClient;
using support::RedisServer;
using support::wait_until;
using namespace std::chrono_literals;

namespace {

struct Setting {
  RedisServer server{};
  Proxy proxy{server.port()};

  RawClient connect() const { return RawClient{proxy.port()}; }
};

constexpr auto no_answer = 60ms;

}  // namespace

TEST_CASE("everything passes unchanged, whatever its size", "[proxy]") {
  Setting here;
  auto client = here.connect();
  std::string const large(3'000'000, 'x');
  CHECK(client.command({"SET", "key", large}).is_ok());
  CHECK(client.command({"GET", "key"}).text == large);
  client.send_bytes("PING\r\nPING\r\n");
  CHECK(client.receive().text == "PONG");
  CHECK(client.receive().text == "PONG");
  CHECK(here.proxy.connections_ever() == 1);
  CHECK(here.proxy.connections() == 1);
  CHECK(here.proxy.messages(Direction::request) == 4);
  CHECK(here.proxy.bytes(Direction::reply) > 3'000'000);
}

TEST_CASE("a server at a unix socket is reached by TCP", "[proxy]") {
  RedisServer server;
  Proxy proxy{server.socket_path()};
  CHECK(RawClient{proxy.port()}.command({"PING"}).text == "PONG");
}

TEST_CASE("the end of a client's connection reaches the server, and the other way round", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  client.close();
  CHECK(wait_until([&] { return here.server.client_list().empty(); }));
  auto other = here.connect();
  other.command({"PING"});
  here.server.kill_clients();
  CHECK(wait_until([&] { return other.closed_by_peer(); }));
  other.close();
  CHECK(wait_until([&] { return here.proxy.connections() == 0; }));
}

TEST_CASE("a delay holds each message back for its time", "[proxy]") {
  auto const direction = GENERATE(Direction::request, Direction::reply);
  Setting here;
  auto client = here.connect();
  here.proxy.delay(direction, 100ms);
  auto const start = std::chrono::steady_clock::now();
  client.send({"PING"});
  client.send({"PING"});
  client.receive();
  client.receive();
  CHECK(std::chrono::steady_clock::now() - start >= 100ms);
}

TEST_CASE("held messages arrive when the stall is over", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  here.proxy.hold(Direction::request);
  client.send({"SET", "key", "value"});
  CHECK_FALSE(client.receive_within(no_answer));
  CHECK(here.server.keys().empty());
  here.proxy.resume(Direction::request);
  CHECK(client.receive().is_ok());

  here.proxy.hold(Direction::reply);
  client.send({"GET", "key"});
  client.send({"PING"});
  CHECK_FALSE(client.receive_within(no_answer));
  here.proxy.resume(Direction::reply);
  CHECK(client.receive().text == "value");
  CHECK(client.receive().text == "PONG");
}

TEST_CASE("a trickle is complete and slow", "[proxy]") {
  Setting here;
  auto client = here.connect();
  here.proxy.trickle(Direction::reply, 5ms);
  auto const start = std::chrono::steady_clock::now();
  CHECK(client.command({"ECHO", "0123456789"}).text == "0123456789");
  CHECK(std::chrono::steady_clock::now() - start >= 50ms);
  here.proxy.trickle(Direction::reply, 0ms);
  CHECK(client.command({"PING"}).text == "PONG");
}

TEST_CASE("a black hole takes everything and gives nothing, not even an end", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  here.proxy.black_hole(true);
  client.send({"SET", "key", "value"});
  auto newcomer = here.connect();
  newcomer.send({"PING"});
  CHECK_FALSE(newcomer.receive_within(no_answer));
  CHECK_FALSE(client.receive_within(no_answer));
  CHECK(here.server.keys().empty());

  client.close();
  REQUIRE(wait_until([&] { return here.proxy.connections() == 1; }));
  CHECK(here.server.client_list().size() == 2);
  here.proxy.black_hole(false);
  CHECK(wait_until([&] { return here.server.client_list().size() == 1; }));
  CHECK_FALSE(newcomer.receive_within(no_answer));
  CHECK(here.connect().command({"PING"}).text == "PONG");
}

TEST_CASE("a server that dies behind a black hole is not heard of", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  here.proxy.black_hole(true);
  here.server.kill();
  client.send({"PING"});
  CHECK_FALSE(client.receive_within(no_answer));
  CHECK_FALSE(client.closed_by_peer());
}

TEST_CASE("swallowed replies never arrive, but their requests were run", "[proxy]") {
  Setting here;
  auto first = here.connect();
  auto second = here.connect();
  here.proxy.swallow_replies(1, Proxy::request_has("INCR"));
  CHECK(first.command({"PING"}).text == "PONG");
  first.send({"INCR", "n"});
  first.send({"PING"});
  CHECK_FALSE(first.receive_within(no_answer));
  CHECK(second.command({"INCR", "n"}).integer == 2);
  here.proxy.swallow_replies();
  second.send({"PING"});
  CHECK_FALSE(second.receive_within(no_answer));
  here.proxy.stop_swallowing();
  CHECK(here.connect().command({"PING"}).text == "PONG");
}

TEST_CASE("a connection is cut in place of the reply to a request that was run", "[proxy]") {
  auto const how = GENERATE(Cut::fin, Cut::reset);
  Setting here;
  auto client = here.connect();
  here.proxy.cut_instead_of_reply(Proxy::request_has("INCR"), 1, how);
  client.send({"PING"});
  client.send({"INCR", "n"});
  CHECK(client.receive().text == "PONG");
  CHECK_THROWS_AS(client.receive(), std::runtime_error);
  CHECK(here.connect().command({"INCR", "n"}).integer == 2);
}

TEST_CASE("all connections are cut at once, by an end or by a reset", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  SECTION("an end of stream") {
    here.proxy.cut_all();
    CHECK_THROWS_WITH(client.receive(), "the server closed the connection");
  }
  SECTION("a reset") {
    here.proxy.cut_all(Cut::reset);
    CHECK_THROWS_AS(client.receive(), std::system_error);
  }
  SECTION("also when a forked child has copies of the proxy's sockets") {
    support::ChildProcess child{[](support::Channel& parent) { return parent.read_line() ? 0 : 1; }};
    here.proxy.cut_all(GENERATE(Cut::fin, Cut::reset));
    CHECK_THROWS_AS(client.receive(), std::runtime_error);
    CHECK(child.alive());
  }
  CHECK(here.proxy.connections() == 0);
  CHECK(wait_until([&] { return here.server.client_list().empty(); }));
  CHECK(here.connect().command({"PING"}).text == "PONG");
}

TEST_CASE("a half-closed connection still works in the other direction", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  here.proxy.half_close(Direction::reply);
  CHECK(wait_until([&] { return client.closed_by_peer(); }));
  client.send({"SET", "key", "value"});
  CHECK(wait_until([&] { return !here.server.keys().empty(); }));
}

TEST_CASE("new connections are refused while present ones go on", "[proxy]") {
  Setting here;
  auto client = here.connect();
  here.proxy.refuse(true);
  CHECK_THROWS_AS(here.connect(), std::system_error);
  CHECK(client.command({"PING"}).text == "PONG");
  here.proxy.refuse(false);
  CHECK(here.connect().command({"PING"}).text == "PONG");
}

TEST_CASE("behind a full backlog new connections hang until it is drained", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  here.proxy.full_backlog(true);
  CHECK_THROWS_WITH(RawClient(here.proxy.port(), 200ms), support::contains("timed out"));
  CHECK(client.command({"PING"}).text == "PONG");
  here.proxy.full_backlog(false);
  CHECK(here.connect().command({"PING"}).text == "PONG");
  CHECK(here.proxy.connections_ever() >= 2);
}

TEST_CASE("replies are replaced by any bytes", "[proxy]") {
  Setting here;
  auto client = here.connect();
  here.proxy.replace_replies("-READONLY on purpose\r\n", 1, Proxy::request_has("SET"));
  CHECK(client.command({"PING"}).text == "PONG");
  CHECK(client.command({"SET", "key", "value"}).is_error());
  CHECK(client.command({"SET", "key", "value"}).is_ok());
  here.proxy.replace_replies("?garbage\r\n");
  CHECK_THROWS_WITH(client.command({"PING"}), support::contains("not a reply"));
}

TEST_CASE("a hook rewrites messages in both directions", "[proxy]") {
  Setting here;
  auto client = here.connect();
  here.proxy.rewrite([](Direction direction, std::string message) {
    if (auto const at = message.find("left"); at != std::string::npos && direction == Direction::request)
      message.replace(at, 4, "gone");
    return message == "+PONG\r\n" ? "+GNOP\r\n" : message;
  });
  CHECK(client.command({"ECHO", "left"}).text == "gone");
  CHECK(client.command({"PING"}).text == "GNOP");
}

TEST_CASE("what passes is on record, and silence can be proved", "[proxy]") {
  Setting here;
  auto client = here.connect();
  client.command({"PING"});
  here.proxy.record();
  client.command({"ECHO", "x"});
  CHECK(here.proxy.recorded(Direction::request) == std::vector{support::wire_format({"ECHO", "x"})});
  CHECK(here.proxy.recorded(Direction::reply) == std::vector<std::string>{"$1\r\nx\r\n"});
  here.proxy.clear_record();
  CHECK(here.proxy.recorded(Direction::request).empty());
}

TEST_CASE("later connections can go to another server", "[proxy]") {
  Setting here;
  RedisServer other;
  other.command({"SET", "key", "other"});
  here.proxy.forward_to(other.port());
  CHECK(here.connect().command({"GET", "key"}).text == "other");
  other.kill();
  CHECK_THROWS_AS(here.connect().command({"PING"}), std::runtime_error);
}

TEST_CASE("switches are safe from many threads while traffic runs", "[proxy]") {
  Setting here;
  std::atomic<bool> ended = false;
  std::vector<std::thread> threads;
  for (int number = 0; number < 2; ++number)
    threads.emplace_back([&] {
      auto client = here.connect();
      for (int round = 0; round < 300; ++round)
        client.command({"PING"});
      ended = true;
    });
  threads.emplace_back([&] {
    while (!ended) {
      here.proxy.delay(Direction::reply, 1ms);
      here.proxy.hold(Direction::request);
      here.proxy.resume(Direction::request);
      here.proxy.delay(Direction::reply, 0ms);
    }
  });
  for (auto& thread : threads)
    thread.join();
  CHECK(here.proxy.messages(Direction::reply) == 600);
}
