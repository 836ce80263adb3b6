// SPDX-License-Identifier: MIT
// Where no server is: an error within the time allowed, naming the endpoint; and URIs that lead nowhere, refused by name.
#include "lock_server.hpp"
#include "support/sockets.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

std::string refusal_of(std::string const& uri) {
  auto const error = error_of([&] { return Client{uri}, 0; });
  REQUIRE(error);
  CHECK(error->errc() == Errc::invalid_option);
  CHECK_FALSE(error->retryable());
  return error->what();
}

}  // namespace

TEST_CASE("a Redis that is not running is an error within the connect timeout, naming the endpoint") {
  auto const port = std::to_string(support::free_port());
  support::TemporaryFolder const folder;
  auto const socket = (folder.path() / "none").native();
  auto const [uri, endpoint] = GENERATE_COPY(values<std::pair<std::string, std::string>>(
      {{"redis://127.0.0.1:" + port, "127.0.0.1:" + port}, {"redis://localhost:" + port, "localhost:" + port}, {"unix://" + socket, socket}}));
  Client client{uri, {.connect_timeout = 2s}};
  std::optional<Error> error;
  auto const took = time_of([&] { return error = error_of([&] { return Lock{client, "lock"}.try_acquire(); }); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK(error->retryable());
  CHECK_FALSE(error->in_doubt());
  CHECK_THAT(error->what(), contains(endpoint));
  CHECK(took < 2s);
}

TEST_CASE("a server that accepts and never answers is an error within the connect timeout") {
  std::uint16_t port = 0;
  auto const listener = support::listen_on_free_port(port);
  Client client{"redis://127.0.0.1:" + std::to_string(port), {.command_timeout = 5s, .connect_timeout = 300ms}};
  std::optional<Error> error;
  auto const took = time_of([&] { return error = error_of([&] { return Lock{client, "lock"}.try_acquire(); }); });
  REQUIRE(error);
  CHECK((error->errc() == Errc::connect_failed || error->errc() == Errc::timeout));
  CHECK_FALSE(error->in_doubt());
  CHECK_THAT(error->what(), contains("127.0.0.1:" + std::to_string(port)));
  CHECK(took >= 300ms);
  CHECK(took < 4s);
}

TEST_CASE("a host name that does not exist is an error that names it") {
  Client client{"redis://no-such-host.invalid:6379"};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK_THAT(error->what(), contains("no-such-host.invalid:6379"));
}

TEST_CASE("waits without a deadline end when the server was out of reach for retry_for at a stretch") {
  Client client{"redis://127.0.0.1:" + std::to_string(support::free_port()), {.retry_for = 400ms}};
  Lock lock{client, "lock"};
  std::optional<Error> error;
  auto const took = time_of([&] { return error = error_of([&] { return lock.acquire(); }); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK(took >= 400ms);
  CHECK(took < 5s);
  CHECK(errc_of([&] { lock.lock(); return 0; }) == Errc::connect_failed);
}

TEST_CASE("a wait with a deadline goes on trying until then") {
  Client client{"redis://127.0.0.1:" + std::to_string(support::free_port()), {.retry_for = 50ms}};
  std::optional<Errc> errc;
  auto const took = time_of([&] { return errc = errc_of([&] { return Lock{client, "lock"}.acquire_for(500ms); }); });
  CHECK(errc == Errc::connect_failed);
  CHECK(took >= 500ms);
  CHECK(took < 5s);
}

TEST_CASE("a wait that began while the server was down gets the lock when the server comes") {
  LockServer redis;
  Client client{redis.uri(), {.retry_for = 60s}};
  redis.stop();
  Waiting waiting{[&] { return Lock{client, "lock"}.acquire(); }};
  CHECK_FALSE(waiting.over_within(200ms));
  redis.restart(LockServer::Data::lost);
  CHECK(waiting.over_within(soon));
  CHECK(waiting.get().held());
}

TEST_CASE("a client whose server was restarted goes on, and a lease that the server forgot is lost") {
  LockServer redis;
  Client client{redis.uri()};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  redis.restart(LockServer::Data::lost);
  CHECK_FALSE(lease.confirm());
  CHECK_FALSE(lease.held());
  auto const next = lock.try_acquire();
  REQUIRE(next);
  CHECK(next->fence() > lease.fence());
}

TEST_CASE("a lease that the server kept over a restart is still held") {
  LockServer redis;
  Client client{redis.uri()};
  auto lease = Lock{client, "lock"}.acquire();
  redis.restart(LockServer::Data::kept);
  CHECK(lease.confirm());
  CHECK(lease.held());
  CHECK(lease.release());
}

TEST_CASE("a URI that leads nowhere is refused by the constructor, naming what is wrong with it") {
  CHECK_THAT(refusal_of("redis://localhost:99999"), contains("port") && contains("1 to 65535"));
  CHECK_THAT(refusal_of("redis://localhost:0"), contains("port"));
  CHECK_THAT(refusal_of("redis://localhost:-1"), contains("port"));
  CHECK_THAT(refusal_of("redis://localhost:http"), contains("port"));
  CHECK_THAT(refusal_of("http://localhost"), contains("scheme") && contains("http"));
  CHECK_THAT(refusal_of("rediss://localhost"), contains("rediss") && contains("mortise/tls.hpp"));
  CHECK_THAT(refusal_of("localhost:6379"), contains("redis://"));
  CHECK_THAT(refusal_of(""), contains("redis://"));
  CHECK_THAT(refusal_of("redis://"), contains("host"));
  CHECK_THAT(refusal_of("redis://localhost/five"), contains("db"));
  CHECK_THAT(refusal_of("redis://localhost/-1"), contains("db"));
  CHECK_THAT(refusal_of("redis://localhost?colour=blue"), contains("colour"));
  CHECK_THAT(refusal_of("redis://localhost?command_timeout=0ms"), contains("command_timeout"));
  CHECK_THAT(refusal_of("redis://localhost?command_timeout=soon"), contains("command_timeout"));
  CHECK_THAT(refusal_of("unix://relative/path"), contains("unix"));
}

TEST_CASE("no refusal shows the password") {
  for (auto const* const uri : {"redis://:hunter2@localhost:99999", "redis://bob:hunter2@localhost?colour=blue", "http://bob:hunter2@localhost",
                                "redis://bob:hunter2@local host", "redis://bob:hunter2"})
    CHECK_THAT(refusal_of(uri), !contains("hunter2"));
}
