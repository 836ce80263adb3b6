// SPDX-License-Identifier: MIT
// The server fixture: start, faults, restart, and what it tells.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/redis_server.hpp"
#include "support/resources.hpp"
#include "support/wait_until.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

using support::Answer;
using support::RawClient;
using support::RedisServer;
using Data = support::RedisServer::Data;
using namespace std::chrono_literals;

TEST_CASE("a server answers by TCP and by unix socket as soon as it is constructed", "[redis_server]") {
  RedisServer server;
  CHECK(RawClient{server.port()}.command({"PING"}).text == "PONG");
  CHECK(RawClient{server.socket_path()}.command({"PING"}).text == "PONG");
  CHECK(server.uri() == "redis://127.0.0.1:" + std::to_string(server.port()));
  CHECK_THAT(server.unix_uri(), support::starts_with("unix:///"));
  CHECK(server.info("server").at("process_id") == std::to_string(server.pid()));
}

TEST_CASE("several servers live side by side and leave nothing behind", "[redis_server]") {
  std::filesystem::path folder;
  pid_t pid = 0;
  {
    RedisServer one;
    RedisServer two;
    one.command({"SET", "key", "one"});
    CHECK(two.command({"GET", "key"}).is_nil());
    folder = one.folder();
    pid = one.pid();
    one.freeze();
  }
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("answers keep their kind and every byte", "[redis_server]") {
  RedisServer server;
  std::string const bytes{"a\0b\r\n\xff", 6};
  CHECK(server.command({"SET", bytes, bytes}).is_ok());
  CHECK(server.command({"GET", bytes}) == Answer{Answer::Kind::string, bytes, 0, {}});
  CHECK(server.command({"INCR", "n"}).integer == 1);
  CHECK(server.command({"GET", "none"}).is_nil());
  CHECK(server.command({"LPUSH", bytes, "x"}).is_error());
  CHECK(server.command({"KEYS", "n"}).items.size() == 1);
}

TEST_CASE("a frozen server says nothing until it is thawed", "[redis_server]") {
  RedisServer server;
  auto client = server.connect();
  server.freeze();
  client.send({"PING"});
  CHECK_FALSE(client.receive_within(50ms));
  CHECK(RawClient{server.port()}.descriptor() >= 0);
  server.thaw();
  CHECK(client.receive().text == "PONG");
}

TEST_CASE("a killed server refuses, and comes back on its port with or without its data", "[redis_server]") {
  RedisServer server{{.append_only = true}};
  auto const port = server.port();
  server.command({"SET", "key", "value"});
  server.kill();
  CHECK_FALSE(server.running());
  CHECK_THROWS(RawClient{port});

  server.restart(Data::kept);
  CHECK(server.port() == port);
  CHECK(server.command({"GET", "key"}).text == "value");
  server.restart(Data::lost);
  CHECK(server.command({"GET", "key"}).is_nil());
}

TEST_CASE("a running server without persistence keeps its data over a restart that asks for it", "[redis_server]") {
  RedisServer server;
  server.command({"SET", "key", "value"});
  server.restart(Data::kept);
  CHECK(server.keys() == std::vector<std::string>{"key"});
  server.stop();
  CHECK_FALSE(server.running());
  server.restart(Data::lost);
  CHECK(server.keys().empty());
}

TEST_CASE("passwords and users do not disturb the fixture", "[redis_server]") {
  std::string const awkward = "p@:/#% +\"\\\xc3\xa9";
  RedisServer server{{.password = awkward, .users = {"alice on >secret ~lock:* +get"}}};
  CHECK(server.command({"SET", "lock:a", "1"}).is_ok());
  CHECK(RawClient{server.port()}.command({"GET", "lock:a"}).is_error());
  CHECK(server.connect().command({"GET", "lock:a"}).text == "1");
  CHECK_THAT(server.uri(), support::contains(":p%40%3A%2F%23%25%20%2B%22%5C%C3%A9@"));

  RawClient alice{server.port()};
  CHECK(alice.command({"AUTH", "alice", "secret"}).is_ok());
  CHECK(alice.command({"GET", "lock:a"}).text == "1");
  CHECK_THAT(alice.command({"SET", "lock:a", "1"}).text, support::starts_with("NOPERM"));

  server.config_set("requirepass", "other");
  CHECK(server.config_get("requirepass") == "other");
}

TEST_CASE("the fixture's own commands and connection are not counted", "[redis_server]") {
  RedisServer server;
  CHECK(server.commands_processed() == 0);
  CHECK(server.client_list().empty());
  auto client = server.connect();
  for (int round = 0; round < 3; ++round)
    client.command({"INCR", "n"});
  server.keys();
  CHECK(server.commands_processed() == 3);
  CHECK(server.commandstats().at("incr") == 3);
  CHECK(server.client_list().size() == 1);
  server.reset_stats();
  CHECK(server.commands_processed() == 0);
  CHECK(server.commandstats().count("incr") == 0);
  client.command({"INCR", "n"});
  CHECK(server.commands_processed() == 1);
}

TEST_CASE("clients are killed by type and the fixture survives", "[redis_server]") {
  RedisServer server;
  auto normal = server.connect();
  auto subscriber = server.connect();
  subscriber.command({"SUBSCRIBE", "channel"});
  CHECK(server.kill_clients("pubsub") == 1);
  CHECK(support::wait_until([&] { return subscriber.closed_by_peer(); }));
  CHECK(normal.command({"PING"}).text == "PONG");
  CHECK(server.kill_clients() == 1);
  CHECK_THROWS(normal.command({"PING"}));
  CHECK(server.client_list().empty());
}

TEST_CASE("a paused server answers when the pause is over", "[redis_server]") {
  RedisServer server;
  auto client = server.connect();
  server.client_pause(200);
  auto const start = std::chrono::steady_clock::now();
  CHECK(client.command({"GET", "key"}).is_nil());
  CHECK(std::chrono::steady_clock::now() - start > 100ms);
}

TEST_CASE("flushed scripts are gone", "[redis_server]") {
  RedisServer server;
  auto const sha = server.command({"SCRIPT", "LOAD", "return 1"}).text;
  CHECK(server.command({"EVALSHA", sha, "0"}).integer == 1);
  server.flush_scripts();
  CHECK_THAT(server.command({"EVALSHA", sha, "0"}).text, support::starts_with("NOSCRIPT"));
}

TEST_CASE("a replica follows its master and can be promoted", "[redis_server]") {
  RedisServer master{{.password = "secret"}};
  RedisServer replica;
  master.command({"SET", "key", "value"});
  replica.replica_of(master);
  CHECK(replica.command({"GET", "key"}).text == "value");
  CHECK_THAT(replica.command({"SET", "key", "x"}).text, support::starts_with("READONLY"));
  replica.promote();
  CHECK(replica.command({"SET", "key", "x"}).is_ok());
}

TEST_CASE("the fixture reconnects when the server has closed its idle connection", "[redis_server]") {
  RedisServer server;
  auto client = server.connect();
  client.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  CHECK(server.command({"PING"}).text == "PONG");
}

TEST_CASE("a server that is not installed is named", "[redis_server]") {
  ::setenv("MORTISE_TEST_SERVER", "no-such-server", 1);
  CHECK_THROWS_WITH(RedisServer{}, support::contains("no-such-server is not installed: install the package"));
  ::unsetenv("MORTISE_TEST_SERVER");
}

TEST_CASE("a server that does not start shows its log", "[redis_server]") {
  CHECK_THROWS_WITH(RedisServer({.config = {"no-such-directive 1"}}), support::contains("does not start"));
}

TEST_CASE("a server dies with the process that started it, from whichever thread", "[redis_server]") {
  bool const in_thread = GENERATE(false, true);
  support::ChildProcess owner{[in_thread](support::Channel& parent) {
    std::optional<RedisServer> server;
    if (in_thread)
      std::thread{[&] { server.emplace(); }}.join();
    else
      server.emplace();
    parent.send_line(std::to_string(server->pid()));
    parent.read_line();
    return 0;
  }};
  auto const line = owner.read_line();
  REQUIRE(line);
  auto const pid = static_cast<pid_t>(std::stol(*line));
  CHECK(::kill(pid, 0) == 0);
  owner.kill();
  CHECK(support::wait_until([pid] { return support::process_gone(pid); }));
}

TEST_CASE("a forked child may talk to its parent's server and does not end it", "[redis_server]") {
  RedisServer server;
  support::ChildProcess child{[&server] { return server.command({"SET", "by", "child"}).is_ok() ? 0 : 1; },
                              support::ChildProcess::Ending::orderly};
  CHECK(child.wait() == support::ExitStatus::exited(0));
  CHECK(server.command({"GET", "by"}).text == "child");
}
