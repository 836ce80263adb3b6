// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

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
  auto const more = static_cast<double>(threads()) - static_cast<double>(before);
  return {std::move(what), {{"resident KiB", (resident_kib() - memory) / each}, {"threads", more / each}}};
}

/// What one of many threads does until it may go.
using Wait = std::function<void(std::size_t index, std::stop_token const& end)>;

/// Threads that wait, all of them by now, until they may go.
class Crowd {
 public:
  Crowd(std::size_t count, Wait const& wait) {
    for (std::size_t i = 0; i < count; ++i)
      members_.emplace_back([wait, i](std::stop_token const& end) { wait(i, end); });
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
  auto const held = [](std::size_t i) { return "bench:held:" + std::to_string(i); };
  auto const wait_for = [](mortise::Client& of, std::string name, std::stop_token const& end) {
    static_cast<void>(mortise::Lock{of, std::move(name)}.acquire(end));
  };
  std::vector<mortise::Lease> leases;
  leases.reserve(many);
  table.rows.push_back(grown("a held lease", many, [&] {
    for (std::size_t i = 0; i < many; ++i) leases.push_back(mortise::Lock{client, held(i)}.try_acquire().value());
  }));

  std::unique_ptr<Crowd> crowd;
  auto const row = [&](std::string what, Wait const& wait) {
    table.rows.push_back(grown(std::move(what), count, [&] { crowd = std::make_unique<Crowd>(count, wait); }));
    crowd.reset();
  };
  row("a thread that only sleeps", [](std::size_t, std::stop_token const& end) {
    while (!end.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds{50});
  });
  row("a waiter, all of one Client for one name",
      [&](std::size_t, std::stop_token const& end) { wait_for(client, held(0), end); });
  row("a waiter, all of one Client, each for its own name",
      [&](std::size_t i, std::stop_token const& end) { wait_for(client, held(i), end); });
  row("a waiter with its own Client, used before",
      [&](std::size_t i, std::stop_token const& end) { wait_for(*clients[i], held(0), end); });
  return {table};
}

}  // namespace bench
