// SPDX-License-Identifier: MIT
// Every call ends by its deadline, whatever the server and the network do.
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::Direction;
using support::wait_until;

TEST_CASE("a release ends within the command timeout while the keeper cannot connect") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 1000ms}};
  Lock lock{redis, "name", {.ttl = 3s}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  auto const before = here.proxy.connections_ever();
  here.proxy.black_hole(true);
  REQUIRE(wait_until([&] { return here.proxy.connections_ever() > before; }));  // the keeper wants to renew
  auto const took = time_of([&] { CHECK(error_of([&] { lease->release(); })); });
  CHECK(took < 1500ms);
}

TEST_CASE("a wait ends by its deadline when the hand-over comes one byte at a time") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 3000ms}};
  Lock lock{redis, "name"};
  Client other{here.server.uri()};
  Lock same{other, "name"};
  auto held = same.try_acquire();
  REQUIRE(held);
  std::thread releaser{[&] {
    CHECK(wait_until([&] { return count(here.proxy, Asks::claim) > 0; }));
    here.proxy.trickle(Direction::reply, 25ms);
    CHECK(held->release());
  }};
  here.proxy.record();
  auto const took = time_of([&] { static_cast<void>(error_of([&] { static_cast<void>(lock.acquire_for(2200ms)); })); });
  releaser.join();
  CHECK(took < 2200ms + 500ms);
}
