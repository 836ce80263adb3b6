// SPDX-License-Identifier: MIT
// The lock where the data is: PostgreSQL frees an advisory lock the moment its holder dies, Redis when the TTL has run out;
// and the other way round when the holder is only paused.
// Needs: redis postgresql
// Guards: ttl
//
// --without ttl   the lock in Redis is a key without an expiry: its dead holder has it for ever.

#include <algorithm>
#include <cstdio>
#include <vector>

#include <mortise/mortise.hpp>

#include "plain_redis.hpp"
#include "postgres.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto ttl = 600ms;
constexpr int trials = 5;

struct Marks {
  lesson::Mark held{}, waits{}, in{};
};

/// Holds the lock until it is killed.
void hold_advisory(lesson::Play const& play, Marks& marks) {
  lesson::Postgres database{play.postgres()};
  database("BEGIN");
  database("SELECT pg_advisory_xact_lock(42)");
  marks.held = true;
  lesson::pass(60s);
}
/// False: not within `patience`.
bool wait_for_advisory(lesson::Play const& play, Marks& marks, lesson::milliseconds patience) {
  lesson::Postgres database{play.postgres()};
  database("SET lock_timeout = " + std::to_string(patience.count()));
  database("BEGIN");
  marks.waits = true;
  try {
    database("SELECT pg_advisory_xact_lock(42)");
  } catch (lesson::SqlError const& refused) {
    if (refused.state != lesson::lock_not_available) throw;
    return false;
  }
  marks.in = true;
  database("COMMIT");
  return true;
}
void hold_redis(lesson::Play const& play, Marks& marks, std::string const& resource) {
  lesson::PlainRedis plain{play.redis()};
  mortise::Client redis{play.redis(), {.client_name = "A"}};
  mortise::Lock lock{redis, resource, {.ttl = ttl}};
  std::optional<mortise::Lease> lease;
  if (play.without("ttl"))
    plain({"SET", resource, "A", "NX"});
  else
    lease = lock.acquire();
  marks.held = true;
  lesson::pass(60s);
}
bool wait_for_redis(lesson::Play const& play, Marks& marks, std::string const& resource, lesson::milliseconds patience) {
  mortise::Client redis{play.redis(), {.client_name = "B"}};
  mortise::Lock lock{redis, resource};
  marks.waits = true;
  auto const lease = lock.acquire_for(patience);
  if (lease) marks.in = true;
  return lease.has_value();
}

/// A holds, B waits, A is killed: how long until B is in?
double kill_the_holder(lesson::Play const& play, bool advisory, std::string const& resource) {
  auto& marks = lesson::shared<Marks>();
  auto const patience = play.without("ttl") ? 2000ms : 20'000ms;
  lesson::Process a{"A", [&] { advisory ? hold_advisory(play, marks) : hold_redis(play, marks, resource); }};
  a.await_mark(marks.held);
  lesson::Process b{"B", [&] {
    bool const in = advisory ? wait_for_advisory(play, marks, patience) : wait_for_redis(play, marks, resource, patience);
    lesson::prove(in, "the lock of a dead holder becomes free");
  }};
  b.await_mark(marks.waits);
  lesson::pass(50ms);  // by now it is blocked at the server
  auto const killed = lesson::Clock::now();
  a.kill();
  b.await_mark(marks.in);
  auto const waited = std::chrono::duration<double, std::milli>(lesson::Clock::now() - killed).count();
  b.join();
  return waited;
}

/// A holds and is stopped for longer than the TTL. Does B get in meanwhile?
bool stop_the_holder(lesson::Play const& play, bool advisory) {
  auto& marks = lesson::shared<Marks>();
  auto& in = lesson::shared<lesson::Mark>();
  lesson::Process a{"A", [&] { advisory ? hold_advisory(play, marks) : hold_redis(play, marks, "lock:paused"); }};
  a.await_mark(marks.held);
  a.stop();
  lesson::Process b{"B", [&] {
    in = advisory ? wait_for_advisory(play, marks, 2 * ttl) : wait_for_redis(play, marks, "lock:paused", 20s);
  }};
  b.join();
  return in;
}

std::string advisory_lock(lesson::Play const& play) {
  std::vector<double> advisory, redis;
  for (int trial = 0; trial < trials; ++trial) {
    advisory.push_back(kill_the_holder(play, true, {}));
    redis.push_back(kill_the_holder(play, false, "lock:killed:" + std::to_string(trial)));
    lesson::say("kill -9 of the holder: the next is in after ", advisory.back(), " ms (advisory lock), ", redis.back(), " ms (Redis, TTL ",
                ttl.count(), " ms)");
  }
  bool const into_advisory = stop_the_holder(play, true);
  lesson::say("a stopped holder keeps its advisory lock: ", 2 * ttl.count(), " ms later the next ", into_advisory ? "is in" : "still waits");
  bool const into_redis = stop_the_holder(play, false);
  lesson::say("a stopped holder's lock in Redis runs out: the next is ", into_redis ? "in" : "out");

  std::sort(advisory.begin(), advisory.end());
  std::sort(redis.begin(), redis.end());
  std::printf("\n| time until the next is in, %d trials | least | median | most |\n|---|---|---|---|\n", trials);
  std::printf("| pg_advisory_xact_lock, holder killed | %.1f ms | %.1f ms | %.1f ms |\n", advisory.front(), advisory[trials / 2], advisory.back());
  std::printf("| Redis, TTL %d ms, holder killed | %.1f ms | %.1f ms | %.1f ms |\n\n", static_cast<int>(ttl.count()), redis.front(),
              redis[trials / 2], redis.back());
  std::fflush(stdout);
  lesson::prove(advisory[trials / 2] < redis[trials / 2], "a dead holder's advisory lock is free sooner than its lock in Redis");
  lesson::prove(!into_advisory, "a stopped holder keeps its advisory lock");
  lesson::prove(into_redis, "a stopped holder's lock in Redis runs out");
  return "a dead holder's advisory lock was free at once, its lock in Redis after the TTL; a paused holder keeps the advisory lock "
         "for as long as it is paused, and everybody waits";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"ttl"}, advisory_lock); }
