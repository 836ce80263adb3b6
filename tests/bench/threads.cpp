// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include <mortise/mortise.hpp>

#include "process.hpp"
#include "statistics.hpp"

namespace bench {
namespace {

struct Rate {
  double pairs{};      ///< a second, all threads together
  double processor{};  ///< µs of this process for each
};

/// Threads that each do one thing over and over on names of their own.
Rate run_threads(std::size_t count, std::chrono::milliseconds duration, std::function<std::function<bool()>(std::size_t)> const& make) {
  std::latch ready{static_cast<std::ptrdiff_t>(count) + 1};
  std::atomic<bool> over{false};
  std::vector<std::future<std::uint64_t>> threads;
  for (std::size_t i = 0; i < count; ++i)
    threads.push_back(std::async(std::launch::async, [&, pair = make(i)] {
      std::uint64_t done = pair() ? 0 : throw std::runtime_error{"an uncontended lock was busy"};
      ready.arrive_and_wait();
      for (; !over.load(std::memory_order_relaxed); ++done)
        if (!pair()) throw std::runtime_error{"an uncontended lock was busy"};
      return done;
    }));
  ready.arrive_and_wait();
  auto const began = std::chrono::steady_clock::now();
  auto const processor = process_time();
  std::this_thread::sleep_for(duration);
  over.store(true);
  double all = 0;
  for (auto& thread : threads) all += static_cast<double>(thread.get());
  auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return {all / seconds, (process_time() - processor).count() * 1e6 / all};
}

}  // namespace

std::vector<Table> threads_of_a_client(Setting const& setting) {
  using namespace std::chrono_literals;
  Table table{.title = "Uncontended pairs of many threads, names of their own, TCP",
              .note = "The floor has a connection for each thread.",
              .rows = {}};
  for (std::size_t const count : {1U, 2U, 4U, 8U, 16U, 64U}) {
    std::vector<std::pair<std::string, std::function<Rate()>>> const variants{
        {"raw SET NX PX + guarded delete",
         [&] {
           return run_threads(count, setting.quick ? 30ms : 400ms, [&](std::size_t i) -> std::function<bool()> {
             auto lock = std::make_shared<NaiveLock>(setting.tcp, "bench:naive:" + std::to_string(i));
             return [lock] { return lock->acquire() && lock->release(); };
           });
         }},
        {"mortise, one Client",
         [&] {
           mortise::Client client{setting.tcp.uri()};
           return run_threads(count, setting.quick ? 30ms : 400ms, [&](std::size_t i) -> std::function<bool()> {
             auto lock = std::make_shared<mortise::Lock<>>(client, "bench:own:" + std::to_string(i), mortise::LockOptions{.ttl = ttl});
             return [lock] {
               auto lease = lock->try_acquire();
               return lease && lease->release();
             };
           });
         }},
    };
    Runs<Rate> const runs{variants.size(), setting.quick ? 1U : 5U, [&](std::size_t i) {
                            Raw{setting.tcp}.command({"FLUSHALL"});
                            return variants[i].second();
                          }};
    for (std::size_t i = 0; i < variants.size(); ++i)
      table.rows.push_back({"T = " + std::to_string(count) + ": " + variants[i].first,
                            {{"pairs/s", runs.median_of(i, &Rate::pairs), runs.ratio_of(i, &Rate::pairs)},
                             {"CPU µs", runs.median_of(i, &Rate::processor), runs.ratio_of(i, &Rate::processor)}}});
  }
  return {table};
}

}  // namespace bench
