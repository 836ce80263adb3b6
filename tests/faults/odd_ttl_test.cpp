// SPDX-License-Identifier: MIT
// A TTL that no lease could have is refused before anything is sent; one that is taken is what the key gets.
#include <limits>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Errc;
using mortise::Lock;
using support::RedisServer;

TEST_CASE("TTLs that are zero, negative, too short or beyond all range are refused before anything is sent") {
  RedisServer server;
  Client redis{server.uri()};
  Lock fine{redis, "name", {.ttl = 60s, .renew = false}};
  auto lease = fine.try_acquire();
  REQUIRE(lease);
  auto const before = server.command({"PTTL", "name"}).integer;
  server.reset_stats();
  using Tick = std::chrono::duration<std::int64_t, std::micro>;
  for (auto const ttl : {milliseconds{0}, milliseconds{-1}, milliseconds::min(), milliseconds{1}, milliseconds::max(), milliseconds::max() - 1ms,
                         std::chrono::ceil<milliseconds>(Tick{400}), std::chrono::ceil<milliseconds>(1ns), milliseconds{std::chrono::hours{24 * 366 * 11}}}) {
    CAPTURE(ttl.count());
    auto const made = error_of([&] { Lock lock{redis, "other", {.ttl = ttl}}; });
    REQUIRE(made);
    CHECK(made->errc() == Errc::invalid_option);
    CHECK_THAT(std::string{made->what()}, support::contains(std::to_string(ttl.count())));
    auto const extended = error_of([&] { lease->extend(ttl); });
    REQUIRE(extended);
    CHECK(extended->errc() == Errc::invalid_option);
  }
  CHECK(server.commandstats()["evalsha"] == 0);
  CHECK(server.command({"PTTL", "name"}).integer <= before);
  CHECK(lease->held());
  CHECK(lease->release());
}

TEST_CASE("a TTL that is taken is the key's, from the shortest to the longest") {
  RedisServer server;
  Client redis{server.uri()};
  for (auto const ttl : {milliseconds{250}, milliseconds{999}, std::chrono::ceil<milliseconds>(1'000'001us), milliseconds{std::chrono::hours{24 * 3650}}}) {
    CAPTURE(ttl.count());
    Lock lock{redis, "name", {.ttl = ttl, .renew = false}};
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    auto const pttl = server.command({"PTTL", "name"}).integer;
    CHECK(pttl <= ttl.count());
    CHECK((pttl > ttl.count() - 5'000 && pttl != -1));
    CHECK(lease->remaining() <= ttl);
    static_cast<void>(lease->release());
  }
}
