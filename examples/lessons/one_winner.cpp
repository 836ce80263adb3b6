// SPDX-License-Identifier: MIT
// One winner: of two processes that ask for a lock, one gets it, and the other's "no" is a normal answer.
// Needs: redis
// Guards: nx
//
// --without nx   B asks by a SET without NX: it takes what A has, and neither of them notices.

#include <mortise/mortise.hpp>

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

constexpr auto resource = "lock:res";

std::string one_winner(lesson::Play const& play) {
  struct Marks {
    lesson::Mark a_has_it{}, b_was_told{}, a_is_done{};
  };
  auto& marks = lesson::shared<Marks>();

  lesson::Process a{"A", [&] {
    lesson::PlainRedis redis{play.redis()};
    lesson::say("SET ", resource, " tokenA NX PX 10000");
    lesson::prove(redis.take(resource, "tokenA", lesson::milliseconds{10'000}), "A asks first and gets the lock");
    lesson::say("OK: A has the lock and works");
    marks.a_has_it = true;
    lesson::await("B's answer", marks.b_was_told);
    auto const holder = redis({"GET", resource});
    lesson::say("GET ", resource, " says ", holder);
    lesson::prove(holder == "tokenA", "the key holds the token of the one who got it, not " + holder);
    lesson::prove(redis.release(resource, "tokenA"), "A's release finds the lock its own");
    lesson::say("releases");
    marks.a_is_done = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::await("A has the lock", marks.a_has_it);
    lesson::PlainRedis redis{play.redis()};
    std::string answer;
    if (play.without("nx")) {
      lesson::say("SET ", resource, " tokenB PX 10000   (NX left out)");
      answer = redis({"SET", resource, "tokenB", "PX", "10000"});
    } else {
      lesson::say("SET ", resource, " tokenB NX PX 10000");
      answer = redis({"SET", resource, "tokenB", "NX", "PX", "10000"});
    }
    lesson::say(answer, answer == "OK" ? ": B has the lock, too" : ": busy. Not an error: B skips its turn");

    // The library speaks the same protocol: a lock taken by bare commands is busy for it, too.
    mortise::Client client{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{client, resource};
    auto refused = lock.try_acquire();
    lesson::say("mortise: try_acquire() returns ", refused ? "a lease" : "nothing: busy");
    lesson::prove(!refused, "mortise refuses a lock that somebody holds");
    marks.b_was_told = true;
    lesson::await("A's release", marks.a_is_done);
    auto const lease = lock.try_acquire();
    lesson::say("mortise: after A's release try_acquire() returns ", lease ? "a lease" : "nothing");
    lesson::prove(lease.has_value(), "a released lock is free");
  }};
  a.join();
  b.join();
  return "while A held the lock, B was told so by an ordinary answer, and had it right after A's release";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"nx"}, one_winner); }
