// SPDX-License-Identifier: MIT
// Many workers, one queue: a lock makes them stand in line; FOR UPDATE SKIP LOCKED lets each take what nobody else has.
// Needs: redis postgresql
// Guards: return dead_letter
//
// --without return        jobs of a worker that died stay taken for ever.
// --without dead_letter   a job that can never succeed goes round and round.

#include <array>
#include <cstdio>
#include <deque>
#include <string>

#include <mortise/mortise.hpp>

#include "plain_redis.hpp"
#include "postgres.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int workers = 8;
constexpr int jobs = 320;
constexpr int batch = 10;
constexpr auto work = 2ms;  // waits for something outside, as most jobs do

struct Marks {
  lesson::Room room{};
  lesson::Number round_trips{}, done{}, go{};
};

struct Taken {
  std::string ids, tries;  // {1,2,3}: arrays of PostgreSQL
  int count;
};

/// One statement takes up to `most` waiting jobs: locked rows are passed by, so no worker waits for another.
Taken take(lesson::Postgres& database, int most) {
  auto const rows = database(
      "WITH mine AS (UPDATE job SET state = 'taken', tries = tries + 1, taken_at = now() WHERE id IN"
      " (SELECT id FROM job WHERE state = 'waiting' ORDER BY id LIMIT $1::int FOR UPDATE SKIP LOCKED) RETURNING id, tries)"
      " SELECT COALESCE(array_agg(id), '{}'), COALESCE(array_agg(tries), '{}'), count(*) FROM mine",
      {std::to_string(most)});
  return {rows.text(0, 0), rows.text(0, 1), static_cast<int>(rows.number(0, 2))};
}
/// The number of the try is its fence: a job that went back to the queue meanwhile, and to another worker, is not ours to
/// finish.
std::int64_t finish(lesson::Postgres& database, Taken const& mine, std::string const& which = "true") {
  return database("UPDATE job SET state = 'done' FROM unnest($1::bigint[], $2::int[]) AS mine (id, tries)"
                  " WHERE job.id = mine.id AND job.tries = mine.tries AND state = 'taken' AND " + which,
                  {mine.ids, mine.tries})
      .affected();
}
void perform(Marks& marks, int count) {
  marks.room.enter();
  lesson::pass(work * count);
  marks.room.leave();
}

void refill(lesson::Play const& play, int count) {
  lesson::Postgres database{play.postgres()};
  database("DROP TABLE IF EXISTS job");
  database("CREATE TABLE job (id BIGSERIAL PRIMARY KEY, state TEXT NOT NULL DEFAULT 'waiting', tries INT NOT NULL DEFAULT 0,"
           " taken_at TIMESTAMPTZ)");
  database("CREATE INDEX ON job (id) WHERE state = 'waiting'");
  database("INSERT INTO job (id) SELECT generate_series(1, $1::int)", {std::to_string(count)});
}

enum class Way { lock_around_the_work, lock_around_the_taking, skip_locked };
constexpr std::array<char const*, 3> ways{"lock around take and work, one job", "lock around taking 10, then work",
                                          "SKIP LOCKED, batches of 10"};

struct Measured {
  double jobs_per_s;
  std::int64_t most;
  double database, redis;  // round trips per job
};

void worker(lesson::Play const& play, Marks& marks, Way way) {
  lesson::Postgres database{play.postgres()};
  mortise::Client redis{play.redis()};
  mortise::Lock queue{redis, "lock:queue"};
  ++marks.go;
  lesson::await("all workers", [&] { return marks.go == workers; });
  for (;;) {
    std::optional<mortise::Lease> lease;
    if (way != Way::skip_locked) lease = queue.acquire();
    auto const mine = take(database, way == Way::lock_around_the_work ? 1 : batch);
    if (way == Way::lock_around_the_taking) lease.reset();
    if (mine.count == 0) break;
    perform(marks, mine.count);
    marks.done += finish(database, mine);
  }
  marks.round_trips += database.round_trips();
}

/// How many requests Redis was sent: every one of the library's is a script (a BLPOP goes in one write with the next).
std::int64_t requests(lesson::PlainRedis& redis) {
  std::int64_t sum = 0;
  auto const text = redis({"INFO", "commandstats"});
  for (std::string const name : {"cmdstat_evalsha:calls=", "cmdstat_eval:calls="})
    if (auto const at = text.find(name); at != std::string::npos) sum += std::stoll(text.substr(at + name.size()));
  return sum;
}

Measured measure(lesson::Play const& play, Way way) {
  refill(play, jobs);
  auto& marks = lesson::shared<Marks>();
  lesson::PlainRedis redis{play.redis()};
  auto const before = requests(redis);
  std::deque<lesson::Process> all;
  for (int each = 0; each < workers; ++each) all.emplace_back("W" + std::to_string(each), [&] { worker(play, marks, way); });
  lesson::await("all workers", [&] { return marks.go == workers; });
  auto const began = lesson::Clock::now();
  for (auto& each : all) each.join();
  auto const seconds = std::chrono::duration<double>(lesson::Clock::now() - began).count();
  lesson::prove(marks.done == jobs, "each job was done once, but " + std::to_string(marks.done) + " were");
  auto const per_job = [](std::int64_t count) { return static_cast<double>(count) / jobs; };
  lesson::say(jobs, " jobs, ", workers, " workers, ", ways[static_cast<std::size_t>(way)], ": done");
  return {jobs / seconds, marks.room.most, per_job(marks.round_trips), per_job(requests(redis) - before)};
}

/// One worker dies with its batch, three jobs can never succeed: what is stuck goes back, and after five tries aside.
void stuck_jobs(lesson::Play const& play) {
  constexpr int all_jobs = 40;
  refill(play, all_jobs);
  struct Hospital {
    lesson::Mark taken{}, over{};
  };
  auto& marks = lesson::shared<Hospital>();
  lesson::Process unlucky{"W0", [&] {
    lesson::Postgres database{play.postgres()};
    auto const mine = take(database, batch);
    lesson::say("takes ", mine.count, " jobs, and is killed");
    marks.taken = true;
    lesson::pass(60s);
  }};
  unlucky.await_mark(marks.taken);
  unlucky.kill();

  lesson::Process other{"W1", [&] {
    lesson::Postgres database{play.postgres()};
    while (!marks.over) {
      auto const mine = take(database, batch);
      if (mine.count == 0) lesson::pass(10ms);
      finish(database, mine, "job.id % 13 <> 0");
    }
  }};
  lesson::Postgres keeper{play.postgres()};
  // Longer than any batch takes. A batch that is slower is worked at twice: this, too, is a TTL, and jobs must stand it.
  std::string const stuck = "state = 'taken' AND taken_at < now() - interval '150 ms'";
  auto const left = [&] { return keeper("SELECT count(*) FROM job WHERE state IN ('waiting', 'taken')").number(0); };
  bool const emptied = lesson::comes_true(
      [&] {
        if (!play.without("dead_letter")) keeper("UPDATE job SET state = 'dead' WHERE tries >= 5 AND " + stuck);
        if (!play.without("return")) keeper("UPDATE job SET state = 'waiting' WHERE " + stuck);
        lesson::pass(10ms);
        return left() == 0;
      },
      play.without("return") || play.without("dead_letter") ? 3000ms : 20'000ms);
  marks.over = true;
  other.join();
  lesson::prove(emptied, std::to_string(left()) + " jobs are neither done nor set aside");
  auto const done = keeper("SELECT count(*), count(*) FILTER (WHERE tries > 1) FROM job WHERE state = 'done'");
  auto const dead = keeper("SELECT count(*), min(tries), max(tries) FROM job WHERE state = 'dead'");
  lesson::say(done.number(0), " jobs are done, ", done.number(0, 1), " of them after the dead worker's; ", dead.number(0),
              " were set aside after ", dead.number(0, 2), " tries");
  lesson::prove(done.number(0) == all_jobs - 3 && done.number(0, 1) >= batch - 1, "the dead worker's jobs were done by another");
  lesson::prove(dead.number(0) == 3 && dead.number(0, 1) == 5 && dead.number(0, 2) == 5, "what can never succeed is set aside after five tries");
}

std::string skip_locked(lesson::Play const& play) {
  stuck_jobs(play);
  std::array<Measured, 3> measured{};
  for (std::size_t way = 0; way < measured.size(); ++way) measured[way] = measure(play, static_cast<Way>(way));

  std::printf("\n%d workers, %d jobs of %d ms waiting each\n", workers, jobs, static_cast<int>(work.count()));
  std::printf("| %-35s | jobs/s | at once | round trips per job: database | Redis |\n|---|---|---|---|---|\n", "way");
  for (std::size_t way = 0; way < measured.size(); ++way)
    std::printf("| %-35s | %6.0f | %7lld | %29.2f | %5.2f |\n", ways[way], measured[way].jobs_per_s,
                static_cast<long long>(measured[way].most), measured[way].database, measured[way].redis);
  std::printf("\n");
  std::fflush(stdout);

  lesson::prove(measured[0].most == 1, "with the lock around the work one worker works at a time");
  lesson::prove(measured[2].most >= workers / 2, "with SKIP LOCKED the workers work in parallel");
  lesson::prove(measured[2].database < 1, "a batch costs less than a round trip per job");
  return "with the lock one worker worked at a time, with SKIP LOCKED " + std::to_string(measured[2].most) +
         " did; a dead worker's jobs were done by another, and what cannot succeed was set aside after five tries";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"return", "dead_letter"}, skip_locked); }
