// SPDX-License-Identifier: MIT
// A row in PostgreSQL that refuses writes of holders whose lock is over. The story is in fenced/writer.hpp.

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "fenced/writer.hpp"

namespace {

/// A result that owns its rows.
class Result {
 public:
  explicit Result(PGresult* result) : result_{result} {}

  std::string affected() const { return PQcmdTuples(result_.get()); }
  int rows() const { return PQntuples(result_.get()); }
  std::string text(int row, int column) const { return PQgetvalue(result_.get(), row, column); }
  bool ok() const {
    auto const status = PQresultStatus(result_.get());
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
  }

 private:
  struct Clear {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

class PostgresStore {
 public:
  explicit PostgresStore(std::string const& connection) : connection_{PQconnectdb(connection.c_str())} {
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw failure();
  }

  void create() {
    run("CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, written_by TEXT NOT NULL,"
        " last_fencing_token BIGINT NOT NULL DEFAULT 0)");
    run("CREATE TABLE accepted (id BIGSERIAL PRIMARY KEY, writer TEXT NOT NULL, balance BIGINT NOT NULL, fence BIGINT NOT NULL)");
    run("INSERT INTO account (id, balance, written_by) VALUES (1, 0, 'nobody')");
  }

  /// The check and the write are one statement: no pause can come between them. `<=` because one holder may write several
  /// times with its one fence; `<` would refuse its second write, and is right where each grant writes just once.
  bool write(fenced::Entry const& entry, mortise::Fence fence) {
    auto const balance = std::to_string(entry.balance);
    auto const token = std::to_string(fence.value);
    run("BEGIN");
    try {
      auto const updated = run(
          "UPDATE account SET balance = $1::bigint, written_by = $2, last_fencing_token = $3::bigint"
          " WHERE id = 1 AND last_fencing_token <= $3::bigint",
          {balance, entry.writer, token});
      if (updated.affected() == "0") {  // stale: nothing of this transaction may stand
        run("ROLLBACK");
        return false;
      }
      run("INSERT INTO accepted (writer, balance, fence) VALUES ($1, $2::bigint, $3::bigint)", {entry.writer, balance, token});
      run("COMMIT");
      return true;
    } catch (...) {
      Result const undone{PQexec(connection_.get(), "ROLLBACK")};
      throw;
    }
  }

  /// One line for the row, and one for each accepted write.
  std::string show() {
    return lines("SELECT 'row', written_by, balance, last_fencing_token FROM account WHERE id = 1") +
           lines("SELECT 'accepted', writer, balance, fence FROM accepted ORDER BY id");
  }

 private:
  Result run(char const* sql, std::initializer_list<std::string> parameters = {}) {
    std::vector<char const*> values;
    for (auto const& parameter : parameters) values.push_back(parameter.c_str());
    Result result{PQexecParams(connection_.get(), sql, static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr, 0)};
    if (!result.ok()) throw failure();
    return result;
  }

  std::string lines(char const* sql) {
    auto const selected = run(sql);
    std::string text;
    for (int row = 0; row < selected.rows(); ++row)
      text += selected.text(row, 0) + '|' + selected.text(row, 1) + '|' + selected.text(row, 2) + '|' + selected.text(row, 3) + '\n';
    return text;
  }

  std::runtime_error failure() const { return std::runtime_error{PQerrorMessage(connection_.get())}; }

  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
};

}  // namespace

int main(int argc, char** argv) { return fenced::play<PostgresStore>(argc, argv); }
