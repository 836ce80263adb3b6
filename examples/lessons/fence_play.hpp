// SPDX-License-Identifier: MIT
// The fence at the store, the same play for every store: A writes and is paused past its lease, B writes, A wakes and its
// late write is refused. Then, where the store speaks SQL: what `<` and `<=` are each for.
#pragma once

#include <string>

#include <mortise/mortise.hpp>

#include "stage.hpp"

namespace lesson {

/// Which fences a write accepts, beside those that are higher than the last.
enum class Accept { higher_only, same_too, any };

struct Write {
  std::string writer;
  int balance;
};

/// A table with a fence, over any database that executes SQL. Only numbers and names from this program go into its text;
/// what comes from outside is bound as a parameter.
template <class Database>
class FencedTable {
 public:
  static constexpr bool transactions = true;
  explicit FencedTable(Play const& play) : database_{play} {}

  void create() {
    run("CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, written_by VARCHAR(20) NOT NULL,"
        " last_fencing_token BIGINT NOT NULL DEFAULT 0)");
    run("CREATE TABLE ledger (writer VARCHAR(20) NOT NULL, balance BIGINT NOT NULL)");
    run("INSERT INTO account (id, balance, written_by) VALUES (1, 0, 'nobody'), (2, 0, 'nobody'), (3, 0, 'nobody')");
  }

  /// One transaction of two statements, the second of them fenced. Zero rows: stale, and nothing of it may stand.
  bool write(Write const& what, mortise::Fence fence, Accept accept) {
    run("BEGIN");
    run("INSERT INTO ledger (writer, balance) VALUES ('" + what.writer + "', " + std::to_string(what.balance) + ")");
    auto const rows = update("balance = " + std::to_string(what.balance) + ", written_by = '" + what.writer + "'", 1, fence, accept);
    run(rows == 0 ? "ROLLBACK" : "COMMIT");
    return rows != 0;
  }
  /// A write that must not happen twice.
  bool deposit(int account, int amount, mortise::Fence fence, Accept accept) {
    return update("balance = balance + " + std::to_string(amount), account, fence, accept) != 0;
  }

  std::string last_writer() { return database_.cell("SELECT written_by FROM account WHERE id = 1"); }
  std::string balance(int account) { return database_.cell("SELECT balance FROM account WHERE id = " + std::to_string(account)); }
  std::string late_entries() { return database_.cell("SELECT COUNT(*) FROM ledger WHERE writer = 'A, late'"); }

 private:
  long run(std::string const& sql) { return database_.execute(sql); }
  long update(std::string const& change, int account, mortise::Fence fence, Accept accept) {
    auto const token = std::to_string(fence.value);
    auto const condition = accept == Accept::any           ? std::string{}
                           : accept == Accept::higher_only ? " AND last_fencing_token < " + token
                                                           : " AND last_fencing_token <= " + token;
    return run("UPDATE account SET " + change + ", last_fencing_token = " + token + " WHERE id = " + std::to_string(account) + condition);
  }

  Database database_;
};

/// The lesson. Guards: fence (the condition is left out), same (`<` in place of `<=`).
template <class Store>
std::string play_fence(Play const& play, std::string const& store_name) {
  struct Marks {
    Mark a_wrote{}, b_wrote{}, a_is_through{};
  };
  auto& marks = shared<Marks>();
  auto const accept = play.without("fence") ? Accept::any : play.without("same") ? Accept::higher_only : Accept::same_too;
  auto const write = [&](Store& store, Write const& what, mortise::Fence fence) {
    bool const accepted = store.write(what, fence, accept);
    say("writes ", what.balance, " with fence ", fence.value, accepted ? ": accepted" : ": REFUSED, the store has seen a newer fence");
    return accepted;
  };
  Store{play}.create();

  Process a{"A", [&] {
    mortise::Client redis{play.redis(), {.client_name = "A"}};
    mortise::Lock lock{redis, "lock:account:1", {.ttl = 400ms}};
    Store store{play};
    auto const lease = lock.acquire();
    say("has the lock, fence ", lease.fence().value);
    prove(write(store, {"A", 100}, lease.fence()), "the holder's first write is accepted");
    say("sends the same write again, as one does when an answer is lost");
    prove(write(store, {"A", 100}, lease.fence()), "the holder's repeated write is accepted, too");
    marks.a_wrote = true;
    pause_here();
    say("wakes and knows of nothing");
    bool const late = write(store, {"A, late", 101}, lease.fence());
    if (Store::transactions && !late) say("abandons the transaction");
    marks.a_is_through = true;
    prove(!late, "the late write is refused");
  }};
  Process b{"B", [&] {
    await("A's writes", marks.a_wrote);
    mortise::Client redis{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{redis, "lock:account:1"};
    Store store{play};
    auto const lease = lock.acquire_for(15s);
    prove(lease.has_value(), "B gets the lock when A's time is over");
    say("has the lock, fence ", lease->fence().value, ": A's time is over, A is paused");
    prove(write(store, {"B", 200}, lease->fence()), "the new holder's write is accepted");
    marks.b_wrote = true;
    await("A is through", marks.a_is_through);
  }};
  a.await_stop();
  await("B's write", marks.b_wrote);
  a.go_on();
  a.join();
  b.join();

  Store store{play};
  prove(store.last_writer() == "B", "the store holds what B wrote");
  if constexpr (Store::transactions) {
    prove(store.late_entries() == "0", "nothing of the abandoned transaction stands");
    mortise::Fence const fence{7};
    store.deposit(2, 5, fence, Accept::higher_only);
    bool const again = store.deposit(2, 5, fence, Accept::higher_only);
    say("deposits 5 with `<`, twice with one fence: the balance is ", store.balance(2));
    prove(!again && store.balance(2) == "5", "with `<` a fence writes once");
    store.deposit(3, 5, fence, Accept::same_too);
    store.deposit(3, 5, fence, Accept::same_too);
    say("deposits 5 with `<=`, twice with one fence: the balance is ", store.balance(3));
    prove(store.balance(3) == "10", "with `<=` a fence writes as often as it likes");
    return store_name + " took the holder's writes, refused the one that came after its lease, and nothing of that transaction "
           "stands. `<=` lets one holder write several times, `<` makes a write that must not happen twice safe to repeat";
  }
  return store_name + " took the holder's writes, and refused the one that came after its lease";
}

}  // namespace lesson
