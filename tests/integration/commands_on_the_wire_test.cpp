// SPDX-License-Identifier: MIT
// How much is said: nothing by constructors and for invalid options, two commands for a pair, and a constant for a hand-off.
#include <deque>
#include <thread>

#include "lock_server.hpp"
#include "support/proxy.hpp"
#include "support/waiting.hpp"

using support::Direction;
using support::Proxy;
using support::Waiting;

TEST_CASE("constructors and destructors of clients, locks and counters say nothing, nor do invalid options") {
  LockServer redis;
  Proxy proxy{redis.port()};
  {
    Client client{proxy.uri() + "/3?client_name=quiet", {.password = "unused", .replicas = 1}};
    Lock lock{client, "lock"};
    mortise::FencingCounter counter{client, "counter"};
    CHECK(lock.name() == "lock");
    CHECK(errc_of([&] { return lock.fence(); }) == Errc::not_held);
    lock.unlock();
    for (auto const ttl : {0ms, -1ms, 1ms, milliseconds::min(), milliseconds::max()})
      CHECK(errc_of([&] { return Lock{client, "lock", {.ttl = ttl}}.name(); }) == Errc::invalid_option);
    CHECK(errc_of([&] { return Lock{client, "lock", {.max_hold = 0ms}}.name(); }) == Errc::invalid_option);
    for (std::string const& name : {std::string{}, std::string(513, 'x'), std::string{"a:~fence"}, std::string{"{a}:~wake"}, std::string{"a:~wait"}})
      CHECK(errc_of([&] { return Lock{client, name}.name(); }) == Errc::invalid_option);
    CHECK(errc_of([&] { return mortise::fenced_set(client, "", "value", Fence{1}); }) == Errc::invalid_option);
    CHECK(errc_of([&] { return mortise::fenced_set(client, "key", "value", Fence{0}); }) == Errc::invalid_option);
    CHECK(errc_of([&] { return mortise::fenced_set(client, "key", "value", Fence{std::uint64_t{1} << 53}); }) == Errc::invalid_option);
    CHECK(errc_of([&] { return mortise::FencingCounter{client, ""}.last(); }) == Errc::invalid_option);
    std::stop_source stop;
    stop.request_stop();
    CHECK_FALSE(lock.acquire(stop.get_token()));
  }
  CHECK(proxy.connections_ever() == 0);
}

TEST_CASE("an uncontended acquisition and its release are two commands, both EVALSHA") {
  LockServer redis;
  Proxy proxy{redis.port()};
  Client client{proxy.uri()};
  Lock lock{client, "lock", {.ttl = 1min}};
  lock.acquire().release();  // connects, and teaches the server the scripts
  redis.reset_stats();
  auto const before = proxy.messages(Direction::request);
  constexpr int pairs = 50;
  for (int i = 0; i < pairs; ++i) {
    auto lease = i % 2 == 0 ? *lock.try_acquire() : *lock.acquire_for(1min);
    if (i % 3 == 0) lease.release();
  }
  CHECK(proxy.messages(Direction::request) - before == 2 * pairs);
  CHECK(redis.commandstats()["evalsha"] == 2 * pairs);
  CHECK(redis.calls_by_clients() == 2 * pairs);
  CHECK(proxy.connections_ever() == 1);
}

TEST_CASE("a busy answer is one command, and confirm and extend are one each") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock", {.ttl = 1min}};
  auto lease = lock.acquire();
  CHECK(lease.confirm());
  redis.reset_stats();
  CHECK_FALSE(lock.try_acquire());
  CHECK(redis.calls_by_clients() == 1);
  CHECK(lease.confirm());
  CHECK(redis.calls_by_clients() == 2);
  CHECK(lease.extend());
  CHECK(redis.calls_by_clients() == 3);
  CHECK(lease.held());
  CHECK(lease.remaining() > 0ms);
  CHECK(redis.calls_by_clients() == 3);
}

TEST_CASE("a contended acquisition takes at most 5.3 commands, however many wait, nudges and renewals included") {
  LockServer redis;
  auto const waiters = GENERATE(2, 8, 32);
  constexpr int turns = instrumented ? 20 : 100;
  std::deque<Client> clients;
  for (int i = 0; i < waiters; ++i) Lock{clients.emplace_back(redis.unix_uri()), "lock"}.acquire().release();
  redis.reset_stats();
  {
    std::vector<std::jthread> threads;
    for (auto& client : clients)
      threads.emplace_back([&] {
        Lock lock{client, "lock"};
        for (int turn = 0; turn < turns; ++turn) lock.acquire().release();
      });
  }
  auto const per_acquisition = static_cast<double>(redis.calls_by_clients()) / (waiters * turns);
  UNSCOPED_INFO(waiters << " waiters: " << per_acquisition << " commands per acquisition");
  CHECK(per_acquisition <= 5.3);
}

TEST_CASE("threads of one client that wait for a name use one connection, and get in one after the other") {
  LockServer redis;
  Client client{redis.unix_uri(), {.client_name = "crowd"}};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  constexpr int waiters = 20;
  std::mutex mutex;
  std::vector<int> order;
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < waiters; ++i) {
    waiting.emplace_back([&, i] {
      auto const mine = Lock{client, "lock"}.acquire();
      std::lock_guard const guard{mutex};
      order.push_back(i);
      return true;
    });
    REQUIRE(waiting.back().asleep());
  }
  REQUIRE(redis.has_blocked(1));
  // The one that waits, the keeper's, and at most one that is idle.
  CHECK(std::ranges::count_if(redis.client_list(), [](auto const& one) { return one.at("name") == "crowd"; }) <= 3);
  lease.release();
  for (auto& one : waiting) CHECK(one.get());
  CHECK(std::ranges::is_sorted(order));
  CHECK(order.size() == waiters);
}
