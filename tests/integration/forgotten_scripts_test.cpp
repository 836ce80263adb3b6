// SPDX-License-Identifier: MIT
// A server that has forgotten our scripts: nobody who uses a lock notices.
#include <atomic>
#include <thread>

#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

TEST_CASE("acquire, confirm, extend, renewal and release go on after SCRIPT FLUSH") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock", {.ttl = 1500ms}};
  lock.acquire().release();
  redis.flush_scripts();
  auto lease = lock.acquire();
  redis.flush_scripts();
  CHECK(lease.confirm());
  redis.flush_scripts();
  CHECK(lease.extend());
  for (int i = 0; i < 100; ++i) {  // two TTLs: no renewal finds its script
    redis.flush_scripts();
    std::this_thread::sleep_for(30ms);
  }
  CHECK(lease.held());
  CHECK_FALSE(lock.try_acquire());
  redis.flush_scripts();
  CHECK(lease.release());
  CHECK(redis.keys() == std::vector<std::string>{fence_key("lock")});
}

TEST_CASE("a hand-off goes on when the scripts are forgotten while the waiter is blocked") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto lease = Lock{client, "lock"}.acquire();
  Waiting waiting{[&] { return Lock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.flush_scripts();
  CHECK(lease.release());
  CHECK(waiting.over_within(soon));
  auto next = waiting.get();
  CHECK(next.fence() > lease.fence());
  redis.flush_scripts();
  CHECK(next.confirm());
  CHECK(next.release());
}

TEST_CASE("nudges go on when the scripts are forgotten: a dead holder is noticed") {
  LockServer redis;
  Client client{redis.unix_uri()};
  redis.command({"SET", "lock", "dead", "PX", "1500"});
  Waiting waiting{[&] { return Lock{client, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  CHECK(wait_until([&] {
    redis.flush_scripts();
    return waiting.over();
  }, 20s, 20ms));
  CHECK(waiting.get().held());
}

TEST_CASE("while scripts are forgotten at random, turns are taken as ever") {
  LockServer redis;
  constexpr int threads = 4;
  constexpr int turns = instrumented ? 50 : 250;
  std::atomic<bool> over{false};
  std::atomic<int> number{0};
  std::atomic<int> failures{0};
  std::jthread flusher{[&, other = redis.connect()]() mutable {
    while (!over) {
      other.command({"SCRIPT", "FLUSH"});
      std::this_thread::sleep_for(1ms);
    }
  }};
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&] {
        Client client{redis.unix_uri()};
        Lock lock{client, "lock"};
        for (int turn = 0; turn < turns; ++turn) {
          try {
            auto lease = lock.acquire();
            auto const seen = number.load();
            if (turn % 5 == 0 && !lease.confirm()) ++failures;
            number.store(seen + 1);
            if (!lease.release()) ++failures;
          } catch (Error const&) {
            ++failures;
          }
        }
      });
  }
  over = true;
  CHECK(failures == 0);
  CHECK(number == threads * turns);
}
