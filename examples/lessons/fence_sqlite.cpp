// SPDX-License-Identifier: MIT
// The fence at SQLite. The play is in fence_play.hpp.
// Needs: redis sqlite
// Guards: fence same
//
// --without fence   the UPDATE does not look at the fence.
// --without same    `<` in place of `<=`: the holder's second write is refused.

#include <memory>
#include <stdexcept>

#include <sqlite3.h>

#include "fence_play.hpp"

namespace {

class Database {
 public:
  explicit Database(lesson::Play const& play) {
    sqlite3* opened = nullptr;
    auto const result = sqlite3_open((play.folder() + "/account.db").c_str(), &opened);
    database_.reset(opened);
    if (result != SQLITE_OK) throw failure();
    sqlite3_busy_timeout(opened, 10'000);
  }

  long execute(std::string const& sql) {
    // A deferred BEGIN that writes later may be refused at once, whatever the busy timeout says.
    auto const* const text = sql == "BEGIN" ? "BEGIN IMMEDIATE" : sql.c_str();
    if (sqlite3_exec(database_.get(), text, nullptr, nullptr, nullptr) != SQLITE_OK) throw failure();
    return sqlite3_changes(database_.get());
  }
  std::string cell(std::string const& sql) {
    std::string found;
    auto const keep = [](void* to, int, char** row, char**) {
      *static_cast<std::string*>(to) = row[0];
      return 0;
    };
    if (sqlite3_exec(database_.get(), sql.c_str(), keep, &found, nullptr) != SQLITE_OK) throw failure();
    return found;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
  };
  std::runtime_error failure() const { return std::runtime_error{sqlite3_errmsg(database_.get())}; }

  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace

int main(int argc, char** argv) {
  return lesson::play(argc, argv, {"fence", "same"},
                      [](auto const& play) { return lesson::play_fence<lesson::FencedTable<Database>>(play, "SQLite"); });
}
