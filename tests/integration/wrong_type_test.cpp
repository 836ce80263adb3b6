// SPDX-License-Identifier: MIT
// Keys that hold something else: an error at once, whatever the patience, and the key is left as it was.
#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

using Words = support::RawClient::Words;

/// What makes a key of each type.
std::vector<Words> makers(std::string const& key) {
  return {{"RPUSH", key, "a"}, {"HSET", key, "f", "a"}, {"SADD", key, "a"}, {"ZADD", key, "1", "a"}, {"XADD", key, "1-1", "f", "a"}};
}

void refused_as_wrong_type(Client& client, std::string const& name) {
  Lock lock{client, name};
  auto const check = [](std::optional<Error> const& error) {
    REQUIRE(error);
    CHECK(error->errc() == Errc::wrong_type);
    CHECK_FALSE(error->retryable());
    CHECK_FALSE(error->in_doubt());
  };
  check(error_of([&] { return lock.try_acquire(); }));
  check(error_of([&] { return lock.acquire_for(1h); }));
  check(error_of([&] { return lock.acquire_until(std::chrono::system_clock::now() + 1h); }));
  check(error_of([&] { return lock.acquire(); }));
  check(error_of([&] { lock.lock(); return 0; }));
  CHECK(errc_of([&] { return lock.fence(); }) == Errc::not_held);
}

}  // namespace

TEST_CASE("a lock whose key holds another type is refused at once, by a try and by any wait") {
  LockServer redis;
  Client client{redis.unix_uri()};
  for (auto const& maker : makers("lock")) {
    INFO(maker[0]);
    redis.command({"DEL", "lock"});
    REQUIRE_FALSE(redis.command(maker).is_error());
    auto const before = redis.command({"DUMP", "lock"});
    refused_as_wrong_type(client, "lock");
    CHECK(redis.command({"DUMP", "lock"}) == before);
    CHECK(redis.pttl("lock") == -1);
    CHECK(redis.keys() == std::vector<std::string>{"lock"});
  }
}

TEST_CASE("a lock whose fence key holds another type is refused at once, and nothing is taken") {
  LockServer redis;
  Client client{redis.unix_uri()};
  for (auto const& maker : makers(fence_key("lock"))) {
    INFO(maker[0]);
    redis.command({"DEL", fence_key("lock")});
    REQUIRE_FALSE(redis.command(maker).is_error());
    refused_as_wrong_type(client, "lock");
    CHECK(redis.keys() == std::vector<std::string>{fence_key("lock")});
  }
}

TEST_CASE("the message names the server and says what to do, without a token") {
  LockServer redis;
  Client client{redis.unix_uri(), {.client_name = "visible"}};
  redis.command({"RPUSH", "lock", "a"});
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("WRONGTYPE") && contains("choose another name") && contains(redis.socket_path()));
  CHECK_THAT(error->what(), !contains("visible#"));
}

TEST_CASE("a waiter whose wake list is no list is told so and not left waiting") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto const lease = lock.acquire();
  redis.set(wake_key("lock"), "a string");
  CHECK(errc_of([&] { return lock.acquire_for(1h); }) == Errc::wrong_type);
}

TEST_CASE("a lock whose key becomes a list while others wait ends their wait with an error") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  Waiting waiting{[&] { return errc_of([&] { return lock.acquire(); }); }};
  REQUIRE(redis.has_blocked(1));
  redis.command({"DEL", "lock"});
  redis.command({"RPUSH", "lock", "a"});
  CHECK(waiting.over_within(soon));
  CHECK(waiting.get() == Errc::wrong_type);
  CHECK(redis.command({"LRANGE", "lock", "0", "-1"}).items.size() == 1);
}

TEST_CASE("a held key that becomes a list was taken over: the next renewal, a confirm, an extend or a release says so, and leaves the list alone") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock", {.ttl = 30s}};
  auto const notice = GENERATE(as<std::string>{}, "renewal", "confirm", "extend", "release");
  Lock renewed{client, "lock", {.ttl = 3s}};
  auto lease = notice == "renewal" ? renewed.acquire() : lock.acquire();
  redis.command({"DEL", "lock"});
  redis.command({"RPUSH", "lock", "a"});
  if (notice == "renewal") {
    CHECK(wait_until([&] { return lease.lost().stop_requested(); }, 2500ms));
  } else if (notice == "confirm") {
    CHECK_FALSE(lease.confirm());
  } else if (notice == "extend") {
    CHECK_FALSE(lease.extend());
  }
  if (notice != "release") CHECK_FALSE(lease.held());
  CHECK_FALSE(lease.release());
  CHECK(redis.command({"LRANGE", "lock", "0", "-1"}).items.size() == 1);
}
