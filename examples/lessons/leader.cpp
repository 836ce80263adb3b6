// SPDX-License-Identifier: MIT
// A leader that steps down: three candidates, one leads; who loses the lock stops leading, and what it still writes without
// knowing is refused by the fence.
// Needs: redis
// Guards: stepping_down
//
// --without stepping_down   a leader does not look whether it has lost the lock.

#include <deque>

#include <mortise/mortise.hpp>

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto resource = "lock:leader";

struct Marks {
  lesson::Mark over{};
  lesson::Number leader{-1}, terms{}, stepped_down{}, accepted{}, refused{};
};

void lead(lesson::Play const& play, Marks& marks, mortise::Client& redis, mortise::Lease const& lease, int number) {
  auto const term = lease.fence().value;
  lesson::say("leads, term ", term);
  marks.leader = number;
  ++marks.terms;
  bool told = false;
  while (!marks.over) {
    if (!play.without("stepping_down") && (told = lease.lost().stop_requested() || !lease.held())) break;
    // What a leader does carries its term, and whoever obeys remembers the newest.
    ++(mortise::fenced_set(redis, "orders", lesson::who, lease.fence()) ? marks.accepted : marks.refused);
    lesson::pass(10ms);
  }
  if (!told) return;
  ++marks.stepped_down;
  lesson::say("steps down: term ", term, " is lost");
}

void candidate(lesson::Play const& play, Marks& marks, int number) {
  // tracking: a key that somebody deletes is told at once, not only at the next renewal.
  mortise::Client redis{play.redis(), {.client_name = lesson::who, .tracking = true}};
  mortise::Lock lock{redis, resource, {.ttl = 600ms}};
  while (!marks.over)
    if (auto const lease = lock.acquire_for(100ms); lease && !marks.over) lead(play, marks, redis, *lease, number);
}

std::string leader(lesson::Play const& play) {
  auto& marks = lesson::shared<Marks>();
  std::deque<lesson::Process> candidates;
  char const* const names[] = {"N0", "N1", "N2"};
  for (int number = 0; number < 3; ++number)
    candidates.emplace_back(names[number], [&, number] { candidate(play, marks, number); });

  auto const await_term = [&](std::int64_t term) {
    lesson::await("term number " + std::to_string(term), [&] { return marks.terms >= term; });
    auto const before = marks.accepted.load();
    lesson::await("its orders", [&] { return marks.accepted > before + 3; });
    return static_cast<std::size_t>(marks.leader.load());
  };
  auto const stepped_down = [&](std::int64_t count, char const* what) {
    lesson::prove(lesson::comes_true([&] { return marks.stepped_down >= count; }, 5s), what);
  };

  auto const first = await_term(1);
  candidates[first].stop();
  lesson::say("stops ", names[first], ": a pause longer than its lease");
  auto const second = await_term(2);
  lesson::prove(second != first, "another one leads while the first is paused");
  candidates[first].go_on();
  lesson::say("lets ", names[first], " go on");
  stepped_down(1, "a leader that slept past its lease steps down when it wakes");

  lesson::PlainRedis operators{play.redis()};
  auto const broken = lesson::Clock::now();
  operators({"DEL", resource});
  lesson::say("an operator deletes the lock under ", names[second]);
  stepped_down(2, "a leader whose lock was deleted steps down");
  lesson::say(names[second], " was told within ", lesson::since(broken).count(), " ms");

  auto const third = await_term(3);
  candidates[third].kill();
  auto const killed = lesson::Clock::now();
  lesson::say("kills ", names[third]);
  lesson::await("term number 4", [&] { return marks.terms >= 4; });
  lesson::say("a new leader ", lesson::since(killed).count(), " ms after the death of the old one");
  marks.over = true;
  for (std::size_t each = 0; each < candidates.size(); ++each)
    if (each != third) candidates[each].join();
  return "of three candidates one led at a time: the paused leader and the one whose lock was deleted stepped down, the killed one "
         "was replaced; orders accepted: " +
         std::to_string(marks.accepted) + ", of old terms refused by the fence: " + std::to_string(marks.refused);
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"stepping_down"}, leader); }
