// SPDX-License-Identifier: MIT
// Locks at several servers: against the same requests written to all of them at once through bare hiredis.
#include "measurements.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <signal.h>

#include <mortise/mortise.hpp>

#include "statistics.hpp"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Acquire and release by the library's scripts at all nodes: all is written before any answer is read, then all are read.
class FannedOut {
 public:
  explicit FannedOut(std::vector<Endpoint> const& nodes) : keys_{"bench:fan-out"} {
    for (auto const& node : nodes) {
      nodes_.push_back(std::make_unique<Raw>(node));
      for (auto const verb : {mortise::detail::Verb::acquire, mortise::detail::Verb::release})
        nodes_.back()->command({"SCRIPT", "LOAD", mortise::detail::mutex_script(verb).text});
    }
  }

  bool pair() {
    auto const floor = std::to_string(mortise::detail::wall_microseconds());
    for (auto const& node : nodes_)
      node->append({"EVALSHA", mortise::detail::mutex_script(mortise::detail::Verb::acquire).sha, "4", keys_.lock, keys_.fence, keys_.wake,
                    keys_.wait, token, "10000", floor, "604800000", "0", ""});
    bool const granted = all();
    for (auto const& node : nodes_)
      node->append({"EVALSHA", mortise::detail::mutex_script(mortise::detail::Verb::release).sha, "4", keys_.lock, keys_.fence, keys_.wake,
                    keys_.wait, token, "500", floor, "604800000", "0"});
    return all() && granted;
  }

 private:
  static constexpr std::string_view token = "bench-host:12345#0123456789abcdef0123456789abcdef";

  bool all() {
    for (auto const& node : nodes_) node->flush();
    bool yes = true;
    for (auto const& node : nodes_) yes = node->receive().view()[0].integer() == 1 && yes;
    return yes;
  }

  mortise::detail::LockKeys keys_;
  std::vector<std::unique_ptr<Raw>> nodes_{};
};

/// Stops so many of the servers, for as long as it lives.
class Frozen {
 public:
  Frozen(std::vector<pid_t> const& servers, std::size_t count) : servers_{servers.begin(), servers.begin() + static_cast<std::ptrdiff_t>(count)} {
    for (auto const server : servers_) ::kill(server, SIGSTOP);
  }
  Frozen(Frozen const&) = delete;
  Frozen& operator=(Frozen const&) = delete;
  ~Frozen() {
    for (auto const server : servers_) ::kill(server, SIGCONT);
  }

 private:
  std::vector<pid_t> servers_;
};

pid_t process_of(Endpoint const& node) {
  auto const reply = Raw{node}.command({"INFO", "server"});
  auto const text = std::string{reply->text()};
  auto const at = text.find("process_id:");
  if (at == std::string::npos) throw std::runtime_error{"a server without a process id"};
  return static_cast<pid_t>(std::atol(text.c_str() + at + 11));
}

struct Middle {
  double p50{};
};

Middle time_fan_outs(std::size_t count, std::function<bool()> const& pair) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < count; ++i) {
    auto const began = Clock::now();
    if (!pair()) throw std::runtime_error{"an uncontended lock was busy"};
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  return {percentile(samples, 0.5)};
}

std::vector<std::string> uris_of(std::vector<Endpoint> const& nodes) {
  std::vector<std::string> uris;
  for (auto const& node : nodes) uris.push_back(node.uri());
  return uris;
}

void pairs_at(std::vector<Endpoint> const& nodes, bool quick, Table& table) {
  FannedOut floor{nodes};
  mortise::Quorum quorum{uris_of(nodes), {.quarantine = std::chrono::milliseconds{1}}};
  mortise::Lock lock{quorum, "bench:quorum", {.ttl = ttl}};
  auto const ours = [&] {
    auto lease = lock.try_acquire();
    return lease && lease->release();
  };
  auto const raw = [&] { return floor.pair(); };
  auto const named = "N = " + std::to_string(nodes.size()) + ", ";
  time_fan_outs(20, ours);
  std::size_t const repetitions = quick ? 3 : 60;
  Runs<Middle> const up{2, repetitions, [&](std::size_t i) { return i == 0 ? time_fan_outs(100, raw) : time_fan_outs(100, ours); }};
  auto const ratio = up.ratio_of(1, &Middle::p50);
  table.rows.push_back({named + "frozen = 0: raw parallel fan-out", {{"p50 µs", up.median_of(0, &Middle::p50), 1.0}}});
  table.rows.push_back({named + "frozen = 0: try_acquire, release", {{"p50 µs", up.median_of(1, &Middle::p50), ratio, ratio > 1.15}}});

  std::vector<pid_t> servers;
  for (auto const& node : nodes) servers.push_back(process_of(node));
  for (std::size_t dead = 1; dead <= (nodes.size() - 1) / 2; ++dead) {
    // Now and then frozen, so that both meet the same machine; what the first one pays is not the question here.
    Runs<Middle> const frozen{2, std::max<std::size_t>(repetitions / 6, 1), [&](std::size_t i) {
      if (i == 0) return time_fan_outs(200, ours);
      Frozen const some{servers, dead};
      ours();
      auto const result = time_fan_outs(200, ours);
      return result;
    }};
    auto const cost = frozen.ratio_of(1, &Middle::p50);
    table.rows.push_back({named + "frozen = " + std::to_string(dead) + ": try_acquire, release", {{"p50 µs", frozen.median_of(1, &Middle::p50), cost, cost > 1.2}}});
  }
}

double turns_per_second(std::vector<Endpoint> const& nodes, std::size_t contenders, std::chrono::milliseconds time) {
  std::deque<mortise::Quorum> quorums;
  for (std::size_t i = 0; i < contenders; ++i) quorums.emplace_back(uris_of(nodes), mortise::QuorumOptions{.quarantine = std::chrono::milliseconds{1}});
  std::atomic<bool> over{false};
  std::atomic<int> turns{0};
  std::vector<std::thread> threads;
  for (auto& quorum : quorums)
    threads.emplace_back([&] {
      mortise::Lock lock{quorum, "bench:contended", {.ttl = ttl}};
      while (!over) {
        try {
          if (auto const lease = lock.acquire_for(time)) ++turns;
        } catch (mortise::Error const&) {  // too slow a machine: counts for nothing
        }
      }
    });
  std::this_thread::sleep_for(time);
  over = true;
  for (auto& thread : threads) thread.join();
  return turns / std::chrono::duration<double>(time).count();
}

}  // namespace

std::vector<Table> quorum(Setting const& setting) {
  if (setting.nodes.size() < 5) return {};
  std::vector<Endpoint> const three{setting.nodes.begin(), setting.nodes.begin() + 3};
  Table pairs{.title = "Uncontended acquire and release at a quorum, one thread",
              .note = "To reach: at most 1.15 × the raw fan-out, which waits for all nodes; with a minority frozen, in proportion to all up, at most 1.2 ×.",
              .rows = {}};
  pairs_at(three, setting.quick, pairs);
  pairs_at(setting.nodes, setting.quick, pairs);
  Table turns{.title = "Contenders for one lock at three nodes, each with a Quorum of its own", .note = "An empty section.", .rows = {}};
  for (std::size_t const contenders : {1U, 4U, 16U})
    turns.rows.push_back({std::to_string(contenders) + " contenders",
                          {{"acquisitions / s", turns_per_second(three, contenders, std::chrono::milliseconds{setting.quick ? 200 : 3000})}}});
  return {pairs, turns};
}

}  // namespace bench
