// SPDX-License-Identifier: MIT
// Servers on which commands do not exist, as managed services have it: what is optional is done without, and told once.
#include <atomic>

#include "lock_server.hpp"
#include "support/waiting.hpp"

namespace {

void works_in_full(LockServer& redis, Client& client) {
  auto lease = Lock{client, "lock", {.ttl = 500ms}}.acquire();
  support::Waiting waiting{[&] { return Lock{client, "lock"}.acquire(); }};
  REQUIRE(wait_until([&] { return redis.info("clients").at("blocked_clients") == "1"; }));
  std::this_thread::sleep_for(1s);
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(waiting.get().held());
}

}  // namespace

TEST_CASE("a server without CLIENT, WAIT, SCRIPT, CONFIG and SUBSCRIBE has everything a lock needs") {
  LockServer redis{{.config = {"rename-command CLIENT \"\"", "rename-command WAIT \"\"", "rename-command SCRIPT \"\"",
                               "rename-command CONFIG \"\"", "rename-command SUBSCRIBE \"\""}}};
  std::atomic<int> degraded{0};
  Client client{redis.uri(), {.observer = [&](mortise::Event const& event) { degraded += event.kind == mortise::Event::Kind::degraded ? 1 : 0; },
                              .tracking = true}};
  works_in_full(redis, client);
  works_in_full(redis, client);
  CHECK(degraded == 1);
}

TEST_CASE("a server without EVALSHA is served by EVAL, and one without either is refused by name") {
  LockServer redis{{.config = {"rename-command EVALSHA \"\""}}};
  Client client{redis.uri()};
  works_in_full(redis, client);
  LockServer bare{{.config = {"rename-command EVALSHA \"\"", "rename-command EVAL \"\""}}};
  Client refused{bare.uri(), {.client_name = "visible"}};
  auto const error = error_of([&] { return Lock{refused, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::server_refused);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("unknown command") && contains("EVAL") && !contains("visible#"));
}

TEST_CASE("replicas that cannot be asked are an error and not done without: nothing is granted, and nothing left") {
  LockServer redis{{.config = {"rename-command WAIT \"\""}}};
  Client client{redis.uri(), {.replicas = 1}};
  auto const error = error_of([&] { return Lock{client, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::server_refused);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("WAIT"));
  CHECK(wait_until([&] { return !redis.exists("lock"); }));
}

TEST_CASE("a waiter without BLPOP is told that it is missing") {
  LockServer redis{{.config = {"rename-command BLPOP \"\""}}};
  Client client{redis.uri()};
  Client holder{redis.uri()};
  auto const lease = Lock{holder, "lock"}.acquire();
  auto const error = error_of([&] { return Lock{client, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("BLPOP"));
}
