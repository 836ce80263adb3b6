// SPDX-License-Identifier: MIT
// Scripts that vanish from the server: said in full once, never an error, never a loop.
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::FakeReply;
using support::FakeServer;
using support::RedisServer;

TEST_CASE("scripts that vanish at any time are no error, for nobody") {
  RedisServer server;
  Client redis{server.uri()};
  Client other{server.uri()};
  Lock lock{redis, "name", {.ttl = 300ms}};
  Lock same{other, "name", {.ttl = 300ms}};
  std::atomic<bool> over{false};
  std::atomic<int> lost{0};
  auto const work = [&](Lock<>& mine) {
    while (!over) {
      auto lease = mine.acquire();
      if (!lease.extend()) ++lost;
      std::this_thread::sleep_for(2ms);
      if (!lease.confirm()) ++lost;
      if (!lease.release()) ++lost;
    }
  };
  std::thread first{work, std::ref(lock)};
  std::thread second{work, std::ref(same)};
  Lock third{redis, "held", {.ttl = 200ms}};
  auto held = third.try_acquire();
  REQUIRE(held);
  for (int i = 0; i < 300; ++i) {
    server.flush_scripts();
    std::this_thread::sleep_for(std::chrono::microseconds{i * 37 % 5000});
  }
  CHECK(held->held());
  CHECK(held->release());
  over = true;
  first.join();
  second.join();
  CHECK(lost == 0);
}

TEST_CASE("a server that knows no script however it is said is not asked without pause") {
  FakeServer server{[](FakeServer::Words const& words) -> FakeReply {
    switch (asks(words)) {
      case Asks::acquire:
        return {.bytes = words.at(3) == "held" ? "*3\r\n:1\r\n:7\r\n:1700000000000000\r\n" : "*3\r\n:0\r\n:-2\r\n:1700000000000000\r\n"};
      case Asks::keep:
      case Asks::nudge:
      case Asks::release: return {.bytes = "-NOSCRIPT No matching script\r\n"};
      case Asks::pop:
      case Asks::claim: return {};
      case Asks::other: break;
    }
    return {.bytes = "+OK\r\n"};
  }};
  Client redis{server.uri(), {.command_timeout = 500ms}};
  Lock lock{redis, "held", {.ttl = 1s}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  Lock waited{redis, "waited for", {.ttl = 1s}};
  static_cast<void>(error_of([&] { static_cast<void>(waited.acquire_for(1200ms)); }));
  CHECK(support::wait_until([&] { return !lease->held(); }));
  CHECK(server.requests().size() < 300);
}
