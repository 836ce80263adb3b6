// SPDX-License-Identifier: MIT
#include "contention.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <iterator>
#include <latch>
#include <thread>
#include <vector>

#include "process.hpp"
#include "statistics.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

/// What came over the wire so far. Redis counts the commands in scripts as well: RPUSH is the floor's where no script ran.
double commands_on_the_wire(Raw& raw) {
  auto const reply = raw.command({"INFO", "commandstats"});
  auto const calls = [&](std::string const& command) {
    auto const head = "cmdstat_" + command + ":calls=";
    auto const at = reply->text().find(head);
    return at == std::string_view::npos ? 0.0 : std::stod(std::string{reply->text().substr(at + head.size(), 20)});
  };
  auto const scripts = calls("evalsha") + calls("eval");
  return calls("blpop") + (scripts > 0 ? scripts : calls("rpush"));
}

std::vector<Turn> take_turns(Contender& contender, std::chrono::microseconds work, std::atomic<bool> const& over) {
  std::vector<Turn> turns;
  turns.reserve(1 << 14);
  while (!over.load(std::memory_order_relaxed)) {
    Turn turn{.asked = Clock::now()};
    turn.number = contender.acquire();
    turn.owner = Clock::now();
    if (work.count() > 0) std::this_thread::sleep_for(work);
    turn.leaving = Clock::now();
    contender.release();
    turns.push_back(turn);
  }
  return turns;
}

}  // namespace

Outcome outcome_of(std::vector<std::vector<Turn>> const& turns, Clock::time_point from, Clock::time_point until) {
  std::vector<Turn> all;
  std::vector<double> each;
  for (auto const& mine : turns) {
    auto const before = all.size();
    std::copy_if(mine.begin(), mine.end(), std::back_inserter(all),
                 [&](Turn const& turn) { return turn.owner >= from && turn.owner < until; });
    each.push_back(static_cast<double>(all.size() - before));
  }
  Outcome outcome;
  outcome.changes = static_cast<double>(all.size()) / std::chrono::duration<double>(until - from).count();
  auto const [fewest, most] = std::minmax_element(each.begin(), each.end());
  outcome.unfair = *most / *fewest;

  std::sort(all.begin(), all.end(), [](Turn const& a, Turn const& b) { return a.number < b.number; });
  std::vector<double> handoffs;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].asked < all[i - 1].leaving && all[i].owner > all[i - 1].leaving)
      handoffs.push_back(std::chrono::duration<double, std::micro>(all[i].owner - all[i - 1].leaving).count());
  outcome.p50 = percentile(handoffs, 0.5);
  outcome.p99 = percentile(handoffs, 0.99);
  return outcome;
}

Outcome contend(Endpoint const& endpoint, Contest const& contest, MakeContender const& make) {
  Raw raw{endpoint};
  std::vector<std::unique_ptr<Contender>> contenders;
  for (std::size_t i = 0; i < contest.waiters; ++i) contenders.push_back(make(i));

  std::latch ready{static_cast<std::ptrdiff_t>(contest.waiters) + 1};
  std::atomic<bool> over{false};
  std::vector<std::future<std::vector<Turn>>> threads;
  for (auto const& contender : contenders)
    threads.push_back(std::async(std::launch::async, [&, mine = contender.get()] {
      ready.arrive_and_wait();
      return take_turns(*mine, contest.work, over);
    }));
  raw.command({"CONFIG", "RESETSTAT"});
  auto const processor = process_time();
  ready.arrive_and_wait();
  std::this_thread::sleep_for(contest.duration / 5);  // until all are in line
  auto const from = Clock::now();
  std::this_thread::sleep_for(contest.duration);
  auto const until = Clock::now();
  over.store(true, std::memory_order_relaxed);

  std::vector<std::vector<Turn>> turns;
  double acquisitions = 0;
  for (auto& thread : threads) {
    turns.push_back(thread.get());
    acquisitions += static_cast<double>(turns.back().size());
  }
  auto outcome = outcome_of(turns, from, until);
  outcome.processor = (process_time() - processor).count() * 1e6 / acquisitions;
  outcome.commands = commands_on_the_wire(raw) / acquisitions;
  return outcome;
}

}  // namespace bench
