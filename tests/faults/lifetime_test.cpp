// SPDX-License-Identifier: MIT
// Whatever goes first, Client, Lock or Lease, on whichever thread, and in whatever state: the rest goes on or ends in order.
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/resources.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Errc;
using mortise::Event;
using mortise::Lease;
using mortise::Lock;
using support::ChildProcess;
using support::ExitStatus;
using support::RedisServer;
using support::Waiting;
using support::wait_until;

TEST_CASE("a Client that goes while threads wait, renew and hold wakes the ones and lets the others be, in no time") {
  RedisServer server;
  server.keys();
  auto const threads = support::threads_alive();
  auto const descriptors = support::open_descriptors();
  {
    std::optional<Client> redis;
    redis.emplace(server.uri());
    Lock lock{*redis, "name", {.ttl = 600ms}};
    auto lease = lock.acquire();
    using Ended = std::optional<Errc>;
    std::deque<Waiting<Ended>> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&]() -> Ended {
        auto const error = error_of([&] { static_cast<void>(lock.acquire()); });
        return error ? Ended{error->errc()} : std::nullopt;
      });
      REQUIRE(waiting.back().asleep());
    }
    CHECK(time_of([&] { redis.reset(); }) < 5s);
    for (auto& one : waiting) CHECK(one.get() == Errc::closed);
    std::this_thread::sleep_for(1300ms);  // two TTLs
    CHECK(lease.held());
    CHECK_FALSE(is_free(server, "name"));
    CHECK(lease.release());
    CHECK(wait_until([&] { return is_free(server, "name"); }));  // reserved for a moment, for those who waited
  }
  CHECK(support::wait_for_threads(threads));
  CHECK(support::wait_for_descriptors(descriptors));
}

TEST_CASE("a Client whose server does not answer goes in no time, too") {
  Setting here;
  std::optional<Client> redis;
  redis.emplace(here.proxy.uri(), mortise::ClientOptions{.command_timeout = 20s});
  {
    Lock lock{*redis, "name", {.ttl = 600ms}};
    auto const lease = lock.acquire();
    here.proxy.black_hole(true);
    CHECK(wait_until([&] { return !lease.held(); }));
  }
  CHECK(time_of([&] { redis.reset(); }) < 5s);
}

TEST_CASE("the last reference may go in a lost() callback, on the library's own thread") {
  RedisServer server;
  server.keys();
  auto const threads = support::threads_alive();
  auto const descriptors = support::open_descriptors();
  for (int i = 0; i < 3; ++i) {
    struct Everything {
      std::optional<Client> redis;
      std::optional<Lease> lease;
    };
    auto all = std::make_unique<Everything>();
    all->redis.emplace(server.uri());
    all->lease = Lock{*all->redis, "name", {.ttl = 5s}}.acquire();
    std::atomic<bool> gone{false};
    auto const lost = all->lease->lost();
    std::stop_callback const callback{lost, [&] {
                                        all.reset();  // lease, Client and what they share: here
                                        gone = true;
                                      }};
    server.command({"DEL", "name"});
    CHECK(wait_until([&] { return gone.load(); }));
  }
  CHECK(support::wait_for_threads(threads));
  CHECK(support::wait_for_descriptors(descriptors));
}

TEST_CASE("the last reference may go in the observer") {
  RedisServer server;
  server.keys();
  auto const threads = support::threads_alive();
  auto const descriptors = support::open_descriptors();
  {
    std::optional<Client> redis;
    std::optional<Lease> lease;
    std::atomic<bool> gone{false};
    redis.emplace(server.uri(), mortise::ClientOptions{.observer = [&](Event const& event) {
                    if (event.kind != Event::Kind::lost) return;
                    redis.reset();
                    lease.reset();
                    gone = true;
                  }});
    lease = Lock{*redis, "name", {.ttl = 200ms, .renew = false}}.acquire();
    CHECK(wait_until([&] { return gone.load(); }));
  }
  CHECK(support::wait_for_threads(threads));
  CHECK(support::wait_for_descriptors(descriptors));
}

TEST_CASE("a lost() callback that throws within itself and catches, and one that blocks, harm no other lease") {
  RedisServer server;
  Client redis{server.uri()};
  auto a = Lock{redis, "a", {.ttl = 200ms, .renew = false}}.acquire();
  auto b = Lock{redis, "b", {.ttl = 400ms}}.acquire();
  std::atomic<int> called{0};
  std::atomic<bool> blocked{true};
  std::stop_callback const throws{a.lost(), [&] {
                                    ++called;
                                    try {
                                      throw std::runtime_error{"the callback's own"};
                                    } catch (std::runtime_error const&) {
                                    }
                                  }};
  std::stop_callback const blocks{a.lost(), [&] {
                                    ++called;
                                    static_cast<void>(wait_until([&] { return !blocked; }));
                                  }};
  CHECK(wait_until([&] { return called >= 1; }));
  auto const end = mortise::Clock::now() + 900ms;
  while (b.held() && mortise::Clock::now() < end) std::this_thread::sleep_for(5ms);
  CHECK(b.held());
  blocked = false;
  CHECK(wait_until([&] { return called == 2; }));
  CHECK(b.release());
}

TEST_CASE("leases are moved between threads while they are renewed") {
  RedisServer server;
  Client redis{server.uri()};
  std::vector<Lease> leases;
  for (int i = 0; i < 10; ++i) leases.push_back(Lock{redis, "lock " + std::to_string(i), {.ttl = 300ms}}.acquire());
  auto const end = mortise::Clock::now() + 1s;
  while (mortise::Clock::now() < end) {
    std::thread other{[moved = std::move(leases), &leases]() mutable {
      std::vector<Lease> back;
      for (auto& lease : moved) back.push_back(std::move(lease));
      leases = std::move(back);
    }};
    other.join();
    std::swap(leases.front(), leases.back());
  }
  for (auto& lease : leases) {
    CHECK(lease.held());
    CHECK(lease.release());
  }
}

TEST_CASE("a Lock shared by threads whose lease is lost in between still admits one at a time") {
  RedisServer server;
  Client redis{server.uri()};
  Lock lock{redis, "name", {.ttl = 100ms, .renew = false}};
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        lock.lock();
        if (++inside != 1) together = true;
        auto const fence = lock.fence();
        if ((i + t) % 3 == 0) {
          static_cast<void>(wait_until([&] { return !lock.lease().held(); }));  // lost, and inside all the same
          std::this_thread::sleep_for(10ms);
        }
        if (lock.fence() != fence) together = true;
        --inside;
        lock.unlock();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(together);
}

TEST_CASE("exit while holding, with everything static, ends the process in order") {
  RedisServer server;
  auto const how = GENERATE(as<std::string>{}, "return from main", "exit on another thread", "exit while others wait");
  CAPTURE(how);
  ChildProcess child{[&](support::Channel& parent) -> int {
    static Client redis{server.uri(), {.observer = [](Event const&) {}}};
    static Lock lock{redis, "name", {.ttl = 60s}};
    static Lock guarded{redis, "guarded", {.ttl = 60s}};
    static std::optional<Lease> lease;
    lease = lock.try_acquire();
    guarded.lock();
    if (!lease) return 1;
    parent.send_line("holds");
    if (how == "exit on another thread") {
      std::thread{[] { std::exit(0); }}.join();
    } else if (how == "exit while others wait") {
      std::thread{[] { static_cast<void>(error_of([] { static_cast<void>(lock.acquire()); })); }}.detach();
      std::this_thread::sleep_for(100ms);
    }
    return 0;
  }, ChildProcess::Ending::orderly};
  REQUIRE(child.read_line() == "holds");
  auto const status = child.wait();
  REQUIRE(status);
  CHECK(*status == ExitStatus::exited(0));
  CHECK(wait_until([&] { return is_free(server, "name"); }));  // its destructor has released it
}
