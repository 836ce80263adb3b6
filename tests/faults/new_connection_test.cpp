// SPDX-License-Identifier: MIT
// Whatever replaces a broken connection is logged in, in the right database, named and bounded in time like the first.
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Errc;
using mortise::Lock;
using support::RedisServer;

TEST_CASE("a connection that replaces a broken one keeps login, database, name and time limit") {
  RedisServer server{{.password = "another", .users = {"alice on >secret ~* +@all"}}};
  Client redis{server.uri("alice", "secret") + "/5", {.command_timeout = 400ms, .client_name = "keeps-its-name"}};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  REQUIRE(server.keys(5) == std::vector<std::string>{"name", "{name}:~fence"});
  CHECK(server.kill_clients() > 0);
  CHECK(lease->release());
  CHECK(server.keys(5) == std::vector<std::string>{"{name}:~fence"});
  CHECK(server.keys(0).empty());
  for (auto const& client : server.client_list()) {
    CHECK(client.at("name") == "keeps-its-name");
    CHECK(client.at("user") == "alice");
    CHECK(client.at("db") == "5");
  }

  CHECK(server.kill_clients() > 0);
  lease = lock.try_acquire();
  REQUIRE(lease);
  server.freeze();
  CHECK(time_of([&] { CHECK(error_of([&] { static_cast<void>(lease->confirm()); })); }) < 400ms + 1s);
  server.thaw();
}

TEST_CASE("where the login of a new connection fails, nothing is done without it") {
  RedisServer server{{.users = {"alice on >secret ~* +@all"}}};
  Client redis{server.uri("alice", "secret") + "/5"};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  REQUIRE(server.command({"ACL", "SETUSER", "alice", "resetpass", ">changed"}).is_ok());
  server.kill_clients();
  std::this_thread::sleep_for(30ms);  // a connection that was used a moment ago would be written to unseen: in doubt
  auto const error = error_of([&] { static_cast<void>(lease->release()); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::auth_failed);
  CHECK(server.keys(5).size() == 2);
  CHECK(server.keys(0).empty());
}
