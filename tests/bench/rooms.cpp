// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mortise/mortise.hpp>

#include "statistics.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr char const* name = "bench:room";
constexpr auto work = 400us;

enum class As { reader, writer, permit };

/// One thread's waits, in µs, and its Client, for each thread one.
struct Guest {
  Guest(Endpoint const& endpoint, As role, int permits) : as{role}, client{endpoint.uri()}, room{client, name, {.ttl = ttl}}, semaphore{client, "bench:permits", permits, {.ttl = ttl}} {
    static_cast<void>(mortise::Lock{client, "bench:warm"}.acquire());  // threads and connections
  }
  mortise::Lease enter() {
    return as == As::reader ? room.acquire_shared() : as == As::writer ? room.acquire() : semaphore.acquire();
  }

  As as;
  mortise::Client client;
  mortise::SharedLock<> room;
  mortise::Semaphore<> semaphore;
  std::vector<double> waits{};
};

struct Visit {
  double reader_p50{nothing}, reader_p99{nothing};
  double writer_p50{nothing}, writer_p99{nothing};
  double permit_p50{nothing}, permit_p99{nothing};
  double commands{};
};

double commands_sent(Raw& raw) {
  auto const reply = raw.command({"INFO", "commandstats"});
  double sum = 0;
  for (std::string const command : {"blpop", "evalsha", "eval"}) {
    auto const head = "cmdstat_" + command + ":calls=";
    auto const at = reply->text().find(head);
    if (at != std::string_view::npos) sum += std::stod(std::string{reply->text().substr(at + head.size(), 20)});
  }
  return sum;
}

/// Everybody in a loop: in, some work, out.
Visit visit(Endpoint const& endpoint, std::vector<As> const& roles, int permits, std::chrono::milliseconds duration) {
  Raw raw{endpoint};
  raw.command({"FLUSHALL"});
  std::vector<std::unique_ptr<Guest>> guests;
  for (auto const role : roles) guests.push_back(std::make_unique<Guest>(endpoint, role, permits));
  std::latch ready{static_cast<std::ptrdiff_t>(guests.size()) + 1};
  std::atomic<bool> over{false};
  std::vector<std::future<void>> threads;
  for (auto const& guest : guests)
    threads.push_back(std::async(std::launch::async, [&, mine = guest.get()] {
      ready.arrive_and_wait();
      while (!over.load(std::memory_order_relaxed)) {
        auto const asked = Clock::now();
        auto const lease = mine->enter();
        mine->waits.push_back(std::chrono::duration<double, std::micro>(Clock::now() - asked).count());
        std::this_thread::sleep_for(work);
      }
    }));
  raw.command({"CONFIG", "RESETSTAT"});
  ready.arrive_and_wait();
  std::this_thread::sleep_for(duration);
  over.store(true);
  for (auto& thread : threads) thread.get();

  Visit result;
  double all = 0;
  auto const of = [&](As role, double& p50, double& p99) {
    std::vector<double> waits;
    for (auto const& guest : guests)
      if (guest->as == role) waits.insert(waits.end(), guest->waits.begin(), guest->waits.end());
    all += static_cast<double>(waits.size());
    if (waits.empty()) return;
    p50 = percentile(waits, 0.5);
    p99 = percentile(waits, 0.99);
  };
  of(As::reader, result.reader_p50, result.reader_p99);
  of(As::writer, result.writer_p50, result.writer_p99);
  of(As::permit, result.permit_p50, result.permit_p99);
  result.commands = commands_sent(raw) / all;
  return result;
}

std::vector<As> roles(std::size_t readers, std::size_t writers) {
  std::vector<As> all(readers, As::reader);
  all.insert(all.end(), writers, As::writer);
  return all;
}

}  // namespace

std::vector<Table> rooms(Setting const& setting) {
  auto const duration = setting.quick ? 60ms : 1000ms;
  auto const repetitions = setting.quick ? 1U : 5U;
  Table mixed{.title = "Readers and writers in a loop, 0.4 ms inside, a Client each, TCP",
              .note = "Waits in µs. In the order of arrival a wait is bounded by who came before: neither side starves.",
              .rows = {}};
  std::vector<std::pair<std::string, std::vector<As>>> const mixes{
      {"8 readers", roles(8, 0)}, {"8 readers + 1 writer", roles(8, 1)}, {"8 writers + 1 reader", roles(1, 8)}, {"8 writers", roles(0, 8)}};
  Runs<Visit> const mix_runs{mixes.size(), repetitions, [&](std::size_t i) { return visit(setting.tcp, mixes[i].second, 2, duration); }};
  for (std::size_t i = 0; i < mixes.size(); ++i)
    mixed.rows.push_back({mixes[i].first,
                          {{"reader p50", mix_runs.median_of(i, &Visit::reader_p50)},
                           {"p99", mix_runs.median_of(i, &Visit::reader_p99)},
                           {"writer p50", mix_runs.median_of(i, &Visit::writer_p50)},
                           {"writer p99", mix_runs.median_of(i, &Visit::writer_p99)},
                           {"commands", mix_runs.median_of(i, &Visit::commands)}}});
  Table permits{.title = "Two permits, 0.4 ms inside, a Client for each thread, TCP",
                .note = "Commands are per acquisition: at most 5.3, whatever W is.",
                .rows = {}};
  std::vector<std::size_t> const crowds{2, 4, 8, 32};
  Runs<Visit> const permit_runs{crowds.size(), repetitions, [&](std::size_t i) {
                                  return visit(setting.tcp, std::vector<As>(crowds[i], As::permit), 2, duration);
                                }};
  for (std::size_t i = 0; i < crowds.size(); ++i) {
    auto const commands = permit_runs.median_of(i, &Visit::commands);
    permits.rows.push_back({"W = " + std::to_string(crowds[i]),
                            {{"wait p50 µs", permit_runs.median_of(i, &Visit::permit_p50)},
                             {"p99 µs", permit_runs.median_of(i, &Visit::permit_p99)},
                             {"commands", commands, nothing, commands > 5.3}}});
  }
  return {mixed, permits};
}

}  // namespace bench
