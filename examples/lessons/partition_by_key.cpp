// SPDX-License-Identifier: MIT
// Each worker its own keys: hash(id) mod workers says whose a record is, so there is nothing to contend for.
// Needs: postgresql
// Guards: partition
//
// --without partition   every worker takes whatever record comes next.

#include <deque>

#include "postgres.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int workers = 4;
constexpr int records = 80;

std::string partition_by_key(lesson::Play const& play) {
  lesson::Postgres database{play.postgres()};
  database("CREATE TABLE record (id BIGINT PRIMARY KEY, done INT NOT NULL DEFAULT 0)");
  database("INSERT INTO record SELECT generate_series(1, $1::int)", {std::to_string(records)});
  std::string const whose = play.without("partition") ? "$1::int >= 0" : "mod(hashint8(id)::bigint + 2147483648, " + std::to_string(workers) + ") = $1::int";

  struct Marks {
    lesson::Number ready{}, collisions{};
    lesson::Room room{};
  };
  auto& marks = lesson::shared<Marks>();
  auto const worker = [&](int number) {
    lesson::Postgres own{play.postgres()};
    ++marks.ready;
    lesson::await("all workers", [&] { return marks.ready == workers; });
    int done = 0;
    for (;;) {
      try {
        own("BEGIN");
        // NOWAIT: a row that somebody else has locked is an error at once. Here it shows that there is none; work needs no lock.
        auto const next = own("SELECT id FROM record WHERE done = 0 AND " + whose + " ORDER BY id LIMIT 1 FOR UPDATE NOWAIT", {std::to_string(number)});
        if (next.size() == 0) {
          own("COMMIT");
          break;
        }
        marks.room.enter();
        lesson::pass(2ms);
        marks.room.leave();
        own("UPDATE record SET done = done + 1 WHERE id = $1::bigint", {next.text(0)});
        own("COMMIT");
        ++done;
      } catch (lesson::SqlError const& refused) {
        own("ROLLBACK");
        if (refused.state != lesson::lock_not_available) throw;
        ++marks.collisions;
        lesson::pass(1ms);
      }
    }
    lesson::say("did its ", done, " of ", records, " records");
  };
  std::deque<lesson::Process> all;
  for (int number = 0; number < workers; ++number) all.emplace_back("W" + std::to_string(number), [&, number] { worker(number); });
  for (auto& each : all) each.join();

  lesson::say(marks.collisions.load(), " times somebody met a record that another had; ", marks.room.most.load(), " workers worked at once");
  lesson::prove(database("SELECT count(*) FROM record WHERE done = 1").number(0) == records, "each record was done once");
  lesson::prove(marks.collisions == 0, "no worker met another, but it happened " + std::to_string(marks.collisions) + " times");
  lesson::prove(marks.room.most > 1, "the workers work in parallel");
  return std::to_string(workers) + " workers did " + std::to_string(records) +
         " records without one of them ever meeting another: the key itself says whose a record is";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"partition"}, partition_by_key); }
