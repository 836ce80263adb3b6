// SPDX-License-Identifier: MIT
// Leaving a guarded scope never throws and never hangs, least of all while an exception is on its way.
#include <mutex>
#include <stdexcept>
#include <string>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::RedisServer;
using support::wait_until;

TEST_CASE("an exception passes through every guard unharmed, and in time, when the release fails") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 300ms}};
  Lock lock{redis, "name", {.ttl = 1s}};
  auto const fault = GENERATE(as<std::string>{}, "cut off", "frozen", "expired", "taken over");
  auto const guard = GENERATE(as<std::string>{}, "lock_guard", "unique_lock", "Lease");
  CAPTURE(fault, guard);
  auto const strike = [&](mortise::Lease const& lease) {
    if (fault == "cut off") {
      here.proxy.refuse(true);
      here.proxy.cut_all();
    } else if (fault == "frozen") {
      here.server.freeze();
    } else {
      if (fault == "taken over")
        here.server.command({"SET", "name", "somebody else"});
      else
        here.server.command({"DEL", "name"});
      REQUIRE(wait_until([&] { return !lease.held(); }));
    }
  };
  mortise::TimePoint struck{};
  std::string caught;
  try {
    if (guard == "lock_guard") {
      std::lock_guard const held{lock};
      strike(lock.lease());
      struck = mortise::Clock::now();
      throw std::runtime_error{"the work's own"};
    }
    if (guard == "unique_lock") {
      std::unique_lock held{lock};
      strike(lock.lease());
      struck = mortise::Clock::now();
      throw std::runtime_error{"the work's own"};
    }
    auto const lease = lock.acquire();
    strike(lease);
    struck = mortise::Clock::now();
    throw std::runtime_error{"the work's own"};
  } catch (std::exception const& error) {
    caught = error.what();
  }
  CHECK(caught == "the work's own");
  CHECK(mortise::Clock::now() - struck < 300ms + 2s);
  here.server.thaw();
  here.proxy.refuse(false);
  if (fault == "taken over") {
    CHECK(owner(here.server, "name") == "somebody else");
    here.server.command({"DEL", "name"});
  }
  CHECK(lock.try_lock_for(10s));  // the Lock is of use as before
  lock.unlock();
}
