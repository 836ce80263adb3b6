// SPDX-License-Identifier: MIT
// A reply that comes after its question was given up belongs to nobody.
#include <map>
#include <optional>

#include "dice.hpp"
#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lease;
using mortise::Lock;
using support::Direction;
using support::wait_until;

TEST_CASE("a reply that comes too late never answers the next question") {
  Setting here;
  auto const seed = fresh_seed();
  CAPTURE(seed);
  Dice dice{seed};
  // The fences of each name lie in a range of their own: an answer to one is no answer to the other.
  REQUIRE(here.server.command({"SET", "{a}:~fence", "5000000000000000"}).is_ok());
  REQUIRE(here.server.command({"SET", "{b}:~fence", "7000000000000000"}).is_ok());
  REQUIRE(here.server.command({"SET", "taken", "by a foreigner"}).is_ok());
  Client redis{here.proxy.uri(), {.command_timeout = 20ms}};
  Lock a{redis, "a", {.ttl = 60s, .renew = false}};
  Lock b{redis, "b", {.ttl = 60s, .renew = false}};
  Lock taken{redis, "taken", {.ttl = 60s, .renew = false}};
  auto const in_range = [](Lease const& lease) { return lease.fence().value / 1'000'000'000'000'000 == (lease.name() == "a" ? 5U : 7U); };

  std::int64_t unanswered = 0;
  std::int64_t answered = 0;
  std::map<std::string, bool> in_doubt;
  std::optional<Lease> lease;
  for (std::int64_t i = 0, calls = amount("calls", instrumented ? 400 : 1000); i < calls; ++i) {
    bool const late = dice.in_hundred(20);
    here.proxy.delay(Direction::reply, late ? milliseconds{dice.up_to(45)} : 0ms);
    try {
      auto const which = dice.up_to(9);
      if (lease && which < 4) {
        bool const confirmed = lease->confirm();
        REQUIRE(confirmed);
      } else if (lease) {
        auto const name = lease->name();
        try {
          bool const ours = lease->release();
          REQUIRE((ours || in_doubt[name]));
        } catch (mortise::Error const&) {
          in_doubt[name] = true;
          lease.reset();
          throw;
        }
        lease.reset();
      } else if (which < 2) {
        bool const granted = taken.try_acquire().has_value();
        REQUIRE_FALSE(granted);
      } else {
        auto& lock = which % 2 == 0 ? a : b;
        try {
          lease = lock.try_acquire();
          REQUIRE((lease || in_doubt[lock.name()]));  // busy only by what is still being undone
          if (lease) {
            in_doubt[lock.name()] = false;
            REQUIRE(in_range(*lease));
          }
        } catch (mortise::Error const&) {
          in_doubt[lock.name()] = true;
          throw;
        }
      }
      ++answered;
    } catch (mortise::Error const& error) {
      REQUIRE(error.retryable());
      ++unanswered;
    }
  }
  here.proxy.delay(Direction::reply, 0ms);
  lease.reset();
  CHECK(unanswered > 10);
  CHECK(answered > 100);
  CHECK(wait_until([&] { return is_free(here.server, "a") && is_free(here.server, "b"); }, 10s));
  CHECK(owner(here.server, "taken") == "by a foreigner");
}
