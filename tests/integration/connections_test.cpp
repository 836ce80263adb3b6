// SPDX-License-Identifier: MIT
// Where a client connects to and how: TCP, IPv6, unix socket, database, name, options of the URI; and again after a kill.
#include "lock_server.hpp"
#include "support/sockets.hpp"
#include "support/waiting.hpp"

#include <netdb.h>

using support::Waiting;

namespace {

bool has_ipv6() {
  support::Descriptor const socket{::socket(AF_INET6, SOCK_STREAM, 0)};
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return socket && ::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
}

auto by_name(LockServer& redis, std::string const& name) {
  auto clients = redis.client_list();
  std::erase_if(clients, [&](auto const& client) { return client.at("name") != name; });
  return clients;
}

bool resolves(char const* name) {
  addrinfo* found = nullptr;
  bool const known = ::getaddrinfo(name, nullptr, nullptr, &found) == 0;
  if (known) ::freeaddrinfo(found);
  return known;
}

}  // namespace

TEST_CASE("a unix socket, an IPv4 address and a host name lead to the same locks") {
  if (!resolves("localhost")) {
    WARN("skipped: this host has no name for itself");
    return;
  }
  LockServer redis;
  auto const port = std::to_string(redis.port());
  Client by_socket{redis.unix_uri()};
  Client by_address{"redis://127.0.0.1:" + port};
  Client by_host_name{"redis://localhost:" + port};
  auto lease = Lock{by_socket, "lock"}.acquire();
  CHECK_FALSE(Lock{by_address, "lock"}.try_acquire());
  CHECK_FALSE(Lock{by_host_name, "lock"}.try_acquire());
  lease.release();
  CHECK(Lock{by_host_name, "lock"}.try_acquire());
}

TEST_CASE("an IPv6 address is written in brackets") {
  if (!has_ipv6()) {
    WARN("skipped: this host has no IPv6");
    return;
  }
  LockServer redis{{.config = {"bind 127.0.0.1 ::1"}}};
  Client client{"redis://[::1]:" + std::to_string(redis.port()), {.client_name = "six"}};
  auto const lease = Lock{client, "lock"}.acquire();
  REQUIRE_FALSE(by_name(redis, "six").empty());
  CHECK_THAT(by_name(redis, "six").front().at("addr"), support::starts_with("[::1]:"));
}

TEST_CASE("a server that is asked for by IPv6 and does not listen there is named in brackets") {
  if (!has_ipv6()) {
    WARN("skipped: this host has no IPv6");
    return;
  }
  auto const port = std::to_string(support::free_port());
  Client client{"redis://[::1]:" + port};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK_THAT(error->what(), contains("[::1]:" + port));
}

TEST_CASE("the database of the URI is selected on every connection, also after the server has cut them") {
  LockServer redis;
  Client client{redis.uri() + "/5", {.client_name = "five"}};
  Client zero{redis.uri()};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  CHECK(redis.keys(5) == std::vector<std::string>{"lock", fence_key("lock")});
  CHECK(redis.keys(0).empty());
  CHECK(Lock{zero, "lock"}.try_acquire());

  CHECK(redis.kill_clients() > 0);
  CHECK(lease.confirm());
  CHECK_FALSE(lock.try_acquire());
  CHECK(lease.release());
  CHECK(lock.try_acquire());
  CHECK(redis.keys(5) == std::vector<std::string>{fence_key("lock")});
  for (auto const& connection : by_name(redis, "five")) CHECK(connection.at("db") == "5");
}

TEST_CASE("a waiter whose connection is killed, once and again, waits on and gets its turn in the right database") {
  LockServer redis;
  Client client{redis.unix_uri() + "?db=5"};
  Client other{redis.uri() + "/5"};
  auto lease = Lock{client, "lock"}.acquire();
  Waiting waiting{[&] { return Lock{other, "lock"}.acquire(); }};
  for (int i = 0; i < 3; ++i) {
    REQUIRE(redis.has_blocked(1));
    redis.kill_clients();
  }
  REQUIRE(redis.has_blocked(1));
  CHECK(lease.release());
  CHECK(waiting.get().fence() > lease.fence());
  CHECK(redis.keys(0).empty());
}

TEST_CASE("a database that the server does not have is an error that says so, at once") {
  LockServer redis;
  Client client{redis.uri() + "/9999"};
  for (auto const& error : {error_of([&] { return Lock{client, "lock"}.try_acquire(); }), error_of([&] { return Lock{client, "lock"}.acquire(); })}) {
    REQUIRE(error);
    CHECK(error->errc() == Errc::invalid_option);
    CHECK_THAT(error->what(), contains("databases"));
  }
}

TEST_CASE("every connection of a client has its name, and by default host and pid") {
  LockServer redis;
  Client named{redis.uri(), {.client_name = "till-3"}};
  Client by_uri{redis.uri() + "/?client_name=till-4"};
  Client nameless{redis.uri()};
  auto const one = Lock{named, "a", {.ttl = 300ms}}.acquire();
  auto const two = Lock{by_uri, "b"}.acquire();
  auto const three = Lock{nameless, "c"}.acquire();
  CHECK(wait_until([&] { return by_name(redis, "till-3").size() == 2; }));  // the keeper's connection too
  CHECK(by_name(redis, "till-4").size() == 1);
  auto const label = redis.get("c")->substr(0, redis.get("c")->find('#'));
  CHECK_THAT(label, support::matches("[A-Za-z0-9._-]+:[0-9]+"));
  CHECK(by_name(redis, label).size() == 1);
  CHECK(redis.get("b")->starts_with("till-4#"));
}

TEST_CASE("timeouts of the URI are those of the client") {
  LockServer redis;
  Client client{redis.uri() + "/0?command_timeout=300ms&connect_timeout=200ms&retry_for=1s"};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  redis.freeze();
  std::optional<Error> error;
  auto const took = time_of([&] { return error = error_of([&] { return lock.try_acquire(); }); });
  redis.thaw();
  REQUIRE(error);
  CHECK(took >= 300ms);
  CHECK(took < 900ms);  // and not the default of a second
  CHECK(lease.release());
}
