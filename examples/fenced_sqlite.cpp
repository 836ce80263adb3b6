// SPDX-License-Identifier: MIT
// A row in SQLite that refuses writes of holders whose lock is over. The story is in fenced/writer.hpp.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "fenced/writer.hpp"

namespace {

/// One prepared statement.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &prepared, nullptr) != SQLITE_OK)
      throw std::runtime_error{sqlite3_errmsg(database)};
    statement_.reset(prepared);
  }

  void bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }
  void bind(int index, std::string const& value) {
    sqlite3_bind_text(statement_.get(), index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  }

  /// Runs to the next row; false at the end.
  bool step() {
    auto const result = sqlite3_step(statement_.get());
    if (result != SQLITE_ROW && result != SQLITE_DONE) throw std::runtime_error{sqlite3_errmsg(sqlite3_db_handle(statement_.get()))};
    return result == SQLITE_ROW;
  }

  std::string text(int column) const {
    return reinterpret_cast<char const*>(sqlite3_column_text(statement_.get(), column));
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class SqliteStore {
 public:
  explicit SqliteStore(std::string const& path) {
    sqlite3* opened = nullptr;
    auto const result = sqlite3_open(path.c_str(), &opened);
    database_.reset(opened);
    if (result != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(opened)};
    sqlite3_busy_timeout(opened, 10'000);
  }

  void create() {
    run("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, written_by TEXT NOT NULL,"
        " last_fencing_token INTEGER NOT NULL DEFAULT 0)");
    run("CREATE TABLE accepted (id INTEGER PRIMARY KEY, writer TEXT NOT NULL, balance INTEGER NOT NULL, fence INTEGER NOT NULL)");
    run("INSERT INTO account (id, balance, written_by) VALUES (1, 0, 'nobody')");
  }

  /// The check and the write are one statement: no pause can come between them. `<=` because one holder may write several
  /// times with its one fence; `<` would refuse its second write, and is right where each grant writes just once.
  bool write(fenced::Entry const& entry, mortise::Fence fence) {
    run("BEGIN IMMEDIATE");
    try {
      auto const token = static_cast<std::int64_t>(fence.value);  // below 2^53
      Statement update{database_.get(),
                       "UPDATE account SET balance = ?1, written_by = ?2, last_fencing_token = ?3"
                       " WHERE id = 1 AND last_fencing_token <= ?3"};
      update.bind(1, entry.balance);
      update.bind(2, entry.writer);
      update.bind(3, token);
      update.step();
      if (sqlite3_changes(database_.get()) == 0) {  // stale: nothing of this transaction may stand
        run("ROLLBACK");
        return false;
      }
      Statement note{database_.get(), "INSERT INTO accepted (writer, balance, fence) VALUES (?1, ?2, ?3)"};
      note.bind(1, entry.writer);
      note.bind(2, entry.balance);
      note.bind(3, token);
      note.step();
      run("COMMIT");
      return true;
    } catch (...) {
      sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }

  /// One line for the row, and one for each accepted write.
  std::string show() {
    return lines("SELECT 'row', written_by, balance, last_fencing_token FROM account WHERE id = 1") +
           lines("SELECT 'accepted', writer, balance, fence FROM accepted ORDER BY id");
  }

 private:
  void run(char const* sql) {
    if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error{sqlite3_errmsg(database_.get())};
  }

  std::string lines(char const* sql) {
    Statement select{database_.get(), sql};
    std::string result;
    while (select.step()) result += select.text(0) + '|' + select.text(1) + '|' + select.text(2) + '|' + select.text(3) + '\n';
    return result;
  }

  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace

int main(int argc, char** argv) { return fenced::play<SqliteStore>(argc, argv); }
