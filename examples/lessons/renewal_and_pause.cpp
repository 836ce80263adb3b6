// SPDX-License-Identifier: MIT
// Renewal: makes work safe that is longer than the TTL, and does nothing for a process that is paused: the thread that
// renews is paused with it.
// Needs: redis
// Guards: renewal
//
// --without renewal   nobody renews A's lease: its long work is not safe even in normal times.

#include <mortise/mortise.hpp>

#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

std::string renewal_and_pause(lesson::Play const& play) {
  constexpr auto ttl = 600ms;
  struct Marks {
    lesson::Mark a_has_it{}, work_is_done{}, b_waits{}, b_is_in{}, a_knows{};
    lesson::Number refused{}, b_waited{};
  };
  auto& marks = lesson::shared<Marks>();

  lesson::Process a{"A", [&] {
    mortise::Client redis{play.redis(), {.client_name = "A"}};
    mortise::Lock lock{redis, "lock:long", {.ttl = ttl, .renew = !play.without("renewal")}};
    auto const lease = lock.acquire();
    lesson::say("has the lock, TTL ", ttl.count(), " ms, renewed every third of it; works for three TTLs");
    marks.a_has_it = true;
    lesson::pass(3 * ttl);
    lesson::prove(lease.held(), "the renewed lease is held after three TTLs");
    lesson::say("is done with the first part: held() says true, B was refused ", marks.refused.load(), " times");
    marks.work_is_done = true;
    // Goes on, and is stopped somewhere in here.
    lesson::await("the end of the lease", [&] { return !lease.held(); });
    lesson::say("wakes: held() says false. The thread that renews slept as deeply as the one that works");
    lesson::await("lost()", [&] { return lease.lost().stop_requested(); });
    lesson::say("is told so, too: lost() has fired");
    marks.a_knows = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::await("A has the lock", marks.a_has_it);
    mortise::Client redis{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{redis, "lock:long"};
    for (; !marks.work_is_done; lesson::pass(50ms)) {
      lesson::prove(!lock.try_acquire(), "B is refused for as long as A works");
      ++marks.refused;
    }
    marks.b_waits = true;
    auto const asked = lesson::Clock::now();
    auto const lease = lock.acquire_for(15s);
    lesson::prove(lease.has_value(), "B gets in once nobody renews");
    marks.b_waited = lesson::since(asked).count();
    lesson::say("has the lock after ", marks.b_waited.load(), " ms, while A sleeps in the middle of its work");
    marks.b_is_in = true;
    lesson::await("A knows", marks.a_knows);
    lesson::prove(lease->held(), "B holds the lock while A wakes");
  }};
  b.await_mark(marks.b_waits);
  lesson::pass(50ms);
  a.stop();
  lesson::say("stops A (SIGSTOP)");
  lesson::await("B is in", marks.b_is_in);
  a.go_on();
  lesson::say("lets A go on (SIGCONT)");
  a.join();
  b.join();
  return "renewal kept the lock through work of three TTLs; through a pause longer than one TTL it kept nothing, and the "
         "holder knew only after the pause";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"renewal"}, renewal_and_pause); }
