// SPDX-License-Identifier: MIT
// One-off work across systems: four instances of a service start at once, one of them brings the database and the cache up
// to date, the others wait for it. What the lock is made for.
// Needs: redis sqlite
// Guards: lock
//
// --without lock   each looks whether the work is to be done, and does it.

#include <deque>
#include <memory>
#include <stdexcept>

#include <sqlite3.h>

#include <mortise/mortise.hpp>

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int instances = 4;

class Database {
 public:
  explicit Database(std::string const& path) {
    sqlite3* opened = nullptr;
    auto const result = sqlite3_open(path.c_str(), &opened);
    database_.reset(opened);
    if (result != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(opened)};
    sqlite3_busy_timeout(opened, 10'000);
  }
  /// Runs it and returns the last cell of the last row.
  std::string operator()(std::string const& sql) {
    std::string cell;
    auto const keep = [](void* to, int columns, char** row, char**) {
      *static_cast<std::string*>(to) = row[columns - 1];
      return 0;
    };
    if (sqlite3_exec(database_.get(), sql.c_str(), keep, &cell, nullptr) != SQLITE_OK)
      throw std::runtime_error{sqlite3_errmsg(database_.get())};
    return cell;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

std::string migration(lesson::Play const& play) {
  auto const path = play.folder() + "/service.db";
  Database{path}("CREATE TABLE version (number INT); INSERT INTO version VALUES (1); CREATE TABLE step (what TEXT)");

  struct Marks {
    lesson::Number ready{}, migrated{}, found{};
  };
  auto& marks = lesson::shared<Marks>();
  auto const migrate = [&](Database& database) {
    if (database("SELECT number FROM version") != "1") {
      ++marks.found;
      lesson::say("finds version 2: nothing to do");
      return;
    }
    lesson::say("finds version 1: migrates database and cache");
    lesson::pass(150ms);
    // Each step can be repeated or fails as a whole, for who holds a lock can die like anybody else.
    database("BEGIN IMMEDIATE; INSERT INTO step VALUES ('new column'); UPDATE version SET number = 2; COMMIT");
    lesson::PlainRedis{play.redis()}({"INCR", "cache:generation"});
    ++marks.migrated;
  };
  auto const instance = [&] {
    Database database{path};
    mortise::Client redis{play.redis(), {.client_name = lesson::who}};
    mortise::Lock lock{redis, "lock:migration"};
    ++marks.ready;
    lesson::await("all instances", [&] { return marks.ready == instances; });
    if (play.without("lock")) return migrate(database);
    auto const lease = lock.acquire_for(30s);
    lesson::prove(lease.has_value(), "the lock comes round to everybody");
    migrate(database);
  };
  std::deque<lesson::Process> all;
  for (int number = 0; number < instances; ++number) all.emplace_back("S" + std::to_string(number), instance);
  for (auto& each : all) each.join();

  auto const steps = Database{path}("SELECT count(*) FROM step");
  auto const generation = lesson::PlainRedis{play.redis()}({"GET", "cache:generation"});
  lesson::prove(steps == "1" && generation == "1", "the migration ran once, but the database has seen it " + steps + " times, the cache " + generation);
  lesson::prove(marks.migrated == 1 && marks.found == instances - 1, "one migrated, the others found it done");
  return "of four instances that started at once one migrated two systems, and three waited and found it done";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"lock"}, migration); }
