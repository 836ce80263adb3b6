// SPDX-License-Identifier: MIT
// Ask again before the deed: confirm() narrows the window in which a pause does harm from the whole work to a moment. It
// does not close it.
// Needs: redis
// Guards: confirm
//
// --without confirm   A does not ask in the second act either.

#include <mortise/mortise.hpp>

#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

enum class Pause { in_the_work, behind_the_question };

struct Marks {
  lesson::Mark a_has_it{}, b_did_it{}, a_is_through{};
  lesson::Number deeds{}, window_us{};
};

/// A works, is paused where `pause` says until B has done the same deed, and does it again unless it asks and is told.
std::int64_t act(lesson::Play const& play, std::string const& resource, Pause pause, bool asks) {
  auto& marks = lesson::shared<Marks>();
  auto const deed = [&marks] {
    ++marks.deeds;
    lesson::say("does the deed");
  };
  lesson::Process a{"A", [&] {
    mortise::Client redis{play.redis(), {.client_name = "A"}};
    mortise::Lock lock{redis, resource, {.ttl = 400ms}};
    auto lease = lock.acquire();
    lesson::say("has the lock and works");
    marks.a_has_it = true;
    auto window = lesson::Clock::now();
    lesson::pass(150ms);
    if (pause == Pause::in_the_work) lesson::pause_here();
    bool go = true;
    if (asks) {
      window = lesson::Clock::now();
      go = lease.confirm();
      if (!go) lesson::say("asks before the deed: no longer its own. Leaves it");
    }
    auto const narrow = lesson::Clock::now() - window;
    if (pause == Pause::behind_the_question) lesson::pause_here();
    if (go) deed();
    marks.window_us = std::chrono::duration_cast<std::chrono::microseconds>(narrow).count();
    marks.a_is_through = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::await("A has the lock", marks.a_has_it);
    mortise::Client redis{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{redis, resource};
    auto const lease = lock.acquire_for(15s);
    lesson::prove(lease.has_value(), "B gets in when A's time is over");
    lesson::say("has the lock: A sleeps");
    deed();
    marks.b_did_it = true;
    lesson::await("A is through", marks.a_is_through);
  }};
  a.await_stop();
  lesson::await("B's deed", marks.b_did_it);
  a.go_on();
  a.join();
  b.join();
  lesson::say("the deed was done ", marks.deeds.load(), marks.deeds == 1 ? " time" : " times");
  return pause == Pause::behind_the_question ? (marks.deeds == 2 ? marks.window_us.load() : -1) : marks.deeds.load();
}

std::string confirm_before_deed(lesson::Play const& play) {
  lesson::say("act one: A is paused in its work, and does not ask");
  auto const unasked = act(play, "lock:unasked", Pause::in_the_work, false);
  lesson::say("act two: A is paused in its work, and asks before the deed");
  auto const asked = act(play, "lock:asked", Pause::in_the_work, !play.without("confirm"));
  lesson::say("act three: A asks, and is paused between the answer and the deed");
  auto const window_us = act(play, "lock:unlucky", Pause::behind_the_question, true);
  lesson::prove(unasked == 2, "a holder that does not ask does the deed a second time");
  lesson::prove(asked == 1, "a holder that asks is told in time, but the deed was done " + std::to_string(asked) + " times");
  lesson::prove(window_us >= 0, "a pause right behind the answer does the harm all the same");
  return "confirm() caught the pause in the work; a pause behind its answer it cannot catch. The window shrank from 150 ms of work to " +
         std::to_string(window_us) + " µs: a small probability, and still one";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"confirm"}, confirm_before_deed); }
