// SPDX-License-Identifier: MIT
// Sixteen processes contend for a lock at three nodes, which are killed and restarted with their data at random. A judge reads
// what they wrote down, and a store that compares fences is asked whether any write came out of order.
//
// MORTISE_FAULTS_quorum_history_ms makes it longer (the soak: 60000), MORTISE_FAULTS_SEED makes the same choices again.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sqlite3.h>

#include "dice.hpp"
#include "setting.hpp"
#include "support/catch.hpp"
#include "support/check_history.hpp"
#include "support/history.hpp"
#include "support/processes.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"

using namespace faults;
using mortise::Fence;
using mortise::Lease;
using mortise::Lock;
using mortise::Quorum;
using support::ChildProcess;
using support::ExitStatus;
using support::Happening;
using support::HistoryLog;
using support::RedisServer;
using support::SharedCounters;

namespace {

/// A number in SQLite that takes a write only with a fence that is not older than the newest it has seen.
class GuardedNumber {
 public:
  explicit GuardedNumber(std::string const& path) {
    sqlite3* opened = nullptr;
    auto const result = sqlite3_open(path.c_str(), &opened);
    database_.reset(opened);
    if (result != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(opened)};
    sqlite3_busy_timeout(opened, 10'000);
    run("PRAGMA synchronous = OFF");
  }
  void create() {
    run("CREATE TABLE number (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, fence INTEGER NOT NULL)");
    run("INSERT INTO number VALUES (1, 0, 0)");
  }
  /// Shows the fence before anything is read: from here on no older holder writes. False: there has been a newer one.
  bool touch(Fence fence) { return changes("UPDATE number SET fence = " + text(fence) + " WHERE id = 1 AND fence <= " + text(fence)) == 1; }
  std::int64_t value() { return one("SELECT value FROM number"); }
  bool write(std::int64_t value, Fence fence) {
    return changes("UPDATE number SET value = " + std::to_string(value) + ", fence = " + text(fence) + " WHERE id = 1 AND fence <= " + text(fence)) == 1;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
  };
  static std::string text(Fence fence) { return std::to_string(fence.value); }
  void run(std::string const& sql) {
    if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(database_.get())};
  }
  int changes(std::string const& sql) {
    run(sql);
    return sqlite3_changes(database_.get());
  }
  std::int64_t one(std::string const& sql) {
    std::int64_t value = 0;
    auto const take = [](void* to, int, char** columns, char**) {
      *static_cast<std::int64_t*>(to) = std::stoll(columns[0]);
      return 0;
    };
    if (sqlite3_exec(database_.get(), sql.c_str(), take, &value, nullptr) != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(database_.get())};
    return value;
  }

  std::unique_ptr<sqlite3, Close> database_{};
};

constexpr milliseconds quorum_history_ttl{1000};

milliseconds quorum_history_time() {
  auto const* const set = std::getenv("MORTISE_FAULTS_quorum_history_ms");
  return milliseconds{set == nullptr ? 6000 : std::atoi(set)};
}

enum Count : std::size_t { over, turns, refused_writes, last_grant };

/// A worker's life; what it believed stands in the log.
int contend(std::vector<std::string> const& uris, std::string const& store, HistoryLog& log, SharedCounters& counts, std::uint64_t seed) {
  Dice dice{seed};
  Quorum quorum{uris, {.client = {.retry_for = milliseconds{60'000}}}};
  Lock lock{quorum, "lock", {.ttl = quorum_history_ttl}};
  GuardedNumber number{store};
  auto const believed_until = [](Lease const& lease) {
    auto const now = support::boottime_ns();
    return now + std::chrono::nanoseconds{lease.remaining()}.count();
  };
  while (counts[over] == 0) {
    log.add(Happening::call_begin, 1, 0, support::boottime_ns() + std::chrono::nanoseconds{3s}.count());
    std::optional<Lease> lease;
    try {
      lease = lock.acquire_for(3s);
    } catch (mortise::Error const& error) {
      if (!error.retryable()) {
        std::cerr << error.what() << std::endl;
        return 2;
      }
    }
    log.add(Happening::call_end, 1);
    if (!lease) continue;
    auto const fence = lease->fence();
    log.add(Happening::belief_begin, 1, fence.value, believed_until(*lease));
    counts[last_grant] = support::boottime_ns();
    if (number.touch(fence)) {
      auto const value = number.value();
      std::this_thread::sleep_for(milliseconds{dice.up_to(dice.in_hundred(99) ? 3 : 1500)});
      if (auto const until = believed_until(*lease); lease->held()) log.add(Happening::belief_renewed, 1, fence.value, until);
      if (number.write(value + 1, fence))
        ++counts[turns];
      else
        ++counts[refused_writes];
    } else {
      ++counts[refused_writes];
    }
    log.add(Happening::belief_end, 1, fence.value);
    try {
      static_cast<void>(lease->release());
    } catch (mortise::Error const&) {  // ends by itself
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("sixteen processes at three nodes that die and come back with their data: one holder, rising fences, an exact count, no stall") {
  auto const seed = fresh_seed();
  CAPTURE(seed);
  Dice dice{seed};
  std::deque<RedisServer> nodes;
  std::vector<std::string> uris;
  for (int i = 0; i < 3; ++i) uris.push_back(nodes.emplace_back(support::ServerOptions{.append_only = true}).uri());
  support::TemporaryFolder const folder;
  auto const store = (folder.path() / "store").native();
  GuardedNumber{store}.create();
  HistoryLog log;
  SharedCounters counts{4};
  std::deque<ChildProcess> workers;
  for (int i = 0; i < 16; ++i) workers.emplace_back([&, i] { return contend(uris, store, log, counts, seed + static_cast<std::uint64_t>(i)); });

  auto const end = mortise::Clock::now() + quorum_history_time();
  std::int64_t longest_stall = 0;
  auto const pass = [&](milliseconds time) {
    auto const until = mortise::Clock::now() + time;
    while (mortise::Clock::now() < until) {
      if (counts[last_grant] != 0) longest_stall = std::max(longest_stall, support::boottime_ns() - counts[last_grant]);
      std::this_thread::sleep_for(5ms);
    }
  };
  int killed = 0;
  pass(500ms);
  auto const enough = [&] { return counts[turns] > 50 || mortise::Clock::now() >= end + 30s; };
  while (mortise::Clock::now() < end || !enough()) {
    auto& victim = nodes[static_cast<std::size_t>(dice.up_to(2))];
    victim.kill();
    pass(milliseconds{dice.up_to(400)});
    victim.restart(RedisServer::Data::kept);
    ++killed;
    // With two nodes in quarantine at once nobody may get in: that is the rule, and no stall of the lock.
    pass(quorum_history_ttl + 1200ms + milliseconds{dice.up_to(500)});
  }
  counts[over] = 1;
  for (auto& worker : workers) CHECK(worker.wait(30s) == ExitStatus::exited(0));

  auto const violations = support::check_history(log.records(), {.call_slack = 2s});
  CHECK(violations == std::vector<std::string>{});
  CHECK(GuardedNumber{store}.value() == counts[turns]);
  CHECK(counts[turns] > 50);
  std::cerr << "quorum history: " << counts[turns] << " turns, " << counts[refused_writes] << " writes refused, " << killed
            << " kills, longest without a grant " << longest_stall / 1'000'000 << " ms\n";
  CHECK(longest_stall < std::chrono::nanoseconds{2 * quorum_history_ttl + 3s}.count());  // 3 s: of a busy machine
}
