// SPDX-License-Identifier: MIT
// Many who lock at once while the server cuts their connections or is started anew: the count stays exact.
#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Clock;
using mortise::Fence;
using mortise::Lock;
using support::RedisServer;
using support::Waiting;
using support::wait_until;

namespace {

/// Threads that count up a number nobody guards but the lock.
class Counting {
 public:
  explicit Counting(RedisServer& server, int threads = 6) {
    for (int t = 0; t < 2; ++t) clients_.emplace_back(server.uri(), mortise::ClientOptions{.command_timeout = 2s, .retry_for = 30s});
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this, t] { count(clients_[static_cast<std::size_t>(t % 2)]); });
  }
  /// All turns are over: whether the number is that of the turns, in which fences only rose.
  bool exact() {
    CHECK(wait_until([&] { return turns_ > 20; }, 30s));
    over_ = true;
    for (auto& thread : threads_) thread.join();
    CHECK(refused_ == 0);
    return number_ == turns_ && fences_rose_;
  }

 private:
  void count(Client& redis) {
    Lock lock{redis, "number", {.ttl = 5s}};
    while (!over_) {
      try {
        auto lease = lock.acquire_for(20s);
        if (!lease) continue;
        auto const number = number_;
        if (lease->fence() <= last_) fences_rose_ = false;
        last_ = lease->fence();
        std::this_thread::yield();
        number_ = number + 1;
        ++turns_;
        static_cast<void>(lease->release());
      } catch (mortise::Error const& error) {
        if (!error.retryable()) ++refused_;
      }
    }
  }

  std::int64_t number_{0};  // guarded by the lock under test
  Fence last_{};            // this, too
  bool fences_rose_{true};
  std::atomic<std::int64_t> turns_{0};
  std::atomic<std::int64_t> refused_{0};
  std::atomic<bool> over_{false};
  std::deque<Client> clients_{};
  std::vector<std::thread> threads_{};
};

}  // namespace

TEST_CASE("connections that the server kills under load cost nobody the lock") {
  RedisServer server;
  Counting counting{server};
  Client redis{server.uri()};
  Lock lock{redis, "held", {.ttl = 3s}};
  auto lease = lock.acquire();
  auto const end = Clock::now() + 2s;
  while (Clock::now() < end) {
    server.kill_clients();
    std::this_thread::sleep_for(15ms);
  }
  CHECK(lease.held());
  CHECK(counting.exact());
  CHECK(lease.confirm());
}

TEST_CASE("a server that is killed and comes back with its data under load costs nobody the lock") {
  RedisServer server{{.append_only = true}};
  Counting counting{server};
  Client redis{server.uri()};
  Lock lock{redis, "held", {.ttl = 10s}};
  auto lease = lock.acquire();
  auto const token = owner(server, "held");
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(300ms);
    server.kill();
    std::this_thread::sleep_for(50ms);
    server.restart(RedisServer::Data::kept);
  }
  std::this_thread::sleep_for(200ms);
  CHECK(lease.held());
  CHECK(owner(server, "held") == token);
  CHECK(counting.exact());
  CHECK(lease.confirm());
}

TEST_CASE("a hundred waiters for one name all get their turn, one at a time, over a few connections") {
  RedisServer server;
  std::deque<Client> clients;
  for (int i = 0; i < 5; ++i) clients.emplace_back(server.uri());
  Client first{server.uri()};
  auto held = Lock{first, "name"}.acquire();
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  std::deque<Waiting<bool>> waiting;
  for (std::size_t i = 0; i < 100; ++i)
    waiting.emplace_back([&, i] {
      Lock lock{clients[i % clients.size()], "name"};
      auto const lease = lock.acquire_for(60s);
      if (!lease) return false;
      if (++inside != 1) together = true;
      std::this_thread::yield();
      --inside;
      return true;
    });
  CHECK(wait_until([&] { return std::ranges::all_of(waiting, [](auto const& one) { return !one.over(); }) && server.client_list().size() >= 10; }));
  CHECK(server.client_list().size() <= 2 * clients.size() + 2);  // of each Client one that waits, and the keeper's
  server.reset_stats();
  CHECK(held.release());
  for (auto& one : waiting) CHECK(one.get());
  CHECK_FALSE(together);
  auto stats = server.commandstats();
  CHECK(stats["evalsha"] + stats["eval"] + stats["blpop"] < 100 * 6 + 100);  // constant for each, whatever the crowd
}

TEST_CASE("a server that takes no more connections costs no lease, and is used again when it does") {
  RedisServer server{{.config = {"maxclients 24"}}};
  Client redis{server.uri()};
  auto lease = Lock{redis, "held", {.ttl = 1s}}.acquire();
  std::this_thread::sleep_for(500ms);  // the keeper has its connection
  std::deque<support::RawClient> crowd;
  for (int i = 0; i < 40; ++i) {
    try {
      crowd.push_back(server.connect());
      if (crowd.back().command({"PING"}).is_error()) break;
    } catch (std::exception const&) {
      break;
    }
  }
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < 20; ++i)
    waiting.emplace_back([&, i] { return Lock{redis, "name " + std::to_string(i % 5)}.acquire_for(30s).has_value(); });
  std::this_thread::sleep_for(1500ms);
  CHECK(lease.held());
  crowd.clear();
  for (auto& one : waiting) CHECK(one.get());
  CHECK(lease.release());
}
