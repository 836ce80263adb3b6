// SPDX-License-Identifier: MIT
// The wall clock of a client may jump as it likes: leases, waits and renewals go by a clock that does not.
#include <deque>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "role.hpp"
#include "setting.hpp"
#include "support/catch.hpp"
#include "support/clock_shim.hpp"

using namespace faults;
using mortise::Client;
using mortise::Clock;
using mortise::Lock;
using support::ChildProcess;
using support::RedisServer;

TEST_CASE("plays a client whose wall clock is moved", "[.role]") {
  if (role() != "wall clock") return;
  Client redis{told("URI")};
  Lock lock{redis, "name", {.ttl = 900ms}};
  Lock other{redis, "taken", {.ttl = 900ms}};
  std::optional<mortise::Lease> lease;
  for (std::string line; std::getline(std::cin, line);) {
    auto const began = Clock::now();
    bool right = false;
    if (line == "acquire") right = (lease = lock.acquire_for(5s)).has_value() && lease->remaining() > 300ms && lease->remaining() <= 900ms;
    if (line == "held") right = lease && lease->held() && !lease->lost().stop_requested() && lease->remaining() <= 900ms;
    if (line == "confirm") right = lease && lease->confirm();
    if (line == "extend") right = lease && lease->extend() && lease->remaining() > 300ms && lease->remaining() <= 900ms;
    if (line == "release") right = lease && lease->release();
    if (line == "wait") right = !other.acquire_for(700ms) && Clock::now() - began >= 700ms && Clock::now() - began < 10s;
    say((right ? "right " : "wrong ") + std::to_string(lease ? lease->fence().value : 0));
  }
}

TEST_CASE("a wall clock that jumps while a client waits, holds, renews and releases changes nothing") {
  RedisServer server;
  support::ClockShim shim;
  auto environment = shim.environment();
  environment.emplace_back("URI", server.uri());
  REQUIRE(server.command({"SET", "taken", "by a foreigner"}).is_ok());
  ChildProcess client{playing("wall clock", environment)};
  auto const asked = [&](std::string const& what) {
    client.send_line(what);
    auto const answer = said_by(client);
    INFO(what);
    REQUIRE_THAT(answer, support::starts_with("right"));
    return std::stoull(answer.substr(6));
  };
  std::uint64_t last = 0;
  for (auto const jump : {std::chrono::hours{1}, std::chrono::hours{-1}, std::chrono::hours{400 * 24}}) {
    CAPTURE(jump.count());
    auto const fence = asked("acquire");
    CHECK(fence > last);  // also when the clock that is the floor of new fences goes back
    last = fence;
    shim.set_offset(jump);
    asked("held");
    std::this_thread::sleep_for(1200ms);  // longer than the TTL: it is renewed
    asked("held");
    asked("confirm");
    asked("extend");
    auto const pttl = server.command({"PTTL", "name"}).integer;
    CHECK((pttl > 0 && pttl <= 900));
    client.send_line("wait");
    std::this_thread::sleep_for(200ms);
    shim.set_offset(-jump);
    CHECK_THAT(said_by(client), support::starts_with("right"));
    asked("held");
    asked("release");
    CHECK(is_free(server, "name"));
    asked("acquire");
    shim.set_offset(std::chrono::hours{0});
    last = asked("held");
    asked("release");
  }
  client.kill();
}

TEST_CASE("plays a process that draws one token", "[.role]") {
  if (role() != "token") return;
  say("token " + mortise::detail::OwnerToken::fresh("me").stored());
}

TEST_CASE("processes that start in the same moment draw different tokens") {
  std::set<std::string> tokens;
  auto const processes = amount("processes", instrumented ? 20 : 40);
  for (std::int64_t started = 0; started < processes; started += 20) {
    std::deque<ChildProcess> batch;
    for (int i = 0; i < 20; ++i) batch.emplace_back(playing("token", {}));
    for (auto& one : batch) {
      auto const token = said_by(one);
      REQUIRE_THAT(token, support::starts_with("token me#"));
      tokens.insert(token);
    }
  }
  CHECK(static_cast<std::int64_t>(tokens.size()) >= processes);
}
