// SPDX-License-Identifier: MIT
// The matrix: every call that asks a server, against every way in which a server or a network does not answer.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/signal_storm.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lease;
using mortise::Lock;
using support::Direction;

namespace {

constexpr auto limit = 300ms;
/// Generous: a busy machine, and the 50 ms that are promised.
constexpr auto slack = 1500ms;

/// A server behind a proxy, and what can happen to them.
struct Unanswering : Setting {
  Unanswering() { REQUIRE(server.command({"SET", "taken", "by a foreigner"}).is_ok()); }
  ~Unanswering() {
    server.thaw();
    proxy.full_backlog(false);
    proxy.refuse(false);
    proxy.black_hole(false);
    proxy.stop_swallowing();
    proxy.trickle(Direction::reply, 0ms);
    proxy.trickle(Direction::request, 0ms);
    proxy.cut_all();
  }

  void strike(std::string const& fault) {
    if (fault == "frozen server") server.freeze();
    if (fault == "full backlog") {
      proxy.cut_all();
      proxy.full_backlog(true);
    }
    if (fault == "swallowed replies") proxy.swallow_replies();
    if (fault == "trickled replies") proxy.trickle(Direction::reply, 60ms);
    if (fault == "trickled requests") proxy.trickle(Direction::request, 5ms);
    if (fault == "cut") {
      proxy.refuse(true);
      proxy.cut_all();
    }
    if (fault == "black hole") proxy.black_hole(true);
  }
};

/// A client of its own for one call, with everything there before that the call needs.
struct Caller {
  explicit Caller(support::Proxy const& proxy, std::string const& name = "name")
      : redis{proxy.uri(), {.command_timeout = limit, .connect_timeout = 10s, .retry_for = 250ms}}, own{name} {
    lease = lock.try_acquire();
    REQUIRE(lease);
    REQUIRE(lease->extend());
    REQUIRE_FALSE(taken.try_acquire());
    guarded.lock();
  }

  Client redis;
  std::string own;
  Lock<> lock{redis, own, {.ttl = 60s, .renew = false}};
  Lock<> taken{redis, "taken", {.ttl = 60s, .renew = false}};
  Lock<> guarded{redis, own + " guarded", {.ttl = 60s, .renew = false}};
  Lock<> fresh{redis, own + " free", {.ttl = 60s, .renew = false}};
  std::optional<Lease> lease{};
};

std::map<std::string, std::function<void(Caller&)>> const timed_calls{
    {"try_acquire", [](Caller& here) { static_cast<void>(here.fresh.try_acquire()); }},
    {"acquire_for", [](Caller& here) { static_cast<void>(here.taken.acquire_for(limit)); }},
    {"acquire_for of a free lock", [](Caller& here) { static_cast<void>(here.fresh.acquire_for(limit)); }},
    {"acquire_until", [](Caller& here) { static_cast<void>(here.taken.acquire_until(std::chrono::steady_clock::now() + limit)); }},
    {"try_lock", [](Caller& here) { static_cast<void>(here.fresh.try_lock()); }},
    {"try_lock_for", [](Caller& here) { static_cast<void>(here.taken.try_lock_for(limit)); }},
    {"confirm", [](Caller& here) { here.lease->confirm(); }},
    {"extend", [](Caller& here) { here.lease->extend(); }},
    {"release", [](Caller& here) { here.lease->release(); }},
    {"the destructor of a lease", [](Caller& here) { here.lease.reset(); }},
    {"unlock", [](Caller& here) { here.guarded.unlock(); }},
};

}  // namespace

TEST_CASE("every call ends by its deadline, whatever does not answer") {
  auto const fault = GENERATE(as<std::string>{}, "frozen server", "full backlog", "swallowed replies", "trickled replies", "trickled requests", "cut", "black hole");
  CAPTURE(fault);
  std::map<std::string, mortise::Clock::duration> times;
  std::mutex times_mutex;
  {
    std::deque<std::thread> threads;
    std::latch ready{static_cast<std::ptrdiff_t>(timed_calls.size())};
    std::latch struck{1};
    std::latch called{static_cast<std::ptrdiff_t>(timed_calls.size())};
    std::latch mended{1};
    auto here = std::make_unique<Unanswering>();
    for (auto const& [name, call] : timed_calls)
      threads.emplace_back([&, name = name, call = call] {
        Caller caller{here->proxy, name};
        ready.count_down();
        struck.wait();
        auto const took = time_of([&] { static_cast<void>(error_of([&] { call(caller); })); });
        {
          std::lock_guard const guard{times_mutex};
          times[name] = took;
        }
        called.count_down();
        mended.wait();
      });
    ready.wait();
    here->strike(fault);
    struck.count_down();
    called.wait();
    here.reset();
    mended.count_down();
    for (auto& thread : threads) thread.join();
  }
  for (auto const& [name, took] : times) {
    CAPTURE(name);
    CHECK(took < limit + slack);
  }
}

TEST_CASE("a wait without a deadline ends when nobody has answered for retry_for") {
  Unanswering here;
  Caller caller{here.proxy};
  auto const fault = GENERATE(as<std::string>{}, "full backlog", "cut", "black hole");
  CAPTURE(fault);
  here.strike(fault);
  CHECK(time_of([&] { CHECK(error_of([&] { static_cast<void>(caller.taken.acquire()); })); }) < 250ms + 2 * limit + slack);
}

TEST_CASE("a timed try that gets its turn at its last moment is not given a whole command's time") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 8s, .connect_timeout = 10s}};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  here.proxy.black_hole(true);
  // A microsecond is over before the question is asked.
  CHECK(time_of([&] { static_cast<void>(error_of([&] { static_cast<void>(lock.try_lock_for(1us)); })); }) < slack);
  CHECK(time_of([&] { static_cast<void>(error_of([&] { static_cast<void>(lock.try_lock_until(std::chrono::steady_clock::now() + 100us)); })); }) < slack);
  // One at the gate whose turn comes when its time is just over.
  std::latch locked{1};
  std::thread inside{[&] {
    static_cast<void>(error_of([&] { static_cast<void>(lock.try_lock_for(400ms)); }));
    locked.count_down();
  }};
  CHECK(time_of([&] { static_cast<void>(error_of([&] { static_cast<void>(lock.try_lock_for(425ms)); })); }) < slack);
  locked.wait();
  inside.join();
}

TEST_CASE("signals do not lengthen a call: a frozen server and a signal every 5 ms") {
  Setting here;
  Client redis{here.server.uri(), {.command_timeout = limit}};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  here.server.freeze();
  support::SignalStorm const storm{5ms};
  mortise::Clock::duration longest{};
  auto const rounds = amount("signals", 2);
  for (std::int64_t i = 0; i < rounds; ++i) {
    auto const took = time_of([&] { CHECK(error_of([&] { static_cast<void>(lease->confirm()); })); });
    longest = std::max(longest, took);
    CHECK(took >= limit - 5ms);
    CHECK(took < limit + slack);
  }
  CHECK(support::SignalStorm::handled() > 20);
  if (rounds > 2) WARN("a call with a limit of 300 ms took at most " << std::chrono::duration_cast<milliseconds>(longest).count() << " ms");
  here.server.thaw();
}
