// SPDX-License-Identifier: MIT
// Every primitive under random faults (kills, stops, cut connections, overruns), judged by what its holders believed when.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/check_history.hpp"

using namespace faults;
using mortise::Client;
using mortise::Fence;
using mortise::Lease;
using mortise::Lock;
using mortise::LockSet;
using mortise::RecursiveLock;
using mortise::Semaphore;
using mortise::SharedLock;
using support::ChildProcess;
using support::Happening;
using support::HistoryLog;
using support::HistoryRules;

namespace {

constexpr milliseconds short_ttl{300};
constexpr std::size_t enough_grants = 21;
constexpr std::chrono::seconds patience_for_grants{30};
/// A holder that was killed, stopped or cut off is followed after its TTL, renewed once, at the latest: twice that, and 4 s for a machine
/// that is busy with other tests.
constexpr milliseconds longest_stall = 4 * short_ttl + 4s;

/// One worker's part: what it does in one turn with its random numbers.
class Worker {
 public:
  Worker(Client& client, HistoryLog& log, std::uint64_t index, unsigned seed) : client_{client}, log_{log}, index_{index}, random_{seed} {}

  std::uint64_t index() const { return index_; }
  Client& client() { return client_; }
  int any(int below) { return std::uniform_int_distribution<int>{0, below - 1}(random_); }
  mortise::LockOptions options() { return {.ttl = short_ttl, .renew = any(2) == 0}; }

  void asks(std::vector<std::uint64_t> const& names) {
    for (auto const name : names) log_.add(Happening::call_begin, name);
  }

  /// Works for a while, longer than the lease in many cases, and asks for more time in some; then gives it up.
  template <class Held>
  void work(Held& lease, std::vector<std::uint64_t> const& names, std::vector<Fence> const& fences) {
    auto const believe = [&](Happening what) {
      auto const now = support::boottime_ns();  // first, so that a pause in between never makes the belief longer
      auto const rest = std::chrono::nanoseconds{lease.remaining()}.count();
      if (rest <= 0) return;
      for (std::size_t i = 0; i < names.size(); ++i) log_.add(what, names[i], fence(fences, i), now + rest);
    };
    believe(Happening::belief_begin);
    std::this_thread::sleep_for(milliseconds{any(3) == 0 ? any(2 * static_cast<int>(short_ttl.count())) : any(20)});
    try {
      if (any(3) == 0 && lease.extend()) believe(Happening::belief_renewed);
    } catch (mortise::Error const&) {  // unanswered: the belief is what it was
    }
    for (std::size_t i = 0; i < names.size(); ++i) log_.add(Happening::belief_end, names[i], fence(fences, i));
    try {
      if (any(4) != 0) lease.release();  // otherwise by the destructor
      if (any(4) == 0) lease.release();  // a second time
    } catch (mortise::Error const&) {
    }
  }

 private:
  static std::uint64_t fence(std::vector<Fence> const& fences, std::size_t i) { return fences[std::min(i, fences.size() - 1)].value; }

  Client& client_;
  HistoryLog& log_;
  std::uint64_t index_;
  std::mt19937 random_;
};

using Turn = void (*)(Worker&);

constexpr std::uint64_t workers = 8;
constexpr std::uint64_t reader_names = workers * 4;  // who follows a killed worker has another name: the dead one is believed in for a while

/// A reader is on the record by a name of its own, a writer by all of them: so a name is held by one at a time.
void read_or_write(Worker& worker) {
  SharedLock lock{worker.client(), "room", worker.options()};
  if (worker.any(3) != 0) {
    if (auto lease = worker.any(3) == 0 ? lock.try_acquire_shared() : lock.acquire_shared_for(2s)) worker.work(*lease, {worker.index()}, {Fence{}});
    return;
  }
  std::vector<std::uint64_t> names(reader_names);
  for (std::uint64_t i = 0; i < reader_names; ++i) names[i] = i;
  worker.asks(names);
  auto lease = worker.any(3) == 0 ? lock.try_acquire() : lock.acquire_for(2s);
  if (!lease) return;
  if (worker.any(3) != 0) return worker.work(*lease, names, {lease->fence()});
  if (auto reader = lock.downgrade(*std::move(lease))) worker.work(*reader, {worker.index()}, {Fence{}});
}

void take_permit(Worker& worker) {
  Semaphore permits{worker.client(), "permits", 2, worker.options()};
  worker.asks({0});
  if (auto lease = worker.any(3) == 0 ? permits.try_acquire() : permits.acquire_for(2s)) worker.work(*lease, {0}, {lease->fence()});
}

void take_several(Worker& worker) {
  std::vector<std::uint64_t> names{0, 1, 2};
  std::ranges::rotate(names, names.begin() + worker.any(3));
  names.resize(1 + static_cast<std::size_t>(worker.any(3)));
  std::vector<std::string> keys;
  for (auto const name : names) keys.push_back("several:" + std::to_string(name));
  LockSet set{worker.client(), keys, worker.options()};
  worker.asks(names);
  if (auto leases = worker.any(3) == 0 ? set.try_acquire() : set.acquire_for(2s)) worker.work(*leases, names, leases->fences());
}

/// The lease of a recursive lock, as far as a worker handles it.
struct Again {
  RecursiveLock<>& lock;
  auto remaining() const { return lock.lease().remaining(); }
  bool extend() const { return lock.try_lock(); }  // no more time, only deeper
  void release() const {}
};

void lock_again(Worker& worker) {
  RecursiveLock lock{worker.client(), "again", worker.options()};
  worker.asks({0});
  if (!lock.try_lock_for(2s)) return;
  lock.lock();
  Again lease{lock};
  worker.work(lease, {0}, {lock.fence()});
  for (int depth = 0; depth < 3; ++depth) lock.unlock();  // once more than needed does nothing
}

struct Play {
  char const* name;
  Turn turn;
  std::uint64_t workers;
  int holders;
};

/// Lets processes play, and does to them and to their connections what may happen.
class Stage {
 public:
  Stage(Play const& play, unsigned seed) : play_{play}, random_{seed} {
    for (std::uint64_t i = 0; i < play.workers; ++i) children_.push_back(spawn(i));
  }

  /// For this time; on a machine with little of it to give longer, until there are grants enough to say anything.
  void run(milliseconds time) {
    auto const end = mortise::Clock::now() + time;
    while (mortise::Clock::now() < end || (grants() < enough_grants && mortise::Clock::now() < end + patience_for_grants)) {
      std::this_thread::sleep_for(milliseconds{any(60)});
      auto const victim = static_cast<std::size_t>(any(static_cast<int>(children_.size())));
      switch (any(6)) {
        case 0: kill(victim); break;
        case 1: pause(victim, milliseconds{any(400)}); break;
        case 2: setting_.proxy.cut_all(any(2) == 0 ? support::Cut::fin : support::Cut::reset); break;
        case 3: setting_.proxy.cut_instead_of_reply(support::Proxy::any(), 1 + any(3)); break;
        default: break;
      }
      check_capacity();
    }
    ended_ = support::boottime_ns();
    for (std::size_t i = 0; i < children_.size(); ++i) end_child(i);
  }

  std::vector<support::HistoryRecord> records() const { return log_.records(); }
  std::size_t grants() const { return log_.count(Happening::belief_begin); }
  std::chrono::nanoseconds longest_without_grant() const { return support::longest_without_grant(log_.records(), began_, ended_); }
  std::vector<std::string> leftovers() {
    auto keys = setting_.server.keys();
    std::erase_if(keys, [](auto const& key) { return key.ends_with(":~fence"); });
    return keys;
  }

 private:
  std::unique_ptr<ChildProcess> spawn(std::uint64_t index) {
    auto const seed = static_cast<unsigned>(random_());
    return std::make_unique<ChildProcess>([this, index, seed] {
      Client client{setting_.proxy.uri(), {.command_timeout = 500ms}};
      Worker worker{client, log_, index, seed};
      for (;;) {
        try {
          play_.turn(worker);
        } catch (mortise::Error const& error) {  // a fault that was told
          if (!error.retryable()) return 1;
        }
      }
    });
  }
  void end_child(std::size_t i) {
    auto const pid = children_[i]->pid();
    CHECK(children_[i]->alive());
    children_[i]->kill();
    log_.add_about(pid, Happening::process_killed);
  }
  void kill(std::size_t i) {
    end_child(i);
    children_[i] = spawn((i + play_.workers * ++kills_) % (play_.workers * 4));
  }
  void pause(std::size_t i, milliseconds time) {
    children_[i]->freeze();
    log_.add_about(children_[i]->pid(), Happening::process_paused);
    std::this_thread::sleep_for(time);
    log_.add_about(children_[i]->pid(), Happening::process_resumed);
    children_[i]->thaw();
  }
  /// What the server itself says, looked at from outside: entries whose time is not over, without the one that names the room.
  void check_capacity() {
    if (play_.holders == 1) return;
    auto const time = setting_.server.command({"TIME"});
    auto const now = std::stoll(time.items.at(0).text) * 1000 + std::stoll(time.items.at(1).text) / 1000 + 1;
    auto const inside = setting_.server.command({"ZCOUNT", "permits", std::to_string(now), "9999999999999"}).integer;
    CHECK(inside <= play_.holders);
  }
  int any(int below) { return std::uniform_int_distribution<int>{0, below - 1}(random_); }

  Play const& play_;
  std::mt19937 random_;
  Setting setting_{};
  HistoryLog log_{1'000'000};
  std::deque<std::unique_ptr<ChildProcess>> children_{};
  std::uint64_t kills_{0};
  std::int64_t began_{support::boottime_ns()};
  std::int64_t ended_{0};
};

void play(Play const& play) {
  auto const seconds = amount("PRIMITIVES_SECONDS", 3);
  auto const seed = static_cast<unsigned>(amount("SEED", static_cast<std::int64_t>(std::random_device{}() & 0xFFFF)));
  INFO(play.name << ", seed " << seed);
  Stage stage{play, seed};
  stage.run(std::chrono::seconds{seconds});
  HistoryRules const rules{.call_slack = 1h, .loss_slack = 1h, .overlap = {}, .holders = play.holders};
  auto const records = stage.records();
  auto const violations = check_history(records, rules);
  for (auto const& violation : violations) UNSCOPED_INFO(violation);
  CHECK(violations.empty());
  CHECK(stage.grants() >= enough_grants);
  CHECK(stage.longest_without_grant() < longest_stall);
  CHECK(support::wait_until([&] { return stage.leftovers().empty(); }, 20s, 50ms));
}

}  // namespace

TEST_CASE("readers and writers under kills, stops and cut connections: never a writer with anybody, and fences rise") {
  play({"readers and writers", read_or_write, workers, 1});
}

TEST_CASE("twenty workers on two permits, with overruns and kills: never more than two valid holders") {
  play({"permits", take_permit, 20, 2});
}

TEST_CASE("several locks at once under kills, stops and cut connections: exclusion and rising fences for each") {
  play({"several", take_several, workers, 1});
}

TEST_CASE("recursive locks under kills, stops and cut connections: exclusion and rising fences") {
  play({"recursive", lock_again, workers, 1});
}
