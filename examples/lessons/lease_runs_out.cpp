// SPDX-License-Identifier: MIT
// The lease runs out under its holder: two processes where only one should be, and no TTL excludes it.
// Needs: redis
// Guards: ttl
//
// --without ttl   A has ten seconds for work of one: nothing goes wrong this time, and so the lesson shows nothing.

#include <mortise/mortise.hpp>

#include "stage.hpp"

namespace {

std::string lease_runs_out(lesson::Play const& play) {
  using namespace std::chrono_literals;
  auto const ttl = play.without("ttl") ? 10'000ms : 500ms;
  struct Marks {
    lesson::Mark a_is_in{}, b_is_in{}, a_is_out{};
    lesson::Number b_waited{};
    lesson::Room room{};
  };
  auto& marks = lesson::shared<Marks>();

  lesson::Process a{"A", [&] {
    mortise::Client redis{play.redis(), {.client_name = "A"}};
    mortise::Lock lock{redis, "lock:report", {.ttl = ttl, .renew = false}};
    auto const lease = lock.acquire();
    lesson::say("has the lock for ", ttl.count(), " ms and begins work that takes 1000 ms");
    marks.room.enter();
    marks.a_is_in = true;
    lesson::pass(1000ms);
    if (!play.without("ttl")) lesson::await("B is in", marks.b_is_in);
    lesson::say("is done after 1000 ms. Had it asked: held() says ", lease.held() ? "true" : "false");
    lesson::prove(play.without("ttl") || !lease.held(), "held() is false once the time of a lease is over");
    marks.room.leave();
    marks.a_is_out = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::await("A is in", marks.a_is_in);
    mortise::Client redis{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{redis, "lock:report", {.ttl = 10s}};
    auto const asked = lesson::Clock::now();
    lesson::say("asks for the lock and waits");
    auto const lease = lock.acquire_for(15s);
    lesson::prove(lease.has_value(), "B gets the lock in the end");
    marks.room.enter();
    marks.b_waited = lesson::since(asked).count();
    marks.b_is_in = true;
    lesson::say("has the lock after ", marks.b_waited.load(), " ms and begins. A ",
                marks.a_is_out ? "is done" : "is at work still: both are in now");
    lesson::await("A is done", marks.a_is_out);
    marks.room.leave();
  }};
  a.join();
  b.join();
  lesson::prove(marks.room.most == 2, "two were in at once");
  lesson::prove(marks.b_waited >= 400, "B was kept out until A's time was over");
  return "a TTL is a guess at how long work takes: A's was too short, and for the rest of its work B was in as well. A longer "
         "one makes that rarer, and everybody waits as long for a dead holder";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"ttl"}, lease_runs_out); }
