// SPDX-License-Identifier: MIT
// The fence at MariaDB, and in the same words at MySQL. The play is in fence_play.hpp.
// Needs: redis mariadb
// Guards: fence same found_rows
//
// --without fence        the UPDATE does not look at the fence.
// --without same         `<` in place of `<=`: the holder's second write is refused.
// --without found_rows   the connection counts rows that were changed instead of rows that were found: a repeated write
//                        changes nothing, zero rows look like "stale", and the rightful holder gives up.

#include <memory>
#include <stdexcept>

#include <mysql.h>

#include "fence_play.hpp"

namespace {

class Database {
 public:
  explicit Database(lesson::Play const& play) : connection_{mysql_init(nullptr)} {
    unsigned const seconds = 10;
    mysql_options(connection_.get(), MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    auto const flags = play.without("found_rows") ? 0UL : static_cast<unsigned long>(CLIENT_FOUND_ROWS);
    if (mysql_real_connect(connection_.get(), nullptr, "root", nullptr, nullptr, 0, play.mariadb().c_str(), flags) == nullptr)
      throw failure();
    execute("CREATE DATABASE IF NOT EXISTS lesson");
    execute("USE lesson");
  }

  long execute(std::string const& sql) {
    if (mysql_real_query(connection_.get(), sql.data(), sql.size()) != 0) throw failure();
    return static_cast<long>(mysql_affected_rows(connection_.get()));
  }
  std::string cell(std::string const& sql) {
    if (mysql_real_query(connection_.get(), sql.data(), sql.size()) != 0) throw failure();
    std::unique_ptr<MYSQL_RES, Close> const rows{mysql_store_result(connection_.get())};
    MYSQL_ROW const row = rows ? mysql_fetch_row(rows.get()) : nullptr;
    if (row == nullptr) throw std::runtime_error{"no row: " + sql};
    return row[0];
  }

 private:
  struct Close {
    void operator()(MYSQL* connection) const noexcept { mysql_close(connection); }
    void operator()(MYSQL_RES* rows) const noexcept { mysql_free_result(rows); }
  };
  std::runtime_error failure() const { return std::runtime_error{mysql_error(connection_.get())}; }

  std::unique_ptr<MYSQL, Close> connection_;
};

}  // namespace

int main(int argc, char** argv) {
  return lesson::play(argc, argv, {"fence", "same", "found_rows"},
                      [](auto const& play) { return lesson::play_fence<lesson::FencedTable<Database>>(play, "MariaDB"); });
}
