// SPDX-License-Identifier: MIT
// PostgreSQL for the lessons: one connection, rows as text, and how many round trips it took.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <libpq-fe.h>

namespace lesson {

/// What the database refused, with its five-letter SQLSTATE.
struct SqlError : std::runtime_error {
  SqlError(std::string const& what, char const* sqlstate) : runtime_error{what}, state{sqlstate != nullptr ? sqlstate : ""} {}
  std::string state;
};
constexpr auto unique_violation = "23505";
constexpr auto lock_not_available = "55P03";

class Rows {
 public:
  explicit Rows(PGresult* result) : result_{result} {}
  int size() const { return PQntuples(result_.get()); }
  std::string text(int row, int column = 0) const { return PQgetvalue(result_.get(), row, column); }
  std::int64_t number(int row, int column = 0) const { return std::stoll(text(row, column)); }
  /// By an INSERT, UPDATE or DELETE.
  std::int64_t affected() const {
    std::string const count{PQcmdTuples(result_.get())};
    return count.empty() ? 0 : std::stoll(count);
  }
  PGresult* get() const { return result_.get(); }

 private:
  struct Clear {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

class Postgres {
 public:
  explicit Postgres(std::string const& where) : connection_{PQconnectdb(where.c_str())} {
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw std::runtime_error{PQerrorMessage(connection_.get())};
    (*this)("SET client_min_messages = warning");
    round_trips_ = 0;
  }

  /// One statement, one round trip; $1, $2 … stand for the values.
  Rows operator()(std::string const& sql, std::initializer_list<std::string> values = {}) {
    std::vector<char const*> texts;
    for (auto const& value : values) texts.push_back(value.c_str());
    ++round_trips_;
    Rows rows{PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(texts.size()), nullptr, texts.data(), nullptr, nullptr, 0)};
    auto const status = PQresultStatus(rows.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
      throw SqlError{PQerrorMessage(connection_.get()), PQresultErrorField(rows.get(), PG_DIAG_SQLSTATE)};
    return rows;
  }
  std::int64_t round_trips() const { return round_trips_; }

 private:
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
  std::int64_t round_trips_ = 0;
};

}  // namespace lesson
