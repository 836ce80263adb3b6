// SPDX-License-Identifier: MIT
// After a release has returned, nothing renews that lease ever again; and nothing of it is left.
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "dice.hpp"
#include "setting.hpp"
#include "support/catch.hpp"
#include "support/resources.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lease;
using mortise::Lock;
using mortise::TimePoint;
using mortise::detail::Authority;
using mortise::detail::Chore;
using mortise::detail::Herald;
using mortise::detail::Keeper;
using mortise::detail::LeaseState;
using mortise::detail::LockKeys;
using mortise::detail::LockSpec;
using mortise::detail::OwnerToken;
using mortise::detail::Wake;
using support::RedisServer;
using support::wait_until;

namespace {

/// Says yes to every renewal, and looks for those that are written although their lease has been dropped.
struct Watchful final : Authority {
  void send(std::span<Chore> batch, TimePoint, Wake*) noexcept override {
    for (int look = 0; look < 3; ++look) {  // writing takes its time
      for (auto const& chore : batch)
        if (chore.lease->gone) ++written_after_drop;
      std::this_thread::yield();
    }
    written += static_cast<std::int64_t>(batch.size());
  }
  void collect(std::span<Chore> batch, TimePoint, Wake*) noexcept override {
    for (auto& chore : batch) {
      chore.sent = now();
      chore.answer.yes = true;
      chore.outcome = Chore::Outcome::answered;
    }
  }
  std::atomic<std::int64_t> written{0};
  std::atomic<std::int64_t> written_after_drop{0};
};

}  // namespace

TEST_CASE("when a lease has been taken from the keeper, no renewal of it is being written or will be") {
  auto const authority = std::make_shared<Watchful>();
  auto const herald = std::make_shared<Herald>(authority, Herald::Observer{});
  auto const keeper = std::make_shared<Keeper>(authority, herald, 1000ms, 1);
  auto const spec = std::make_shared<LockSpec const>(LockSpec{LockKeys{"name"}, {}});
  keeper->start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (std::int64_t i = 0, pairs = amount("drops", instrumented ? 4000 : 20'000) / 4; i < pairs; ++i) {
        auto const lease = std::make_shared<LeaseState>(nullptr, spec, OwnerToken::fresh("me"));
        keeper->promise();
        lease->validity.begin(mortise::detail::after(authority->now(), 10s));
        keeper->hold(*lease, authority->now());  // due at once
        if (i % 3 != 0) std::this_thread::yield();
        keeper->drop(*lease);
        lease->gone = true;
      }
    });
  for (auto& thread : threads) thread.join();
  keeper->stop();
  CHECK(authority->written > 0);
  CHECK(authority->written_after_drop == 0);
}

TEST_CASE("pairs of grant and release with renewals every 10 ms, cancelled at random, leave no renewal, key, thread or descriptor") {
  RedisServer server;
  server.keys();
  auto const seed = fresh_seed();
  CAPTURE(seed);
  auto const threads_before = support::threads_alive();
  auto const descriptors_before = support::open_descriptors();
  auto const pairs = amount("pairs", instrumented ? 800 : 3000);
  std::atomic<std::int64_t> granted{0};
  std::atomic<std::int64_t> false_losses{0};
  {
    Client redis{server.uri()};
    for (std::int64_t done = 0; done < pairs;) {
      std::vector<std::thread> threads;  // threads that end, too
      for (int t = 0; t < 8; ++t, done += 50)
        threads.emplace_back([&, t, done] {
          Dice dice{seed + static_cast<std::uint64_t>(done) + static_cast<std::uint64_t>(t)};
          for (int i = 0; i < 50; ++i) {
            Lock lock{redis, "lock " + std::to_string(dice.up_to(5)), {.ttl = 30ms}};
            std::stop_source cancel;
            std::optional<std::thread> canceller;
            if (dice.in_hundred(30)) canceller.emplace([&cancel, pause = dice.time_up_to(3ms)] {
              std::this_thread::sleep_for(pause);
              cancel.request_stop();
            });
            if (auto lease = lock.acquire(cancel.get_token())) {
              ++granted;
              auto const hold = dice.time_up_to(5ms);
              if (dice.in_hundred(40)) std::this_thread::sleep_for(hold);
              bool const held = lease->held();
              auto const lost = lease->lost();
              if (dice.in_hundred(50))
                static_cast<void>(lease->release());
              else
                lease.reset();
              if (held && lost.stop_requested()) ++false_losses;
            }
            if (canceller) canceller->join();
          }
        });
      for (auto& thread : threads) thread.join();
    }
    CHECK(granted > pairs / 4);
    std::this_thread::sleep_for(60ms);  // two TTLs
    server.reset_stats();
    std::this_thread::sleep_for(60ms);
    CHECK(server.commandstats()["evalsha"] == 0);
    CHECK(wait_until([&] {
      for (auto const& key : server.keys())
        if (!key.ends_with(":~fence")) return false;
      return true;
    }, 10s));
  }
  CHECK(support::wait_for_threads(threads_before));
  CHECK(support::wait_for_descriptors(descriptors_before));
}
