// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include <mortise/mortise.hpp>

#include "process.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double calls_of_evalsha(Raw& raw) {
  auto const reply = raw.command({"INFO", "commandstats"});
  constexpr std::string_view head = "cmdstat_evalsha:calls=";
  auto const at = reply->text().find(head);
  return at == std::string_view::npos ? 0 : std::stod(std::string{reply->text().substr(at + head.size(), 20)});
}

double milliseconds_of(milliseconds time) { return static_cast<double>(time.count()); }

/// What the server says is left of the shortest of them, in ms: a few of the leases at a time.
double shortest_pttl(Raw& raw, std::vector<mortise::Lease> const& leases, std::size_t from, std::size_t count) {
  double shortest = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < count; ++i) raw.append({"PTTL", leases[(from + i) % leases.size()].name()});
  for (std::size_t i = 0; i < count; ++i) shortest = std::min(shortest, static_cast<double>(raw.receive()->integer()));
  return shortest;
}

double shortest_belief(std::vector<mortise::Lease> const& leases) {
  auto shortest = milliseconds::max();
  for (auto const& lease : leases) shortest = std::min(shortest, lease.remaining());
  return milliseconds_of(shortest);
}

Row hold_many(Setting const& setting, std::size_t count, milliseconds lifetime, milliseconds duration) {
  // A renewal is written a third of the TTL after the last; what is believed is shorter by the drift allowance.
  auto const due = lifetime - lifetime / 3;
  auto const due_belief = milliseconds_of(due) - milliseconds_of(lifetime) / 100 - 2;

  Raw raw{setting.tcp};
  raw.command({"FLUSHALL"});
  mortise::Client client{setting.tcp.uri()};
  std::vector<mortise::Lease> leases;
  for (std::size_t i = 0; i < count; ++i) {
    mortise::Lock lock{client, "bench:held:" + std::to_string(i), {.ttl = lifetime}};
    leases.push_back(lock.try_acquire().value());
  }

  raw.command({"CONFIG", "RESETSTAT"});
  auto const began = Clock::now();
  auto const process = process_time() - thread_time();
  auto const keeper = time_of_threads("mortise-keeper");
  double pttl = milliseconds_of(lifetime);
  double belief = pttl;
  for (std::size_t sample = 0; Clock::now() - began < duration; ++sample) {
    std::this_thread::sleep_for(milliseconds{20});
    belief = std::min(belief, shortest_belief(leases));
    pttl = std::min(pttl, shortest_pttl(raw, leases, sample * 100, 100));
  }
  auto const seconds = std::chrono::duration<double>(Clock::now() - began).count();
  auto const process_part = (process_time() - thread_time() - process).count() / seconds * 100;
  auto const keeper_part = (time_of_threads("mortise-keeper") - keeper).count() / seconds * 100;
  auto const renewals = calls_of_evalsha(raw) / seconds;
  auto const lost = std::count_if(leases.begin(), leases.end(), [](mortise::Lease const& lease) { return !lease.held(); });
  auto const late = std::max(due_belief - belief, 0.0);

  return {"L = " + std::to_string(count) + ": one Client",
          {{"CPU %", process_part, nothing, process_part >= 5},
           {"keeper thread %", keeper_part},
           {"renewals/s", renewals},
           {"shortest PTTL ms (" + std::to_string(due.count()) + " when due)", pttl},
           {"latest renewal ms", late, nothing, late > milliseconds_of(lifetime) / 3},
           {"lost", static_cast<double>(lost), nothing, lost != 0}}};
}

}  // namespace

std::vector<Table> renewal(Setting const& setting) {
  milliseconds const lifetime{setting.quick ? 2000 : 10'000};
  Table table{.title = "Held leases, TTL " + std::to_string(lifetime / std::chrono::seconds{1}) + " s, TCP",
              .note = "To reach, for 10,000: less than 5 % of one core, no late renewal, none lost. Without the thread that looks on.",
              .rows = {}};
  for (std::size_t const count : {100U, 1000U, 10'000U})
    if (!setting.quick || count == 1000)
      table.rows.push_back(hold_many(setting, count, lifetime, milliseconds{setting.quick ? 3000 : 12'000}));
  return {table};
}

}  // namespace bench
