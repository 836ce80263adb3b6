// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <string>

#include <mortise/mortise.hpp>

#include "statistics.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

struct PairTime {
  double p50{};
  double p99{};
};

/// How long one acquire and its release take, in µs, over a block of them.
PairTime time_pairs(int count, std::function<bool()> const& pair) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    auto const began = Clock::now();
    if (!pair()) throw std::runtime_error{"an uncontended lock was busy"};
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  return {percentile(samples, 0.5), percentile(samples, 0.99)};
}

}  // namespace

std::vector<Table> pair(Setting const& setting) {
  Table table{.title = "Uncontended acquire and release, one thread",
              .note = "To reach: p50 at most 1.3 ×. Absolute, and in proportion to the raw pair over the same transport.",
              .rows = {}};
  for (auto const& endpoint : {setting.tcp, setting.local}) {
    Raw{endpoint}.command({"FLUSHALL"});
    NaiveLock naive{endpoint, "bench:naive"};
    ScriptedLock scripted{endpoint, "bench:scripted", "bench-host:12345#0123456789abcdef0123456789abcdef"};
    mortise::Client client{endpoint.uri()};
    mortise::Lock lock{client, "bench:lock", {.ttl = ttl}};
    std::deque<mortise::Lock<>> in_turn;  // so that a name is free again when its turn comes
    for (int i = 0; i < 64; ++i) in_turn.emplace_back(client, "bench:lock:" + std::to_string(i), mortise::LockOptions{.ttl = ttl});
    std::size_t turn = 0;

    std::vector<std::pair<std::string, std::function<bool()>>> const variants{
        {"raw SET NX PX + guarded delete", [&] { return naive.acquire() && naive.release(); }},
        {"the library's scripts through bare hiredis", [&] { return scripted.try_acquire() != 0 && scripted.release(); }},
        {"try_acquire, release",
         [&] {
           auto lease = lock.try_acquire();
           return lease && lease->release();
         }},
        {"acquire, release_later",
         [&] {
           in_turn[turn++ % in_turn.size()].acquire().release_later();
           return true;
         }},
        {"std::scoped_lock",
         [&] {
           std::scoped_lock const held{lock};
           return lock.lease().held();
         }},
    };
    for (auto const& variant : variants) time_pairs(20, variant.second);  // connected, scripts known

    Runs<PairTime> const runs{variants.size(), setting.quick ? 3U : 100U,
                              [&](std::size_t i) { return time_pairs(100, variants[i].second); }};
    for (std::size_t i = 0; i < variants.size(); ++i) {
      auto const ratio = runs.ratio_of(i, &PairTime::p50);
      table.rows.push_back({(endpoint.path.empty() ? "TCP: " : "unix: ") + variants[i].first,
                            {{"p50 µs", runs.median_of(i, &PairTime::p50), ratio, i >= 2 && ratio > 1.3},
                             {"p99 µs", runs.median_of(i, &PairTime::p99), runs.ratio_of(i, &PairTime::p99)}}});
    }
  }
  return {table};
}

}  // namespace bench
