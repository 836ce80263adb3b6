// SPDX-License-Identifier: MIT
// Logging in: password, ACL user, missing rights; and no message ever holds a password or a token.
#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

constexpr auto* secret = "s3cr3t p@ss/w?rd:#%";

bool works(Client& client) {
  auto lease = Lock{client, "lock"}.try_acquire();
  return lease && lease->confirm() && lease->release();
}

/// A refused login, for a try, a wait and a wait without end; told at once each time.
void refused(Client& client) {
  Lock lock{client, "lock"};
  for (auto const& error : {error_of([&] { return lock.try_acquire(); }), error_of([&] { return lock.acquire_for(1h); }),
                            error_of([&] { return lock.acquire(); })}) {
    REQUIRE(error);
    CHECK(error->errc() == Errc::auth_failed);
    CHECK_FALSE(error->retryable());
    CHECK_THAT(error->what(), !contains("wrong-one") && !contains("s3cr3t") && !contains("#"));
    CHECK_THAT(error->what(), contains("127.0.0.1:"));
  }
}

}  // namespace

TEST_CASE("the default user's password is sent, from the URI and from the options") {
  LockServer redis{{.password = secret}};
  auto const bare = "redis://127.0.0.1:" + std::to_string(redis.port());
  Client by_uri{redis.uri()};
  CHECK(works(by_uri));
  Client by_options{bare, {.password = secret}};
  CHECK(works(by_options));
  Client over{"redis://:wrong-one@127.0.0.1:" + std::to_string(redis.port()), {.password = secret}};
  CHECK(works(over));
}

TEST_CASE("a wrong password, or none where one is wanted, is an error at once") {
  LockServer redis{{.password = secret}};
  auto const endpoint = "127.0.0.1:" + std::to_string(redis.port());
  Client wrong{"redis://:wrong-one@" + endpoint};
  refused(wrong);
  Client none{"redis://" + endpoint};
  refused(none);
}

TEST_CASE("an ACL user logs in by name, and is refused by a wrong password or an unknown name") {
  LockServer redis{{.users = {"alice on >wonderland ~* &* +@all", "off off >wonderland ~* &* +@all"}}};
  auto const endpoint = "127.0.0.1:" + std::to_string(redis.port());
  Client alice{redis.uri("alice", "wonderland")};
  CHECK(works(alice));
  Client by_options{"redis://" + endpoint, {.username = "alice", .password = "wonderland"}};
  CHECK(works(by_options));
  auto const held = Lock{alice, "lock"}.acquire();
  CHECK(std::ranges::any_of(redis.client_list(), [](auto const& client) { return client.at("user") == "alice"; }));
  for (auto const& [name, password] : {std::pair{"alice", "wrong-one"}, std::pair{"nobody", "wonderland"}, std::pair{"off", "wonderland"}}) {
    Client client{redis.uri(name, password)};
    refused(client);
  }
}

TEST_CASE("a password that the server does not want is told as what it is") {
  LockServer redis;
  Client client{"redis://127.0.0.1:" + std::to_string(redis.port()), {.password = "wrong-one"}};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::auth_failed);
  CHECK_THAT(error->what(), !contains("wrong-one"));
}

TEST_CASE("a user without the rights is told which one is missing, at once and without a token") {
  LockServer redis{{.users = {
      "scripts on >pw ~* &* +@all -eval -evalsha", "keys on >pw ~other:* &* +@all", "pop on >pw ~* &* +@all -blpop",
      "set on >pw ~* &* +@all -set"}}};
  auto const denied = [&](char const* user, auto const& call) {
    Client client{redis.uri(user, "pw"), {.client_name = "visible"}};
    auto const error = error_of([&] { return call(client); });
    REQUIRE(error);
    INFO(error->what());
    CHECK(error->errc() == Errc::no_permission);
    CHECK_FALSE(error->retryable());
    CHECK_THAT(error->what(), !contains("visible#"));
  };
  auto const tries = [](Client& client) { return Lock{client, "lock"}.try_acquire(); };
  auto const waits = [](Client& client) { return Lock{client, "lock"}.acquire(); };
  for (auto const* const user : {"scripts", "keys", "set"}) {
    denied(user, tries);
    denied(user, waits);
  }
  Client holder{redis.unix_uri()};
  auto const lease = Lock{holder, "lock"}.acquire();
  denied("pop", waits);
}

TEST_CASE("rights for the lock's keys and the commands of the scripts are enough") {
  LockServer redis{{.users = {
      "locker on >pw ~lock:* ~{lock:*}:~* resetchannels -@all +evalsha +eval +blpop +client|setname +time +set +get +exists +pttl +pexpire "
      "+del +lpop +rpush +lrem"}}};
  Client client{redis.uri("locker", "pw")};
  Client other{redis.uri("locker", "pw")};
  auto lease = Lock{client, "lock:a", {.ttl = 1s}}.acquire();
  Waiting waiting{[&] { return Lock{other, "lock:a"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  std::this_thread::sleep_for(1500ms);
  CHECK(lease.confirm());
  CHECK(lease.release());
  CHECK(waiting.get().held());
}

TEST_CASE("a password that is changed while a client is connected takes effect at the next connection") {
  LockServer redis{{.password = "before"}};
  Client client{redis.uri()};
  CHECK(works(client));
  redis.config_set("requirepass", "after");
  CHECK(works(client));
  redis.kill_clients();
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::auth_failed);
  CHECK_THAT(error->what(), !contains("before") && !contains("after"));
}
