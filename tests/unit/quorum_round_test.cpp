// SPDX-License-Identifier: MIT
// The decisions of a quorum, without a server: when an acquisition is granted, raised, failed and undone, and what a keep or
// release comes to.
#include <vector>

#include <mortise/detail/quorum_round.hpp>

#include "support/catch.hpp"

using mortise::detail::AcquireRound;
using mortise::detail::Answer;
using mortise::detail::majority;
using mortise::detail::TallyRound;
using mortise::detail::Verb;
using mortise::detail::Vote;
using Outcome = AcquireRound::Outcome;

namespace {

/// A round to which all nodes are invited and written.
struct Asked : AcquireRound {
  Asked(std::size_t nodes, std::size_t needed, std::vector<Vote> votes = {}) : AcquireRound{nodes, needed}, count{nodes} {
    votes.resize(nodes, Vote::full);
    for (std::size_t node = 0; node < nodes; ++node) invite(node, votes[node], 5000);
    begin();
    for (std::size_t node = 0; node < nodes; ++node)
      if (votes[node] != Vote::none) CHECK(take_request(node) == Verb::acquire);
  }
  void grant(std::size_t node, std::int64_t fence) { answered(node, Verb::acquire, Answer{true, fence, {}}); }
  void busy(std::size_t node) { answered(node, Verb::acquire, Answer{false, 500, {}}); }
  void keep(std::size_t node, bool yes) { answered(node, Verb::keep, Answer{yes, 0, {}}); }
  using AcquireRound::busy;

  /// By node: what is to be written now. 'a', 'k', 'r', or '-'.
  std::string due() {
    std::string all;
    for (std::size_t node = 0; node < count; ++node) {
      auto const verb = take_request(node);
      all += !verb ? '-' : *verb == Verb::acquire ? 'a' : *verb == Verb::keep ? 'k' : 'r';
    }
    return all;
  }
  std::size_t count;
};

}  // namespace

TEST_CASE("a majority is more than half, and an even node adds none") {
  CHECK(majority(1) == 1);
  CHECK(majority(2) == 2);
  CHECK(majority(3) == 2);
  CHECK(majority(4) == 3);
  CHECK(majority(5) == 3);
}

TEST_CASE("a quorum of equal fences is a grant, without waiting for the others") {
  Asked round{3, 2};
  round.grant(2, 7);
  CHECK(round.outcome() == Outcome::open);
  round.grant(0, 7);
  CHECK(round.outcome() == Outcome::granted);
  CHECK(round.fence().value == 7);
  CHECK(round.due() == "---");
  round.busy(1);  // late: changes nothing
  CHECK(round.outcome() == Outcome::granted);
}

TEST_CASE("equal fences need not be the largest") {
  Asked round{5, 3};
  round.grant(0, 9);
  round.grant(1, 7);
  round.grant(2, 7);
  CHECK(round.outcome() == Outcome::open);  // three grants of two fences: being raised
  CHECK(round.due() == "kkk--");
  CHECK(round.fence().value == 9);
  Asked alike{5, 3};
  alike.grant(0, 7);
  alike.grant(1, 7);
  alike.busy(2);
  alike.busy(3);
  alike.grant(4, 7);
  CHECK(alike.outcome() == Outcome::granted);
}

TEST_CASE("different fences are raised to the largest at the nodes that granted, and a quorum of them has to agree") {
  Asked round{3, 2};
  round.grant(0, 7);
  round.grant(1, 9);
  CHECK(round.outcome() == Outcome::open);
  CHECK(round.fence().value == 9);
  CHECK(round.due() == "kk-");
  SECTION("both do") {
    round.keep(0, true);
    CHECK(round.outcome() == Outcome::open);
    round.keep(1, true);
    CHECK(round.outcome() == Outcome::granted);
    CHECK(round.fence().value == 9);
  }
  SECTION("one lost it meanwhile, a late grant below the fence takes its place") {
    round.keep(0, false);
    CHECK(round.outcome() == Outcome::open);
    round.grant(2, 8);
    CHECK(round.due() == "--k");
    round.keep(1, true);
    round.keep(2, true);
    CHECK(round.outcome() == Outcome::granted);
  }
  SECTION("one lost it, and the late grant is beyond the fence: failed, undone at all three") {
    round.keep(0, false);
    round.grant(2, 10);
    CHECK(round.outcome() == Outcome::failed);
    CHECK(round.due() == "rrr");
    CHECK(round.busy());
  }
  SECTION("one says nothing any more") {
    round.lost(0);
    round.busy(2);
    CHECK(round.outcome() == Outcome::failed);
    CHECK(round.due() == "rr-");
  }
}

TEST_CASE("a failure is undone wherever something may have been granted, and nowhere else") {
  Asked round{5, 3};
  round.busy(0);
  round.grant(1, 7);
  round.refused(2, Verb::acquire);
  CHECK(round.outcome() == Outcome::open);
  round.busy(3);
  CHECK(round.outcome() == Outcome::failed);
  CHECK(round.due() == "-r--r");  // the last one's answer is still to come: the RELEASE goes behind it
  CHECK_FALSE(round.undone());
  round.grant(4, 7);
  CHECK(round.outcome() == Outcome::failed);
  CHECK(round.due() == "-----");
  round.answered(1, Verb::release, Answer{true, -2, {}});
  round.answered(4, Verb::release, Answer{true, -2, {}});
  CHECK(round.undone());
  CHECK(round.busy());
}

TEST_CASE("what a node did that fell silent is unknown: it is undone there too, and its doubt is told") {
  Asked round{3, 2};
  round.lost(0);
  CHECK(round.doubtful_at(0));
  round.lost(1);
  CHECK(round.outcome() == Outcome::failed);
  CHECK_FALSE(round.busy());
  CHECK(round.due() == "rrr");
}

TEST_CASE("busy is an answer of so many nodes as are needed, anything less is no quorum") {
  Asked contended{5, 3};
  contended.busy(0);
  contended.busy(1);
  contended.grant(2, 7);
  contended.lost(3);
  CHECK(contended.outcome() == Outcome::failed);
  CHECK(contended.busy());
  Asked broken{5, 3};
  broken.busy(0);
  broken.busy(1);
  broken.lost(3);
  CHECK(broken.outcome() == Outcome::failed);
  CHECK_FALSE(broken.busy());
  Asked refusing{3, 2};
  refusing.grant(0, 7);
  refusing.refused(1, Verb::acquire);
  refusing.refused(2, Verb::acquire);
  CHECK_FALSE(refusing.busy());
}

TEST_CASE("with too few nodes invited nothing is asked at all") {
  AcquireRound round{3, 2};
  round.invite(0, Vote::full);
  round.begin();
  CHECK(round.outcome() == Outcome::failed);
  CHECK_FALSE(round.take_request(0));
  CHECK(round.undone());
}

TEST_CASE("out of time, an open round fails and is undone, a granted one stands until it is renounced") {
  Asked open{3, 2};
  open.grant(0, 7);
  open.give_up();
  CHECK(open.outcome() == Outcome::failed);
  CHECK(open.due() == "rrr");
  Asked granted{3, 2};
  granted.grant(0, 7);
  granted.grant(1, 7);
  granted.give_up();
  CHECK(granted.outcome() == Outcome::granted);
  granted.renounce();
  CHECK(granted.due() == "rrr");
}

TEST_CASE("the vote of a node that may have lost its data is void") {
  Asked round{3, 2, {Vote::full, Vote::full, Vote::none}};
  round.grant(0, 7);
  round.busy(1);
  CHECK(round.outcome() == Outcome::failed);
}

TEST_CASE("votes of nodes as new as the whole deployment count when all have answered and none knows a lease older than they are") {
  std::vector const young(3, Vote::unopposed);
  Asked round{3, 2, young};
  CHECK(round.looks());
  round.grant(1, 7);
  round.grant(2, 7);
  CHECK(round.outcome() == Outcome::open);
  SECTION("the last one grants as well") {
    round.grant(0, 7);
    CHECK(round.outcome() == Outcome::granted);
  }
  SECTION("the last one is out of reach") {
    round.lost(0);
    CHECK(round.outcome() == Outcome::granted);
  }
  SECTION("the last one knows a holder from later on: that one would be known to the others too") {
    round.noted(0, 5001);
    round.busy(0);
    CHECK(round.outcome() == Outcome::granted);
  }
  SECTION("the last one is in the hands of somebody who draws no fences") {
    round.noted(0, 0);
    round.busy(0);
    CHECK(round.outcome() == Outcome::granted);
  }
  SECTION("the last one knows an older holder: the others may have forgotten theirs") {
    round.noted(0, 4999);
    round.busy(0);
    CHECK(round.outcome() == Outcome::failed);
    CHECK(round.due() == "-rr");
    CHECK(round.busy());
  }
}

TEST_CASE("a larger quorum needs more, and one node decides for itself") {
  Asked four{4, 3};
  four.grant(0, 7);
  four.grant(1, 7);
  CHECK(four.outcome() == Outcome::open);
  four.grant(3, 7);
  CHECK(four.outcome() == Outcome::granted);
  Asked one{1, 1};
  one.grant(0, 7);
  CHECK(one.outcome() == Outcome::granted);
  Asked taken{1, 1};
  taken.busy(0);
  CHECK(taken.outcome() == Outcome::failed);
  CHECK(taken.busy());
}

TEST_CASE("a lease is kept when a quorum says so, and lost when no quorum can any more") {
  TallyRound kept{Verb::keep, 5, 3};
  kept.answered(true);
  kept.failed();
  kept.answered(true);
  CHECK_FALSE(kept.verdict());
  kept.answered(true);
  CHECK(kept.verdict() == true);

  TallyRound lost{Verb::keep, 5, 3};
  lost.answered(true);
  lost.answered(true);
  lost.answered(false);
  lost.answered(false);
  CHECK_FALSE(lost.verdict());
  lost.answered(false);
  CHECK(lost.verdict() == false);

  TallyRound unknown{Verb::keep, 3, 2};
  unknown.answered(true);
  unknown.failed();
  unknown.failed();
  CHECK_FALSE(unknown.verdict());
  CHECK(unknown.decided());
}

TEST_CASE("a release is ours unless so many nodes deny it that the lease cannot have stood") {
  TallyRound released{Verb::release, 3, 2};
  released.answered(true);
  released.answered(false);
  CHECK_FALSE(released.verdict());
  released.failed();
  CHECK(released.verdict() == true);

  TallyRound lost{Verb::release, 3, 2};
  lost.answered(false);
  lost.answered(false);
  CHECK(lost.verdict() == false);

  TallyRound unknown{Verb::release, 5, 3};
  unknown.answered(true);
  unknown.answered(true);
  for (int i = 0; i < 3; ++i) unknown.failed();
  CHECK_FALSE(unknown.verdict());
}
