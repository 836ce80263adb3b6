// SPDX-License-Identifier: MIT
// Processes that lock and unlock while everything goes wrong around them, and a judge who reads what they wrote down:
// one holder at a time, rising fences, calls and losses in time, and in the end nothing left.
//
// MORTISE_FAULTS_history_ms makes it longer (the soak), MORTISE_FAULTS_SEED makes the same choices again.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dice.hpp"
#include "role.hpp"
#include "setting.hpp"
#include "support/catch.hpp"
#include "support/check_history.hpp"
#include "support/clock_shim.hpp"
#include "support/history.hpp"
#include "support/temporary_folder.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lease;
using mortise::Lock;
using support::ChildProcess;
using support::Cut;
using support::Direction;
using support::ExitStatus;
using support::Happening;
using support::HistoryLog;
using support::wait_until;

namespace {

constexpr int history_names = 3;
constexpr milliseconds history_timeout{400};
/// A holder that is stopped or cut off is followed after its TTL at the latest (700 ms), and each mishap ends by itself (1.5 s at most):
/// two of them, one after the other, and as much again for a machine that is busy with other tests.
constexpr milliseconds history_stall{9000};

std::string history_name(std::int64_t which) { return "history " + std::to_string(which); }

std::int64_t nanoseconds_from_now(milliseconds time) { return support::boottime_ns() + std::chrono::nanoseconds{time}.count(); }

/// One thread of a worker: takes locks, believes, says so, gives them up.
class HistoryWriter {
 public:
  HistoryWriter(Client& redis, HistoryLog& log, std::uint64_t seed) : redis_{redis}, log_{log}, dice_{seed} {}

  void live(std::atomic<bool> const& over) {
    while (!over) {
      name_ = static_cast<std::uint64_t>(dice_.up_to(history_names - 1));
      Lock lock{redis_, history_name(static_cast<std::int64_t>(name_)), {.ttl = milliseconds{300 + 100 * dice_.up_to(4)}, .renew = dice_.in_hundred(80)}};
      if (auto lease = taken(lock)) hold(*lease);
    }
  }

 private:
  std::optional<Lease> taken(Lock<>& lock) {
    milliseconds const patience{dice_.up_to(1500)};
    bool const waits = dice_.in_hundred(75) && patience > 0ms;
    auto lease = called(waits ? patience : history_timeout, [&] { return waits ? lock.acquire_for(patience) : lock.try_acquire(); });
    return lease ? std::move(*lease) : std::nullopt;
  }

  void hold(Lease& lease) {
    auto const fence = lease.fence().value;
    auto until = believed_until(lease);
    log_.add(Happening::belief_begin, name_, fence, until);
    std::stop_callback const told{lease.lost(), [this, name = name_, fence] { log_.add(Happening::lost_told, name, fence); }};
    auto const end = mortise::Clock::now() + milliseconds{dice_.up_to(dice_.in_hundred(80) ? 30 : 900)};
    while (lease.held() && mortise::Clock::now() < end) {
      if (auto const now_until = believed_until(lease); now_until > until + 1'000'000)
        log_.add(Happening::belief_renewed, name_, fence, until = now_until);
      if (dice_.in_hundred(3)) called(history_timeout, [&] { return dice_.in_hundred(50) ? lease.confirm() : lease.extend(); });
      std::this_thread::sleep_for(1ms);
    }
    log_.add(Happening::belief_end, name_, fence);
    if (dice_.in_hundred(50)) called(history_timeout, [&] { return lease.release(); });
  }

  /// Never later than what the lease itself believes: the time is read first.
  static std::int64_t believed_until(Lease const& lease) {
    auto const now = support::boottime_ns();
    return now + std::chrono::nanoseconds{lease.remaining()}.count();
  }

  /// A call on record. What nobody answered is nothing special here; any other error is.
  template <class Call>
  auto called(milliseconds limit, Call&& call) -> std::optional<decltype(call())> {
    log_.add(Happening::call_begin, name_, 0, nanoseconds_from_now(limit));
    std::optional<decltype(call())> result;
    try {
      result.emplace(call());
    } catch (mortise::Error const& error) {
      if (!error.retryable()) {
        std::cerr << error.what() << std::endl;
        std::_Exit(3);
      }
    }
    log_.add(Happening::call_end, name_);
    return result;
  }

  Client& redis_;
  HistoryLog& log_;
  Dice dice_;
  std::uint64_t name_{0};
};

/// Everything that goes wrong, one thing at a time, chosen by the dice.
class Mishaps {
 public:
  Mishaps(Setting& here, support::ClockShim& shim, HistoryLog& log, std::string const& log_file, Dice& dice)
      : here_{here}, shim_{shim}, log_{log}, log_file_{log_file}, dice_{dice} {
    for (int i = 0; i < 4; ++i) employ();
  }

  void next() {
    std::this_thread::sleep_for(milliseconds{dice_.up_to(60)});
    auto const moment = milliseconds{dice_.up_to(250)};
    auto const way = dice_.in_hundred(50) ? Direction::request : Direction::reply;
    ++happened_[static_cast<std::size_t>(kind_ = dice_.up_to(13))];
    switch (kind_) {
      case 0: return pause_one(milliseconds{dice_.up_to(1500)});
      case 1: return kill_one();
      case 2: return here_.proxy.cut_all(dice_.in_hundred(50) ? Cut::fin : Cut::reset);
      case 3:
        here_.proxy.delay(way, milliseconds{dice_.up_to(80)});
        std::this_thread::sleep_for(moment);
        return here_.proxy.delay(way, 0ms);
      case 4:
        here_.proxy.hold(way);
        std::this_thread::sleep_for(moment);
        return here_.proxy.resume(way);
      case 5:
        here_.proxy.black_hole(true);
        std::this_thread::sleep_for(moment);
        here_.proxy.black_hole(false);
        return here_.proxy.cut_all();
      case 6: return here_.proxy.swallow_replies(1 + dice_.up_to(2));
      case 7: return here_.proxy.cut_instead_of_reply(support::Proxy::any(), 1 + dice_.up_to(2));
      case 8: return static_cast<void>(here_.server.kill_clients());
      case 9: return here_.server.flush_scripts();
      case 10: return here_.server.client_pause(moment.count());
      case 11:
        here_.server.freeze();
        std::this_thread::sleep_for(moment);
        return here_.server.thaw();
      case 12:
        here_.server.kill();
        std::this_thread::sleep_for(moment / 2);
        return here_.server.restart(support::RedisServer::Data::kept);
      default: return shim_.set_offset(std::chrono::seconds{dice_.up_to(7200) - 3600});
    }
  }

  /// Lets all end in peace. The exit codes, "0" each if all was well.
  std::string dismiss() {
    std::string codes;
    for (auto& one : workers_) one.send_line("enough");
    for (auto& one : workers_) {
      auto const status = one.wait();
      codes += status && status->code ? std::to_string(*status->code) : "-";
    }
    return codes;
  }

 private:
  void employ() {
    auto environment = shim_.environment();
    environment.emplace_back("URI", ++employed_ % 2 == 0 ? here_.proxy.uri() : here_.server.uri());
    environment.emplace_back("LOG", log_file_);
    environment.emplace_back("SEED", std::to_string(dice_.up_to(1'000'000'000)));
    workers_.emplace_back(playing("history", environment));
  }

  ChildProcess& anybody() { return workers_[static_cast<std::size_t>(dice_.up_to(static_cast<std::int64_t>(workers_.size()) - 1))]; }

  void pause_one(milliseconds time) {
    auto& one = anybody();
    log_.add_about(one.pid(), Happening::process_paused);
    one.freeze();
    std::this_thread::sleep_for(time);
    one.thaw();
    log_.add_about(one.pid(), Happening::process_resumed);
  }

  void kill_one() {
    auto const which = dice_.up_to(static_cast<std::int64_t>(workers_.size()) - 1);
    auto const pid = workers_[static_cast<std::size_t>(which)].pid();
    workers_[static_cast<std::size_t>(which)].kill();
    log_.add_about(pid, Happening::process_killed);
    workers_.erase(workers_.begin() + which);
    employ();
  }

  Setting& here_;
  support::ClockShim& shim_;
  HistoryLog& log_;
  std::string log_file_;
  Dice& dice_;
  int employed_{0};
  std::int64_t kind_{0};
  std::array<int, 14> happened_{};
  std::deque<ChildProcess> workers_{};
};

}  // namespace

TEST_CASE("plays a process that locks and writes down what it believes", "[.role]") {
  if (role() != "history") return;
  HistoryLog log{std::filesystem::path{told("LOG")}};
  Client redis{told("URI"), {.command_timeout = history_timeout, .retry_for = 60s}};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] { HistoryWriter{redis, log, std::strtoull(told("SEED").c_str(), nullptr, 10) * 2 + t}.live(over); });
  std::string line;
  std::getline(std::cin, line);
  over = true;
  for (auto& thread : threads) thread.join();
}

TEST_CASE("whatever goes wrong, there is one holder at a time, fences rise, calls and losses are in time, and nothing stays") {
  auto const seed = fresh_seed();
  CAPTURE(seed);
  Dice dice{seed};
  support::TemporaryFolder folder;
  auto const log_file = (folder.path() / "history").native();
  HistoryLog log{std::filesystem::path{log_file}};
  support::ClockShim shim;
  Setting here{{.append_only = true}};
  auto const began = support::boottime_ns();
  std::int64_t ended = 0;
  {
    Mishaps mishaps{here, shim, log, log_file, dice};
    auto const end = mortise::Clock::now() + milliseconds{amount("history_ms", 7000)};
    auto const enough = [&] { return mortise::Clock::now() >= end + 30s || log.count(Happening::belief_begin) > 20; };
    while (mortise::Clock::now() < end || !enough()) mishaps.next();
    ended = support::boottime_ns();
    here.proxy.stop_swallowing();
    here.proxy.cut_all();  // those that lost a message would stay mute
    auto const codes = mishaps.dismiss();
    CHECK(codes == std::string(codes.size(), '0'));
  }

  // Generous where a busy machine has a say, and not at all where it has none: two beliefs never overlap.
  auto const records = log.records();
  auto const wrong = support::check_history(records, {.call_slack = 3s, .loss_slack = 3s});
  for (auto const& sentence : wrong) UNSCOPED_INFO(sentence);
  CHECK(wrong.empty());
  auto const grants = log.count(Happening::belief_begin);
  CHECK(grants > 20);
  CHECK(support::longest_without_grant(records, began, ended) < history_stall);

  Client redis{here.server.uri()};
  for (int which = 0; which < history_names; ++which) {
    auto lease = Lock{redis, history_name(which)}.acquire_for(10s);
    REQUIRE(lease);
    CHECK(lease->release());
  }
  CHECK(wait_until([&] { return here.server.keys().size() == history_names; }, 10s));  // the counters
  if (amount("history_ms", 0) > 0) WARN("seed " << seed << ": " << grants << " grants, " << records.size() << " records");
}
