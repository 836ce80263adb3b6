// SPDX-License-Identifier: MIT
// Pauses between attempts at a quorum, and whose vote counts after a restart.
#include <chrono>

#include <mortise/detail/quorum_times.hpp>

#include "support/catch.hpp"

using namespace std::chrono_literals;
using mortise::nanoseconds;
using mortise::TimePoint;
using mortise::detail::contention_pause;
using mortise::detail::NodeLife;
using mortise::detail::vote_of;
using mortise::detail::Vote;

namespace {

constexpr TimePoint noon{100h};

}  // namespace

TEST_CASE("who got a part of the nodes draws from a span of rounds that doubles") {
  constexpr auto round = 100us;
  CHECK(contention_pause(0, true, round, 0) == 0ns);
  CHECK(contention_pause(0, true, round, 1023) < 2 * round);
  CHECK(contention_pause(0, true, round, 1023) > round);
  CHECK(contention_pause(4, true, round, 1023) > 30 * round);
  CHECK(contention_pause(4, true, round, 1023) < 32 * round);
  for (unsigned failures = 0; failures < 100; ++failures) CHECK(contention_pause(failures, true, 1s, 1023) <= 32ms);
}

TEST_CASE("who got none looks again after 1 ms to 32 ms, of which a random part") {
  CHECK(contention_pause(0, false, 100us, 0) == 500us);
  CHECK(contention_pause(0, false, 100us, 1023) <= 1ms);
  CHECK(contention_pause(3, false, 100us, 0) == 4ms);
  for (unsigned failures = 5; failures < 100; ++failures) {
    CHECK(contention_pause(failures, false, 1s, 0) == 16ms);
    CHECK(contention_pause(failures, false, 1s, 1023) <= 32ms);
  }
}

TEST_CASE("a node that this client saw restart has no vote for one quarantine") {
  std::vector<NodeLife> lives{{"a", noon - 1h, false}, {"b", noon, true}, {"c", noon - 1h, false}};
  CHECK(vote_of(lives, 1, 10s, noon + 9s) == Vote::none);
  CHECK(vote_of(lives, 1, 10s, noon + 10s) == Vote::full);
  CHECK(vote_of(lives, 0, 10s, noon) == Vote::full);
}

TEST_CASE("a greeting that is heard late does not bring an earlier process back") {
  NodeLife life;
  note_greeting(life, "new", 0s, noon);
  CHECK_FALSE(life.changed);
  note_greeting(life, "old", 1h, noon + 1s);  // said before the restart
  CHECK(life.run_id == "new");
  CHECK(life.born == noon);
  CHECK(life.changed);
  std::vector<NodeLife> const lives{life, {"b", noon - 1h, false}};
  CHECK(vote_of(lives, 0, 10s, noon + 2s) == Vote::none);
  note_greeting(life, "newer", 0s, noon + 5s);
  CHECK(life.run_id == "newer");
  CHECK(life.born == noon + 5s);
  note_greeting(life, "", 0s, noon + 6s);
  CHECK(life.run_id == "newer");
}

TEST_CASE("a node's age is what it says, less the second by which it may be told too high") {
  NodeLife life;
  note_greeting(life, "a", 10s, noon);
  CHECK(life.born == noon - 9s);
  note_greeting(life, "a", 20s, noon + 9900ms);
  CHECK(life.born == noon - 9s);
  CHECK_FALSE(life.changed);
}

TEST_CASE("a node that is younger than another for certain has no vote for one quarantine") {
  std::vector<NodeLife> lives{{"a", noon - 1h, false}, {"b", noon, false}};
  CHECK(vote_of(lives, 1, 10s, noon + 1s) == Vote::none);
  lives[0].born = noon - 2s;
  CHECK(vote_of(lives, 1, 10s, noon + 1s) == Vote::none);
  lives[0].born = noon - 1999ms;  // ages are told in whole seconds
  CHECK(vote_of(lives, 1, 10s, noon + 1s) == Vote::unopposed);
}

TEST_CASE("young nodes have no vote while one was never heard of, for it may be older") {
  std::vector<NodeLife> lives{{"a", noon, false}, {"b", noon, false}, {}};
  CHECK(vote_of(lives, 0, 10s, noon + 1s) == Vote::none);
  CHECK(vote_of(lives, 0, 10s, noon + 10s) == Vote::full);
  lives[2] = {"c", noon, false};
  CHECK(vote_of(lives, 0, 10s, noon + 1s) == Vote::unopposed);
}

TEST_CASE("nodes that are all equally young vote as long as nobody opposes") {
  std::vector<NodeLife> const lives{{"a", noon, false}, {"b", noon + 1s, false}, {"c", noon, false}};
  for (std::size_t node = 0; node < 3; ++node) {
    CHECK(vote_of(lives, node, 10s, noon + 2s) == Vote::unopposed);
    CHECK(vote_of(lives, node, 10s, noon + 11s) == Vote::full);
  }
}

TEST_CASE("a node that does not tell who it is counts in full") {
  std::vector<NodeLife> const lives{{"a", noon - 1h, false}, {}};
  CHECK(vote_of(lives, 1, 10s, noon) == Vote::full);
}
