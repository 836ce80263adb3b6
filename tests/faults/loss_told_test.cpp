// SPDX-License-Identifier: MIT
// However a lease ends, its holder is told: by held(), by lost() and by confirm(), and before anybody else gets in.
#include <atomic>
#include <optional>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Clock;
using mortise::Lock;
using support::wait_until;

TEST_CASE("a key that is deleted, overwritten or flushed away is a loss within a renewal interval, told in every way") {
  Setting here;
  Client redis{here.proxy.uri()};
  Lock lock{redis, "name", {.ttl = 6s}};
  auto const way = GENERATE(as<std::string>{}, "deleted", "overwritten", "flushed");
  CAPTURE(way);
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  std::atomic<bool> called{false};
  std::atomic<bool> held_when_called{true};
  std::stop_callback const callback{lease->lost(), [&] {
                                      held_when_called = lease->held();
                                      called = true;
                                    }};
  auto const began = Clock::now();
  if (way == "deleted") here.server.command({"DEL", "name"});
  if (way == "overwritten") here.server.command({"SET", "name", "another"});
  if (way == "flushed") here.server.flush_all();
  CHECK(wait_until([&] { return called.load(); }));
  CHECK(Clock::now() - began < 4s);  // due in 2 s: not by the TTL, which would have ended after 6
  CHECK_FALSE(held_when_called);
  CHECK_FALSE(lease->held());
  CHECK(lease->lost().stop_requested());
  CHECK(lease->remaining() == 0ms);
  CHECK_FALSE(lease->confirm());
  CHECK_FALSE(lease->extend());
  CHECK_FALSE(lease->release());
  CHECK(owner(here.server, "name") == (way == "overwritten" ? "another" : ""));
  here.server.command({"DEL", "name"});
}

TEST_CASE("a holder that is cut off from its server knows the loss by its own clock, before a rival is in") {
  Setting here;
  auto const way = GENERATE(as<std::string>{}, "black hole", "refused", "half closed");
  CAPTURE(way);
  Client redis{here.proxy.uri(), {.command_timeout = 300ms}};
  Client rival{here.server.uri()};
  Lock lock{redis, "name", {.ttl = 1s}};
  Lock same{rival, "name", {.ttl = 1s}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  std::atomic<bool> called{false};
  std::stop_callback const callback{lease->lost(), [&] { called = true; }};
  std::this_thread::sleep_for(400ms);  // renewed once
  REQUIRE(lease->held());
  if (way == "black hole") here.proxy.black_hole(true);
  if (way != "black hole") here.proxy.refuse(true);
  if (way == "refused") here.proxy.cut_all();
  if (way == "half closed") here.proxy.half_close(support::Direction::request);
  auto const ends = Clock::now() + lease->remaining();
  bool held_beside_rival = true;
  {
    auto const other = same.acquire_for(20s);
    held_beside_rival = lease->held();
    REQUIRE(other);
  }
  CHECK_FALSE(held_beside_rival);
  CHECK(wait_until([&] { return called.load(); }, 10s));
  CHECK(Clock::now() >= ends);
  CHECK_FALSE(lease->held());
}

TEST_CASE("a server that freezes takes no holder's knowledge away: lost by its own deadline, and never held after that") {
  Setting here;
  auto const rounds = amount("frozen", 2);  // a longer run tells the figures
  milliseconds latest{0};
  for (std::int64_t round = 0; round < rounds; ++round) {
    Client redis{here.server.uri()};
    Lock lock{redis, "name " + std::to_string(round), {.ttl = 1s}};
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    std::this_thread::sleep_for(milliseconds{round * 37 % 400});
    here.server.freeze();
    auto const ends = Clock::now() + lease->remaining();
    mortise::TimePoint told{};
    std::atomic<bool> called{false};
    std::stop_callback const callback{lease->lost(), [&] {
                                        told = Clock::now();
                                        called = true;
                                      }};
    CHECK(wait_until([&] { return called.load(); }));
    CHECK_FALSE(lease->held());
    // A renewal that was under way when the server froze is not answered: the end that was known then stands.
    auto const late = std::chrono::duration_cast<milliseconds>(told - ends);
    latest = std::max(latest, late);
    CHECK(late < 1s);
    here.server.thaw();
    CHECK_FALSE(lease->held());  // though the server may have let the renewal through by now
  }
  if (rounds > 2) WARN("lost() came at most " << latest.count() << " ms after the end of the validity");
}

TEST_CASE("the first held() after a pause of two TTLs is false") {
  support::RedisServer server;
  support::ChildProcess holder{[&](support::Channel& parent) {
    Client redis{server.uri()};
    Lock lock{redis, "name", {.ttl = 500ms}};
    auto const lease = lock.try_acquire();
    if (!lease || !lease->held()) return 1;
    parent.send_line("holds");
    // Asks without pause, and looks at the clock first: so the first call behind a gap is the first after the pause.
    for (auto last = Clock::now();;) {
      auto const now = Clock::now();
      bool const held = lease->held();
      if (now - last > 900ms && held) return 2;
      if (!held) return Clock::now() - last > 900ms || lease->lost().stop_requested() ? 0 : 3;
      last = now;
    }
  }};
  REQUIRE(holder.read_line() == "holds");
  std::this_thread::sleep_for(200ms);
  holder.freeze();
  std::this_thread::sleep_for(1000ms);
  holder.thaw();
  CHECK(holder.wait().value() == support::ExitStatus::exited(0));
}
