// SPDX-License-Identifier: MIT
// Sixteen processes that take turns through failovers and slot migrations, judged by what each of them believed and when.
// MORTISE_TOPOLOGY_ROUNDS=n: so many failovers or migrations instead of a few.
#include <cstdlib>
#include <deque>
#include <functional>

#include "real_nodes.hpp"
#include "support/check_history.hpp"
#include "support/processes.hpp"

namespace topology {

namespace {

using support::Happening;

int rounds_asked(int otherwise) {
  auto const* const asked = std::getenv("MORTISE_TOPOLOGY_ROUNDS");
  return asked == nullptr ? otherwise : std::max(1, std::atoi(asked));
}

/// Processes that take the lock in turn until they are told to stop, and write down what they believe.
class TurnTakers {
 public:
  TurnTakers(std::string const& uri, std::string const& name, milliseconds ttl) {
    for (int i = 0; i < processes; ++i) children_.emplace_back([this, uri, name, ttl] { return take_turns(uri, name, ttl); });
  }

  std::int64_t turns() const { return counters_[0]; }
  std::int64_t losses() const { return counters_[1]; }
  bool more_turns(std::int64_t count) {
    auto const target = turns() + count;
    return wait_until([&] { return turns() >= target; }, 90s, 5ms);
  }
  void stop() {
    counters_[2] = 1;
    for (auto& child : children_) CHECK(child.wait(support::Milliseconds{60'000}) == support::ExitStatus::exited(0));
  }
  /// What is wrong with the history, those sentences only that begin with `kind`.
  std::vector<std::string> violations(std::string const& kind) const {
    std::vector<std::string> found;
    for (auto const& sentence : support::check_history(log_.records(), {.call_slack = 5s, .loss_slack = 5s}))
      if (sentence.starts_with(kind)) found.push_back(sentence);
    return found;
  }

 private:
  static constexpr int processes = 16;

  int take_turns(std::string const& uri, std::string const& name, milliseconds ttl) {
    Client client{uri, {.command_timeout = 2s, .retry_for = 60s}};
    Lock lock{client, name, {.ttl = ttl}};
    while (counters_[2] == 0) {
      log_.add(Happening::call_begin, 1, 0, support::boottime_ns() + std::int64_t{20'000'000'000});
      std::optional<Lease> lease;
      try {
        lease = lock.acquire_for(20s);
      } catch (Error const&) {  // not within the time: that is an answer, and the next call tries again
      }
      if (lease) log_.add(Happening::belief_begin, 1, lease->fence().value, support::boottime_ns() + nanoseconds_left(*lease));
      log_.add(Happening::call_end, 1);
      if (!lease) continue;
      auto const end = Clock::now() + 1ms;
      while (Clock::now() < end && lease->held()) std::this_thread::sleep_for(200us);
      bool const held = lease->held();
      log_.add(held ? Happening::belief_end : Happening::lost_told, 1, lease->fence().value);
      counters_[held ? 0 : 1] += 1;
      try {
        lease->release();
      } catch (Error const&) {  // goes on in the background
      }
    }
    return 0;
  }

  /// Rounded up as remaining() is, the end on record would lie behind the real one.
  static std::int64_t nanoseconds_left(Lease const& lease) {
    return (lease.remaining() - 1ms).count() * 1'000'000;
  }

  support::HistoryLog log_{2'000'000};
  support::SharedCounters counters_{3};
  std::deque<support::ChildProcess> children_{};
};

}  // namespace

TEST_CASE("sixteen processes take turns while their slot moves: no two inside, fences rise, nobody loses") {
  ClusterNodes cluster{{.replicas = false}};
  auto const name = cluster.name_at(0);
  auto const slot = cluster.slot(name);
  TurnTakers takers{cluster.uri(), name, 5s};
  REQUIRE(takers.more_turns(100));
  for (int i = 0; i < rounds_asked(3); ++i) {
    auto const from = static_cast<std::size_t>(i % 3);
    cluster.move_slot(slot, from, (from + 1) % 3);
    CHECK(takers.more_turns(100));
  }
  takers.stop();
  for (auto const& sentence : takers.violations("")) UNSCOPED_INFO(sentence);
  CHECK(takers.violations("").empty());
  CHECK(takers.losses() == 0);
}

TEST_CASE("sixteen processes take turns through CLUSTER FAILOVER: no two inside, fences rise, and it goes on") {
  ClusterNodes cluster;
  auto const name = cluster.name_at(1);
  TurnTakers takers{cluster.uri(), name, 5s};
  REQUIRE(takers.more_turns(100));
  for (int i = 0; i < rounds_asked(2); ++i) {
    auto const failing_over = time_of([&] { cluster.fail_over_to(i % 2 == 0 ? 4 : 1); });
    auto const going_on = time_of([&] { CHECK(takers.more_turns(100)); });
    UNSCOPED_INFO("failover " << failing_over.count() << " ms, 100 turns after it " << going_on.count() << " ms");
  }
  takers.stop();
  for (auto const& sentence : takers.violations("")) UNSCOPED_INFO(sentence);
  CHECK(takers.violations("").empty());
}

TEST_CASE("sixteen processes take turns through SENTINEL FAILOVER: fences rise, every loss is told, and it goes on") {
  SentinelNodes group;
  TurnTakers takers{group.uri(), "lock", 5s};
  REQUIRE(takers.more_turns(100));
  int const rounds = rounds_asked(1);
  for (int i = 0; i < rounds; ++i) {
    group.fail_over();
    CHECK(takers.more_turns(100));
  }
  takers.stop();
  // What the old primary grants after the new one has been chosen is lost with it: exclusion may break once for each
  // failover, between one holder at the old and one at the new.
  CHECK(takers.violations("exclusion").size() <= static_cast<std::size_t>(rounds));
  for (std::string const kind : {"fence", "loss", "deadline"}) {
    for (auto const& sentence : takers.violations(kind)) UNSCOPED_INFO(sentence);
    CHECK(takers.violations(kind).empty());
  }
}

}  // namespace topology
