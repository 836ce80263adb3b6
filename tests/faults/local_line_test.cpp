// SPDX-License-Identifier: MIT
// Threads of one Client that wait for one name: whoever leaves the line, the others get their turn.
#include <atomic>
#include <random>
#include <stop_token>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::RedisServer;
using support::wait_until;

TEST_CASE("a waiter that is cancelled just when its turn comes leaves the turn to the next") {
  RedisServer server;
  Client redis{server.uri()};
  Lock lock{redis, "name"};
  auto held = lock.try_acquire();
  REQUIRE(held);

  std::stop_source first_cancel;
  std::stop_source second_cancel;
  std::atomic<int> inside{0};
  std::thread first{[&] {
    ++inside;
    CHECK_FALSE(lock.acquire(first_cancel.get_token()));
  }};
  // The first waits at the server, the others behind it.
  CHECK(wait_until([&] { return !server.client_list().empty() && server.command({"EXISTS", "{name}:~wait"}).integer == 1; }));
  std::thread second{[&] {
    ++inside;
    CHECK_FALSE(lock.acquire(second_cancel.get_token()));
  }};
  CHECK(wait_until([&] { return inside == 2; }));
  std::this_thread::sleep_for(50ms);  // until it stands in line
  std::atomic<bool> third_held{false};
  std::thread third{[&] {
    ++inside;
    if (auto const lease = lock.acquire_for(20s)) third_held = true;
  }};
  CHECK(wait_until([&] { return inside == 3; }));
  std::this_thread::sleep_for(50ms);

  {  // Called while the stop of the second is requested already, and before the line's own callback.
    std::stop_callback const meanwhile{second_cancel.get_token(), [&] {
                                         first_cancel.request_stop();
                                         first.join();
                                       }};
    second_cancel.request_stop();
  }
  second.join();
  held->release();
  CHECK(wait_until([&] { return third_held.load(); }, 5s));
  third.join();
}

TEST_CASE("a waiter whose turn comes in the midst of its cancellation leaves the line in order") {
  RedisServer server;
  Client redis{server.uri()};
  Lock lock{redis, "name"};
  auto held = lock.try_acquire();
  REQUIRE(held);
  std::mt19937 random{1};
  auto const rounds = amount("LINE_ROUNDS", 60);
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::stop_source cancels[2];
    std::atomic<int> left{0};
    auto const wait = [&](int which) {
      if (!lock.acquire(cancels[which].get_token())) ++left;
    };
    std::thread first{wait, 0};
    REQUIRE(wait_until([&] { return server.command({"EXISTS", "{name}:~wait"}).integer == 1; }));
    std::thread second{wait, 1};
    std::this_thread::sleep_for(3ms);
    {  // Called before the line's own callback, which then meets the waiter as it leaves.
      std::stop_callback const meanwhile{cancels[1].get_token(), [&] {
                                           cancels[0].request_stop();
                                           std::this_thread::sleep_for(std::chrono::microseconds{random() % 1500});
                                         }};
      cancels[1].request_stop();
    }
    first.join();
    second.join();
    REQUIRE(left == 2);
    server.command({"DEL", "{name}:~wait"});
  }
  CHECK(held->release());
  CHECK(lock.try_acquire());
}

TEST_CASE("a crowd that is cancelled while its Client goes away leaves the line in order") {
  RedisServer server;
  Client other{server.uri()};
  Lock theirs{other, "name"};
  auto const held = theirs.try_acquire();
  REQUIRE(held);
  auto const rounds = amount("LINE_ROUNDS", 60) / 10;
  for (std::int64_t round = 0; round < rounds; ++round) {
    auto redis = std::make_unique<Client>(server.uri());
    Lock lock{*redis, "name"};
    std::vector<std::stop_source> cancels(60);
    std::atomic<int> waiting{0};
    std::atomic<int> left{0};
    std::vector<std::thread> threads;
    for (auto& cancel : cancels)
      threads.emplace_back([&, token = cancel.get_token()] {
        ++waiting;
        auto const error = error_of([&] {
          if (lock.acquire(token)) --left;
        });
        if (!error || error->errc() == mortise::Errc::closed) ++left;
      });
    REQUIRE(wait_until([&] { return waiting == 60; }));
    std::this_thread::sleep_for(20ms);
    std::atomic<bool> go{false};
    for (std::size_t part = 0; part < 3; ++part)
      threads.emplace_back([&, part] {
        while (!go) std::this_thread::yield();
        for (auto i = part; i < cancels.size(); i += 3) cancels[i].request_stop();
      });
    go = true;
    redis.reset();
    for (auto& thread : threads) thread.join();
    REQUIRE(left == 60);
  }
  CHECK(held->held());
}
