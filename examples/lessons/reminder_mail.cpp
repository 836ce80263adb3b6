// SPDX-License-Identifier: MIT
// A mail that is never sent twice: the lock saves work, a unique constraint decides, and the record comes before the mail.
// Needs: redis postgresql
// Guards: constraint
//
// --without constraint   the table of reminders has no primary key.

#include <fstream>
#include <map>

#include <mortise/mortise.hpp>

#include "postgres.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int invoices = 12;
constexpr int unlucky = 5;   // here A is paused
constexpr int fateful = 9;   // here B is killed

/// The mail server: takes everything, sends it, and asks nobody.
void send_mail(std::string const& folder, int invoice) {
  std::ofstream{folder + "/sent", std::ios::app} << std::to_string(invoice) + ' ' + lesson::who + '\n';
}

/// Whether the reminder is ours to send. Committed before the mail goes out: who dies in between leaves a record without
/// a mail, which somebody can look into; the other order would leave a mail without a record, and the next one sends again.
bool record(lesson::Postgres& database, int invoice) {
  return database("INSERT INTO reminder (invoice, kind) VALUES ($1::int, 'first') ON CONFLICT DO NOTHING", {std::to_string(invoice)}).affected() == 1;
}

template <class Accident>
void remind(lesson::Play const& play, Accident const& accident) {
  lesson::Postgres database{play.postgres()};
  mortise::Client redis{play.redis(), {.client_name = lesson::who}};
  mortise::Lock lock{redis, "lock:reminders", {.ttl = 400ms}};
  auto const lease = lock.acquire_for(15s);  // so that machines do not all go through the same list: it saves work, no more
  lesson::prove(lease.has_value(), "the lock becomes free");
  lesson::say("has the lock and goes through the list");
  int sent = 0, known = 0;
  for (int invoice = 1; invoice <= invoices; ++invoice) {
    if (!record(database, invoice)) {
      ++known;
      continue;
    }
    accident(invoice);
    send_mail(play.folder(), invoice);
    database("UPDATE reminder SET sent_at = now() WHERE invoice = $1::int", {std::to_string(invoice)});
    ++sent;
  }
  lesson::say("sent ", sent, ", left out ", known, " that somebody had recorded");
}

std::string reminder_mail(lesson::Play const& play) {
  lesson::Postgres database{play.postgres()};
  database(std::string{"CREATE TABLE reminder (invoice INT, kind TEXT, sent_at TIMESTAMPTZ"} +
           (play.without("constraint") ? ")" : ", PRIMARY KEY (invoice, kind))"));
  struct Marks {
    lesson::Mark b_is_at_it{};
  };
  auto& marks = lesson::shared<Marks>();

  lesson::Process a{"A", [&] {
    remind(play, [](int invoice) {
      if (invoice != unlucky) return;
      lesson::say("is paused right before the mail for invoice ", invoice);
      lesson::pause_here();
      lesson::say("wakes; its lease is long over; sends the mail it has recorded");
    });
  }};
  a.await_stop();
  lesson::Process b{"B", [&] {
    remind(play, [&](int invoice) {
      if (invoice != fateful) return;
      lesson::say("is killed right before the mail for invoice ", invoice);
      marks.b_is_at_it = true;
      lesson::pass(60s);
    });
  }};
  b.await_mark(marks.b_is_at_it);
  b.kill();
  lesson::Process c{"C", [&] { remind(play, [](int) {}); }};
  c.join();
  a.go_on();
  a.join();

  std::map<int, int> mails;
  std::ifstream sent{play.folder() + "/sent"};
  std::string sender;
  for (int invoice = 0; sent >> invoice >> sender;) ++mails[invoice];
  for (auto const& [invoice, count] : mails)
    lesson::prove(count == 1, "the reminder for invoice " + std::to_string(invoice) + " was sent " + std::to_string(count) + " times");
  auto const open = database("SELECT invoice FROM reminder WHERE sent_at IS NULL");
  lesson::say(mails.size(), " of ", invoices, " mails were sent; recorded but not known to be sent: ", open.size(), ", for somebody to look into");
  lesson::prove(open.size() == 1 && open.number(0) == fateful && mails.size() == invoices - 1, "only the killed worker's mail is open");
  return "through a pause past the lease and a death between record and mail no reminder was sent twice; the price is one that "
         "somebody has to look into";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"constraint"}, reminder_mail); }
