// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <functional>
#include <latch>
#include <thread>

#include <mortise/mortise.hpp>

#include "process.hpp"

namespace bench {
namespace {

/// What `count` of something add to the process, each.
Row grown(std::string what, std::size_t count, std::function<void()> const& grow) {
  auto const memory = resident_kib();
  auto const before = threads();
  grow();
  auto const each = static_cast<double>(count);
  return {std::move(what),
          {{"resident KiB", (resident_kib() - memory) / each}, {"threads", (static_cast<double>(threads()) - static_cast<double>(before)) / each}}};
}

/// Threads that wait until all of them are through `wait`, which is told their number and ends when they may go.
class Crowd {
 public:
  Crowd(std::size_t count, std::function<void(std::size_t, std::stop_token const&)> const& wait) {
    for (std::size_t i = 0; i < count; ++i) members_.emplace_back([wait, i](std::stop_token const& end) { wait(i, end); });
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
  }
  ~Crowd() {
    for (auto& member : members_) member.request_stop();
  }

 private:
  std::vector<std::jthread> members_{};
};

}  // namespace

std::vector<Table> footprint(Setting const& setting) {
  Raw{setting.tcp}.command({"FLUSHALL"});
  std::size_t const count = setting.quick ? 20 : 100;
  std::size_t const many = setting.quick ? 1000 : 10'000;
  Table table{.title = "Memory and threads", .note = "A waiter counts with the thread that waits.", .rows = {}};

  std::vector<std::unique_ptr<mortise::Client>> clients;
  clients.reserve(count);
  auto const add_client = [&] {
    auto& client = *clients.emplace_back(std::make_unique<mortise::Client>(setting.tcp.uri()));
    static_cast<void>(mortise::Lock{client, "bench:first"}.acquire());
  };
  table.rows.push_back(grown("a Client that has been used", count, [&] {
    for (std::size_t i = 0; i < count; ++i) add_client();
  }));

  auto& client = *clients.front();
  std::vector<mortise::Lease> leases;
  leases.reserve(many);
  table.rows.push_back(grown("a held lease", many, [&] {
    for (std::size_t i = 0; i < many; ++i) leases.push_back(mortise::Lock{client, "bench:held:" + std::to_string(i)}.try_acquire().value());
  }));

  std::unique_ptr<Crowd> crowd;
  auto const row = [&](std::string what, std::function<void(std::size_t, std::stop_token const&)> const& wait) {
    table.rows.push_back(grown(std::move(what), count, [&] { crowd = std::make_unique<Crowd>(count, wait); }));
    crowd.reset();
  };
  row("a thread that only sleeps", [](std::size_t, std::stop_token const& end) {
    while (!end.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds{50});
  });
  row("a waiter, all of one Client for one name",
      [&](std::size_t, std::stop_token const& end) { static_cast<void>(mortise::Lock{client, "bench:held:0"}.acquire(end)); });
  row("a waiter, all of one Client, each for its own name",
      [&](std::size_t i, std::stop_token const& end) { static_cast<void>(mortise::Lock{client, "bench:held:" + std::to_string(i)}.acquire(end)); });
  row("a waiter with its own Client, used before",
      [&](std::size_t i, std::stop_token const& end) { static_cast<void>(mortise::Lock{*clients[i], "bench:held:0"}.acquire(end)); });
  return {table};
}

}  // namespace bench
