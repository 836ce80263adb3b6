// SPDX-License-Identifier: MIT
// What a client uses: no more connections than threads inside a call, and after it has gone nothing at all.
#include <deque>
#include <thread>

#include "lock_server.hpp"
#include "support/resources.hpp"
#include "support/waiting.hpp"

using support::open_descriptors;
using support::threads_alive;
using support::Waiting;

TEST_CASE("after a client has gone, threads and descriptors are as many as before") {
  LockServer redis;
  redis.keys();
  auto const descriptors = open_descriptors();
  auto const threads = threads_alive();
  for (int round = 0; round < 3; ++round) {
    {
      Client client{redis.unix_uri()};
      Lock lock{client, "lock", {.ttl = 600ms}};
      auto lease = lock.acquire();
      Waiting waiting{[&] { return lock.acquire_for(1min).has_value(); }};
      REQUIRE(redis.has_blocked(1));
      std::stop_source stop;
      Waiting cancelled{[&] { return lock.acquire(stop.get_token()).has_value(); }};
      REQUIRE(cancelled.asleep());
      std::this_thread::sleep_for(400ms);  // the keeper has renewed
      stop.request_stop();
      CHECK_FALSE(cancelled.get());
      CHECK(threads_alive() > threads);
      lease.release();
      CHECK(waiting.get());
    }
    CHECK(support::wait_for_threads(threads));
    CHECK(support::wait_for_descriptors(descriptors));
  }
}

TEST_CASE("a client that never locked anything costs no thread and no socket, and leaves nothing") {
  LockServer redis;
  redis.keys();
  auto const sockets = [] {
    return std::ranges::count_if(support::descriptors(), [](auto const& one) { return one.second.starts_with("socket:"); });
  };
  auto const descriptors = open_descriptors();
  auto const sockets_before = sockets();
  auto const threads = threads_alive();
  {
    Client client{redis.unix_uri()};
    Lock lock{client, "lock"};
    CHECK(sockets() == sockets_before);
    CHECK(threads_alive() == threads);
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("a client has two threads, however much it does") {
  LockServer redis;
  redis.keys();
  auto const threads = threads_alive();
  Client client{redis.unix_uri()};
  std::vector<Lease> leases;
  for (int i = 0; i < 50; ++i) leases.push_back(Lock{client, std::to_string(i), {.ttl = 600ms}}.acquire());
  std::this_thread::sleep_for(400ms);
  CHECK(threads_alive() == threads + 2);
}

TEST_CASE("leases that outlive their client keep what they need, and the last of them takes it along") {
  LockServer redis;
  redis.keys();
  auto const descriptors = open_descriptors();
  auto const threads = threads_alive();
  {
    std::vector<Lease> leases;
    {
      Client client{redis.unix_uri()};
      for (int i = 0; i < 5; ++i) leases.push_back(Lock{client, std::to_string(i), {.ttl = 600ms}}.acquire());
    }
    std::this_thread::sleep_for(1200ms);
    for (auto const& lease : leases) CHECK(lease.held());
  }
  CHECK(support::wait_for_threads(threads));
  CHECK(support::wait_for_descriptors(descriptors));
  for (int i = 0; i < 5; ++i) CHECK_FALSE(redis.exists(std::to_string(i)));
}

TEST_CASE("a thousand locks of one client are held, renewed and released over a handful of connections") {
  LockServer redis;
  Client client{redis.unix_uri(), {.client_name = "thousand"}};
  constexpr int count = 1000;
  std::deque<Lock<>> locks;
  std::vector<Lease> leases;
  for (int i = 0; i < count; ++i) {
    locks.emplace_back(client, "lock:" + std::to_string(i), mortise::LockOptions{.ttl = 3s});
    leases.push_back(locks.back().acquire());
  }
  CHECK(redis.keys().size() == 2 * count);
  std::this_thread::sleep_for(4s);  // more than a TTL
  CHECK(std::ranges::all_of(leases, [](auto const& lease) { return lease.held(); }));
  CHECK(redis.client_list().size() <= 3);
  CHECK(std::ranges::all_of(leases, [](auto& lease) { return lease.release(); }));
  CHECK(redis.keys().size() == count);  // the fence counters
}

TEST_CASE("a thousand Lock objects of one name are one lock") {
  LockServer redis;
  Client client{redis.unix_uri()};
  std::deque<Lock<>> locks;
  for (int i = 0; i < 1000; ++i) locks.emplace_back(client, "lock");
  Fence last{};
  for (auto& lock : locks) {
    std::scoped_lock const guard{lock};
    CHECK(lock.fence() > last);
    last = lock.fence();
  }
}

TEST_CASE("many threads that wait for many names get on, and connections go back to a few") {
  LockServer redis;
  Client client{redis.unix_uri(), {.client_name = "many"}};
  constexpr int names = 70;
  std::vector<Lease> held;
  for (int i = 0; i < names; ++i) held.push_back(Lock{client, std::to_string(i)}.acquire());
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < 2 * names; ++i)
    waiting.emplace_back([&, i] { return Lock{client, std::to_string(i % names)}.acquire().held(); });
  REQUIRE(redis.has_blocked(names));
  CHECK(redis.client_list().size() <= names + 2);
  held.clear();
  for (auto& one : waiting) CHECK(one.get());
  CHECK(redis.client_list().size() <= 65);  // 64 idle ones, and the keeper's
}
