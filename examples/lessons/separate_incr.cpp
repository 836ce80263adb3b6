// SPDX-License-Identifier: MIT
// A number drawn apart from the grant is no fence: a holder that is paused between the two draws the higher number.
// Needs: redis
// Guards: grant
//
// --without grant   the second act draws its number apart from the grant as well.

#include <mortise/mortise.hpp>

#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

struct Marks {
  lesson::Mark a_has_it{}, b_wrote{}, a_is_through{};
  lesson::Number a_number{}, b_number{};
  lesson::Mark late_write{};
};

/// A is paused right behind its grant, B gets the lock and writes, A wakes and writes. True: A's late write was accepted.
bool act(lesson::Play const& play, std::string const& name, bool apart) {
  auto& marks = lesson::shared<Marks>();
  auto const number = [&](mortise::Client& redis, mortise::Lease const& lease) {
    return apart ? mortise::FencingCounter{redis, "counter:" + name}.next() : lease.fence();
  };
  auto const write = [&](mortise::Client& redis, mortise::Fence fence) {
    bool const accepted = mortise::fenced_set(redis, "stock:" + name, lesson::who, fence);
    lesson::say("writes with ", fence.value, ": ", accepted ? "accepted" : "refused by the store, it has seen a higher one");
    return accepted;
  };
  lesson::Process a{"A", [&] {
    mortise::Client redis{play.redis(), {.client_name = "A"}};
    mortise::Lock lock{redis, "lock:" + name, {.ttl = 400ms}};
    auto const lease = lock.acquire();
    lesson::say("has the lock", apart ? "" : ", and in the same answer its number");
    marks.a_has_it = true;
    lesson::pause_here();
    auto const fence = number(redis, lease);
    marks.a_number = static_cast<std::int64_t>(fence.value);
    lesson::say("wakes", apart ? " and draws its number: " : " with the number it was granted: ", fence.value);
    marks.late_write = write(redis, fence);
    marks.a_is_through = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::await("A has the lock", marks.a_has_it);
    mortise::Client redis{play.redis(), {.client_name = "B"}};
    mortise::Lock lock{redis, "lock:" + name};
    auto const lease = lock.acquire_for(15s);
    lesson::prove(lease.has_value(), "B gets in when A's time is over");
    auto const fence = number(redis, *lease);
    marks.b_number = static_cast<std::int64_t>(fence.value);
    lesson::say("has the lock, number ", fence.value);
    lesson::prove(write(redis, fence), "the holder's write is accepted");
    marks.b_wrote = true;
    lesson::await("A is through", marks.a_is_through);
  }};
  a.await_stop();
  lesson::await("B's write", marks.b_wrote);
  a.go_on();
  a.join();
  b.join();
  lesson::prove((marks.a_number > marks.b_number) == marks.late_write, "the store goes by the number alone");
  return marks.late_write;
}

std::string separate_incr(lesson::Play const& play) {
  lesson::say("act one: the lock, and then an INCR for the number");
  bool const apart = act(play, "apart", true);
  lesson::say("act two: the number comes with the grant");
  bool const granted = act(play, "granted", play.without("grant"));
  lesson::prove(apart, "by a separate INCR the stale holder gets the higher number, and its write is accepted");
  lesson::prove(!granted, "the stale holder's write is refused");
  return "by a separate INCR the stale holder drew the higher number and overwrote its successor; drawn in the grant, its number "
         "was the lower one and the store refused it";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"grant"}, separate_incr); }
