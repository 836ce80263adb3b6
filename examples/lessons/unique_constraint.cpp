// SPDX-License-Identifier: MIT
// No record twice: a unique constraint decides who was first, and "already there" is an answer, not an error. No lock at all.
// Needs: postgresql
// Guards: constraint
//
// --without constraint   the table has no primary key.

#include "postgres.hpp"
#include "stage.hpp"

namespace {

constexpr int messages = 30;

struct Marks {
  lesson::Number ready{}, handled{}, known{};
};

/// Handles one delivery of a payment of 10: the record and the deed are one transaction.
bool handle(lesson::Postgres& database, int message) {
  database("BEGIN");
  try {
    // If the other process is at this very message, this statement waits for the outcome.
    database("INSERT INTO handled (message) VALUES ($1::int)", {std::to_string(message)});
    database("UPDATE account SET balance = balance + 10");
    database("COMMIT");
    return true;
  } catch (lesson::SqlError const& refused) {
    database("ROLLBACK");
    if (refused.state == lesson::unique_violation) return false;  // somebody did it already
    throw;
  }
}

std::string unique_constraint(lesson::Play const& play) {
  lesson::Postgres database{play.postgres()};
  database(play.without("constraint") ? "CREATE TABLE handled (message INT)" : "CREATE TABLE handled (message INT PRIMARY KEY)");
  database("CREATE TABLE account (balance BIGINT NOT NULL)");
  database("INSERT INTO account VALUES (0)");

  auto& marks = lesson::shared<Marks>();
  auto const receive_all = [&](bool backwards) {
    lesson::Postgres own{play.postgres()};
    ++marks.ready;
    lesson::await("the other", [&] { return marks.ready == 2; });
    int handled = 0;
    for (int each = 0; each < messages; ++each) handled += handle(own, backwards ? messages - 1 - each : each);
    lesson::say("was delivered ", messages, " messages: handled ", handled, ", and ", messages - handled, " had been handled already");
    marks.handled += handled;
    marks.known += messages - handled;
  };
  lesson::say("every message is delivered twice, once to A and once to B");
  lesson::Process a{"A", [&] { receive_all(false); }};
  lesson::Process b{"B", [&] { receive_all(true); }};
  a.join();
  b.join();
  auto const balance = database("SELECT balance FROM account").number(0);
  lesson::say("the balance is ", balance);
  lesson::prove(balance == 10 * messages, "each payment counts once: " + std::to_string(balance) + " in place of " + std::to_string(10 * messages));
  lesson::prove(marks.handled == messages && marks.known == messages, "each message was handled by one and known to the other");
  return std::to_string(2 * messages) + " deliveries of " + std::to_string(messages) +
         " payments counted each once, without a lock: the constraint said who was first";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"constraint"}, unique_constraint); }
