// SPDX-License-Identifier: MIT
// Two processes that write to one guarded row, A with a pause that outlives its lease: lesson "fencing" as a program.
// The stores of fenced_sqlite.cpp and fenced_postgres.cpp play it; demo.sh is the director.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <mortise/mortise.hpp>

namespace fenced {

using namespace std::chrono_literals;
using mortise::milliseconds;

/// What a writer puts into the row.
struct Entry {
  std::string writer;
  int balance;
};

/// The stage: who this process is, when the play began, and the marks by which demo.sh follows it.
class Stage {
 public:
  Stage(std::string_view role, std::filesystem::path folder) : role_{role}, folder_{std::move(folder)} {}

  /// One line of the timeline, in one write, so that lines of several processes never mix.
  template <class... Parts>
  void say(Parts const&... parts) const {
    std::ostringstream text;
    (text << ... << parts);
    auto time = std::to_string(since_start().count());
    time.insert(0, time.size() < 6 ? 6 - time.size() : 0, ' ');
    std::cout << time + " ms  " + role_ + "     " + text.str() + '\n' << std::flush;
  }

  void mark(std::string const& what) const { std::ofstream{folder_ / (role_ + '.' + what)}; }

  /// Waits for another process's mark; throws when it does not come.
  void await(std::string const& mark) const {
    wait_until([&] { return std::filesystem::exists(folder_ / mark); }, mark);
  }

  template <class Predicate>
  static void wait_until(Predicate predicate, std::string const& what) {
    for (auto const end = mortise::Clock::now() + 60s; !predicate(); std::this_thread::sleep_for(5ms))
      if (mortise::Clock::now() > end) throw std::runtime_error{"waited in vain for " + what};
  }

 private:
  static milliseconds since_start() {
    using std::chrono::system_clock;
    static auto const own = std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
    char const* const given = std::getenv("DEMO_START_MS");
    auto const start = milliseconds{given != nullptr ? std::atoll(given) : own};
    return std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()) - start;
  }

  std::string role_;
  std::filesystem::path folder_;
};

inline void require(bool truth, char const* what) {
  if (!truth) throw std::runtime_error{what};
}

/// A: writes, is stopped for longer than its TTL, and writes again as if nothing had happened.
template <class Store>
void play_a(Stage const& stage, Store& store, mortise::Lock<>& lock) {
  auto const lease = lock.acquire();
  auto const fence = lease.fence();
  stage.say("has the lock, fence ", fence.value);
  require(store.write({"A", 100}, fence), "A's first write must be accepted");
  stage.say("writes 100 with fence ", fence.value, ": accepted");
  stage.say("works on: held() says ", lease.held() ? "true" : "false", ", the lease is renewed in the background");
  stage.mark("wrote");

  // The pause can fall between any two instructions: also between this question and the write it is asked for.
  auto last = mortise::Clock::now();
  auto pause = mortise::nanoseconds::zero();
  Stage::wait_until(
      [&] {
        auto const now = mortise::Clock::now();
        pause = std::max(pause, now - std::exchange(last, now));
        return !lease.held();
      },
      "the end of the lease");
  stage.say("wakes after ", std::chrono::round<milliseconds>(pause).count(),
            " ms in which not one instruction ran: held() says false");
  Stage::wait_until([&] { return lease.lost().stop_requested(); }, "lost()");
  stage.say("is told so, too: lost() has fired. A program that asked just before the pause knows of nothing and goes on:");
  stage.await("B.wrote");  // as demo.sh has it anyway; on a machine so busy that A lost its lease unstopped, too
  bool const accepted = store.write({"A, late", 101}, fence);
  stage.say("writes 101 with fence ", fence.value, ": ",
            accepted ? "ACCEPTED" : "refused by the store (0 rows: it has seen a newer fence)");
  stage.mark("refused");
  require(!accepted, "A's late write must be refused");
}

/// B: waits for its turn, writes, still holds the lock while A comes back, and writes again.
template <class Store>
void play_b(Stage const& stage, Store& store, mortise::Lock<>& lock) {
  stage.say("waits for its turn");
  auto const began = mortise::Clock::now();
  auto lease = lock.acquire_for(60s);
  require(lease.has_value(), "B must get the lock when A's lease is over");
  auto const fence = lease->fence();
  auto const waited = std::chrono::round<milliseconds>(mortise::Clock::now() - began);
  stage.say("has the lock after ", waited.count(), " ms, fence ", fence.value);
  require(store.write({"B", 200}, fence), "B's first write must be accepted");
  stage.say("writes 200 with fence ", fence.value, ": accepted");
  stage.mark("wrote");
  stage.await("A.refused");
  require(lease->held(), "B must still hold the lock");
  require(store.write({"B", 201}, fence), "B's second write must be accepted");
  stage.say("writes 201 with the same fence ", fence.value, ": accepted, for it is not older");
  require(lease->release(), "B's release must find the lock its own");
  stage.say("releases the lock");
}

/// The whole program over any Store: create(), write(Entry, Fence) -> accepted, show() -> text.
template <class Store>
int play(int argc, char** argv) {
  std::string const role{argc == 5 ? argv[4] : ""};
  if (role != "create" && role != "A" && role != "B" && role != "show") {
    std::cerr << "usage: " << argv[0] << " STORE LOCK FOLDER create|A|B|show   (MORTISE_REDIS: the server; see demo.sh)\n";
    return 64;
  }
  Stage const stage{role, argv[3]};
  try {
    Store store{argv[1]};
    if (role == "create") {
      store.create();
    } else if (role == "show") {
      std::cout << store.show();
    } else {
      char const* const uri = std::getenv("MORTISE_REDIS");
      mortise::Client redis{uri != nullptr ? uri : "redis://localhost:6379", {.client_name = role}};
      mortise::Lock lock{redis, argv[2], {.ttl = 1500ms}};
      if (role == "A")
        play_a(stage, store, lock);
      else
        play_b(stage, store, lock);
    }
    return EXIT_SUCCESS;
  } catch (std::exception const& error) {
    stage.say("FAILS: ", error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace fenced
