// SPDX-License-Identifier: MIT
// The blind DEL: a holder that comes too late deletes the lock of its successor, and lets a third one in beside it.
// Needs: redis
// Guards: guard
//
// --without guard   the second act deletes blindly as well.

#include <mortise/mortise.hpp>

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

struct Marks {
  lesson::Mark a_has_it{}, b_is_in{}, a_released{}, c_was_answered{};
  lesson::Room room{};
};

/// A stalls past its TTL, B enters, A wakes and releases, C asks. How many of B and C were in at once?
std::int64_t act(lesson::Play const& play, std::string const& resource, bool blind) {
  auto& marks = lesson::shared<Marks>();
  lesson::Process a{"A", [&] {
    mortise::Client redis{play.redis(), {.client_name = "A"}};
    mortise::Lock lock{redis, resource, {.ttl = 500ms, .renew = false}};
    auto lease = lock.acquire();
    lesson::say("has the lock for 500 ms, and stalls");
    marks.a_has_it = true;
    lesson::await("B is in", marks.b_is_in);
    lesson::pass(100ms);
    if (blind) {
      lesson::PlainRedis by_hand{play.redis()};
      lesson::say("wakes and releases with DEL ", resource, ": ", by_hand({"DEL", resource}), ". That was B's lock");
    } else {
      bool const released = lease.release();
      lesson::say("wakes and releases: ", released ? "true" : "false, the lock is no longer its own; B's lock stands");
    }
    marks.a_released = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::await("A has the lock", marks.a_has_it);
    mortise::Client redis{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{redis, resource};
    auto lease = lock.acquire_for(15s);
    lesson::prove(lease.has_value(), "B gets in when A's time is over");
    marks.room.enter();
    lesson::say("enters: A's time is over");
    marks.b_is_in = true;
    lesson::await("C's answer", marks.c_was_answered);
    auto const ours = lease->confirm();
    lesson::say("works all the while. Is the lock still its own? ", ours ? "yes" : "no, somebody deleted it");
    marks.room.leave();
  }};
  lesson::Process c{"C", [&] {
    lesson::await("A's release", marks.a_released);
    mortise::Client redis{play.redis(), {.client_name = "C"}};
    mortise::Lock lock{redis, resource};
    auto const lease = lock.try_acquire();
    if (lease) marks.room.enter();
    lesson::say(lease ? "asks for the lock and ENTERS, beside B" : "asks for the lock: busy, B is at work");
    marks.c_was_answered = true;
    if (lease) {
      lesson::pass(50ms);
      marks.room.leave();
    }
  }};
  a.join();
  b.join();
  c.join();
  return marks.room.most;
}

std::string blind_delete(lesson::Play const& play) {
  lesson::say("act one: A releases by a blind DEL");
  auto const blind = act(play, "lock:blind", true);
  lesson::say("act two: A releases by comparing its token first");
  auto const guarded = act(play, "lock:guarded", play.without("guard"));
  lesson::prove(blind == 2, "after the blind DEL, B and C were in at once");
  lesson::prove(guarded == 1, "with the guarded release only B was in, but there were " + std::to_string(guarded));
  return "the blind DEL of a late holder let C in beside B; the guarded release answered false, and C was refused";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"guard"}, blind_delete); }
