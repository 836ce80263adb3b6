// SPDX-License-Identifier: MIT
// What people would use instead, at the side of the library and the floor in one interleaved run. A process for each of
// their contenders: their interpreters have no threads that run at once.
#include "measurements.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include <mortise/mortise.hpp>

#include "contenders.hpp"
#include "co_process.hpp"
#include "statistics.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char const* name = "bench:others";

struct Program {
  std::string title;
  std::vector<std::string> command;

  CoProcess start(Setting const& setting, std::chrono::microseconds work) const {
    auto words = command;
    for (auto const& word : {std::to_string(setting.tcp.port), std::string{name}, std::to_string(work.count())}) words.push_back(word);
    return CoProcess{words};
  }
};

std::vector<Program> programs_that_run(Setting const& setting) {
  std::vector<Program> const all{
      {"redis-py Lock", {"python3", setting.others + "/redis_py.py"}},
      {"redis-py Lock", {"/usr/bin/python3", setting.others + "/redis_py.py"}},
      {"node-redlock", {"node", setting.others + "/node_redlock.mjs"}},
  };
  std::vector<Program> found;
  for (auto const& program : all) {
    if (!found.empty() && found.back().title == program.title) continue;
    if (program.start(setting, {}).ready())
      found.push_back(program);
    else if (&program != &all.front())
      std::printf("\nskipped: %s is not installed here\n", program.title.c_str());
  }
  return found;
}

double p50_of(std::vector<double>& samples) { return percentile(samples, 0.5); }

double time_of_pairs(std::size_t count, std::function<bool()> const& pair) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < count; ++i) {
    auto const began = Clock::now();
    if (!pair()) throw std::runtime_error{"an uncontended lock was busy"};
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  return p50_of(samples);
}

double time_of_pairs(std::size_t count, CoProcess& program) {
  program.ask("pairs " + std::to_string(count));
  std::vector<double> samples;
  for (auto const nanoseconds : program.numbers()) samples.push_back(static_cast<double>(nanoseconds) / 1000);
  return p50_of(samples);
}

Table pairs(Setting const& setting, std::vector<Program> const& programs) {
  Raw{setting.tcp}.command({"FLUSHALL"});
  NaiveLock naive{setting.tcp, "bench:naive"};
  mortise::Client client{setting.tcp.uri()};
  mortise::Lock lock{client, "bench:lock", {.ttl = ttl}};
  std::vector<std::pair<std::string, std::function<double(std::size_t)>>> variants{
      {"raw SET NX PX + guarded delete",
       [&](std::size_t count) { return time_of_pairs(count, [&] { return naive.acquire() && naive.release(); }); }},
      {"mortise",
       [&](std::size_t count) {
         return time_of_pairs(count, [&] {
           auto lease = lock.try_acquire();
           return lease && lease->release();
         });
       }},
  };
  std::vector<CoProcess> running;
  running.reserve(programs.size());
  for (auto const& program : programs) {
    auto& mine = running.emplace_back(program.start(setting, {}));
    if (!mine.ready()) throw std::runtime_error{program.title + " does not start any more"};
    variants.emplace_back(program.title, [&mine](std::size_t count) { return time_of_pairs(count, mine); });
  }
  struct Time {
    double p50{};
  };
  for (auto const& variant : variants) variant.second(20);
  Runs<Time> const runs{variants.size(), setting.quick ? 1U : 30U, [&](std::size_t i) { return Time{variants[i].second(100)}; }};
  Table table{.title = "Other clients: uncontended acquire and release, TCP", .note = "Theirs draw no fence.", .rows = {}};
  for (std::size_t i = 0; i < variants.size(); ++i)
    table.rows.push_back({variants[i].first, {{"p50 µs", runs.median_of(i, &Time::p50), runs.ratio_of(i, &Time::p50)}}});
  return table;
}

Outcome contend(Setting const& setting, Program const& program, Contest const& contest) {
  std::vector<CoProcess> running;
  for (std::size_t i = 0; i < contest.waiters; ++i) running.push_back(program.start(setting, contest.work));
  for (auto& one : running)
    if (!one.ready()) throw std::runtime_error{program.title + " does not start any more"};
  auto const from = Clock::now() + contest.duration / 5;
  auto const until = from + contest.duration;
  for (auto& one : running) one.ask("turns " + std::to_string(until.time_since_epoch().count()));
  std::vector<std::vector<Turn>> turns;
  auto const at = [](std::int64_t time) { return Clock::time_point{std::chrono::nanoseconds{time}}; };
  for (auto& one : running) {
    auto& mine = turns.emplace_back();
    auto const numbers = one.numbers();
    for (std::size_t i = 0; i + 2 < numbers.size(); i += 3)
      mine.push_back({static_cast<std::uint64_t>(numbers[i + 1]), at(numbers[i]), at(numbers[i + 1]), at(numbers[i + 2])});
  }
  return outcome_of(turns, from, until);
}

Table handoffs(Setting const& setting, std::vector<Program> const& programs) {
  using namespace std::chrono_literals;
  Table table{.title = "Other clients: hand-off, owners working 0.4 ms, TCP",
              .note = "Theirs poll: redis-py every 100 ms, node-redlock every 200 ms.",
              .rows = {}};
  for (std::size_t const waiters : {2U, 8U}) {
    Contest const contest{waiters, 400us, setting.quick ? 200ms : 1500ms};
    std::vector<std::pair<std::string, std::function<Outcome()>>> variants{
        {"raw RPUSH → BLPOP", [&] { return contend(setting.tcp, contest, passed_element(setting.tcp, name)); }},
        {"mortise, a Client for each thread", [&] { return contend(setting.tcp, contest, own_clients(setting.tcp, name)); }},
    };
    for (auto const& program : programs) variants.emplace_back(program.title, [&] { return contend(setting, program, contest); });
    Runs<Outcome> const runs{variants.size(), setting.quick ? 1U : 3U, [&](std::size_t i) {
                               Raw{setting.tcp}.command({"FLUSHALL"});
                               return variants[i].second();
                             }};
    for (std::size_t i = 0; i < variants.size(); ++i)
      table.rows.push_back({"W = " + std::to_string(waiters) + ": " + variants[i].first,
                            {{"hand-off p50 µs", runs.median_of(i, &Outcome::p50), runs.ratio_of(i, &Outcome::p50)},
                             {"p99 µs", runs.median_of(i, &Outcome::p99), runs.ratio_of(i, &Outcome::p99)},
                             {"owners/s", runs.median_of(i, &Outcome::changes), runs.ratio_of(i, &Outcome::changes)},
                             {"max/min", runs.median_of(i, &Outcome::unfair)}}});
  }
  return table;
}

}  // namespace

std::vector<Table> others(Setting const& setting) {
  if (setting.others.empty()) return {};
  auto const programs = programs_that_run(setting);
  if (programs.empty()) return {};
  return {pairs(setting, programs), handoffs(setting, programs)};
}

}  // namespace bench
