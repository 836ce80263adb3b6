// SPDX-License-Identifier: MIT
// One server is a single point of failure; five that must agree by majority are not. What pauses and clocks do to a lock they
// do to this one as well, and the fence does the same about it.
// Needs: redis nodes
// Guards: majority fence
//
// --without majority   one node alone: its death is the end of the lock.
// --without fence      the store does not look at the fence.

#include <sstream>
#include <vector>

#include <mortise/mortise.hpp>
#include <mortise/quorum.hpp>

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

enum class Mishap { pause, clock };

struct Marks {
  lesson::Mark a_wrote{}, jumped{}, b_wrote{}, a_is_through{};
};

std::vector<std::string> nodes_of(lesson::Play const& play) {
  std::istringstream words{play.nodes()};
  std::vector<std::string> nodes;
  for (std::string word; words >> word;) nodes.push_back(word);
  return nodes;
}

/// A node that was started a moment ago may have granted locks before and forgotten them, so it is not counted for a TTL.
/// The nodes of this lesson are new: there is nothing to forget.
/// And a machine may be busy: when two of five are dead, each of the three others has to answer in time.
mortise::QuorumOptions fresh() { return {.node_timeout = 500ms, .quarantine = 1ms}; }

bool write(lesson::Play const& play, std::string const& key, mortise::Fence fence) {
  mortise::Client store{play.redis()};
  bool const accepted = play.without("fence") ? lesson::PlainRedis{play.redis()}({"SET", key, lesson::who}) == "OK"
                                              : mortise::fenced_set(store, key, lesson::who, fence);
  lesson::say("writes with fence ", fence.value, accepted ? ": accepted" : ": REFUSED by the store, it has seen a newer one");
  return accepted;
}

/// A is paused past its lease, or its keys run out early at a majority. Either way B gets in, and A writes late.
void two_holders(lesson::Play const& play, std::vector<std::string> const& nodes, std::string const& name, Mishap mishap) {
  auto& marks = lesson::shared<Marks>();
  lesson::Process a{"A", [&] {
    mortise::Quorum quorum{nodes, fresh()};
    mortise::Lock lock{quorum, "lock:" + name, {.ttl = mishap == Mishap::pause ? 500ms : 10'000ms}};
    auto const lease = lock.acquire();
    lesson::say("has the lock at a majority of ", nodes.size());
    lesson::prove(write(play, "data:" + name, lease.fence()), "the holder's write is accepted");
    marks.a_wrote = true;
    lesson::pause_here();
    lesson::say(mishap == Mishap::pause ? "wakes" : "goes on", ": held() says ", lease.held() ? "true" : "false");
    lesson::prove(lease.held() == (mishap == Mishap::clock), "a holder knows of its own clock, and not of the servers'");
    lesson::prove(!write(play, "data:" + name, lease.fence()), "the late write is refused");
    marks.a_is_through = true;
  }};
  a.await_stop();
  if (mishap == Mishap::clock) {
    for (std::size_t node = 0; node < nodes.size() / 2 + 1; ++node) lesson::PlainRedis{nodes[node]}({"PEXPIRE", "lock:" + name, "1"});
    lesson::pass(20ms);
    lesson::say("the clocks of ", nodes.size() / 2 + 1, " nodes jump forward: the lock's time is over there");
  }
  lesson::Process b{"B", [&] {
    mortise::Quorum quorum{nodes, fresh()};
    mortise::Lock lock{quorum, "lock:" + name};
    auto const lease = lock.acquire_for(15s);
    lesson::prove(lease.has_value(), "B gets the lock at a majority");
    lesson::say("has the lock, too");
    lesson::prove(write(play, "data:" + name, lease->fence()), "the new holder's write is accepted");
    marks.b_wrote = true;
    lesson::await("A is through", marks.a_is_through);
  }};
  b.await_mark(marks.b_wrote);
  a.go_on();
  a.join();
  b.join();
}

/// A minority dies under the holder: nothing happens. A majority dies: nobody gets anything, and is told why.
void nodes_die(lesson::Play const& play, std::vector<std::string> const& nodes) {
  struct Deaths {
    lesson::Mark a_has_it{}, minority_died{}, a_released{}, b_had_it{}, majority_died{};
  };
  auto& marks = lesson::shared<Deaths>();
  auto const used = play.without("majority") ? std::vector{nodes.front()} : nodes;
  lesson::Process a{"A", [&] {
    mortise::Quorum quorum{used, fresh()};
    mortise::Lock lock{quorum, "lock:deaths", {.ttl = 2s}};
    // A majority is enough for a grant, but it is those who granted that must live on: the slack is in the others' grants.
    auto lease = lock.acquire();
    lesson::await("a grant of all nodes", [&] {
      std::size_t granted = 0;
      for (auto const& node : used) granted += lesson::PlainRedis{node}({"EXISTS", "lock:deaths"}) == "1" ? 1U : 0U;
      if (granted == used.size()) return true;
      lease.release();
      lease = lock.acquire();
      return false;
    });
    lesson::say("has the lock at all ", used.size(), ", TTL 2 s, renewed every third of it");
    marks.a_has_it = true;
    lesson::await("the deaths", marks.minority_died);
    lesson::pass(3s);
    lesson::say("one and a half TTLs later: held() says ", lease.held() ? "true" : "false");
    lesson::prove(lease.held(), "the holder keeps its lock through the death of two nodes");
    lease.release();
    marks.a_released = true;
  }};
  lesson::Process b{"B", [&] {
    mortise::Quorum quorum{used, fresh()};
    mortise::Lock lock{quorum, "lock:deaths"};
    lesson::await("the deaths", marks.minority_died);
    lesson::prove(!lock.acquire_for(1s), "B is refused while A holds");
    lesson::await("A's release", marks.a_released);
    auto lease = lock.acquire_for(10s);
    lesson::prove(lease.has_value(), "B gets the lock from the three that live");
    lesson::say("has the lock, granted by the three that live");
    lease->release();
    marks.b_had_it = true;
    lesson::await("the third death", marks.majority_died);
    try {
      static_cast<void>(lock.try_acquire());
      throw lesson::NotProved{"with two of five nodes nobody can tell"};
    } catch (mortise::Error const& error) {
      lesson::say("is told that nobody can tell: ", error.code().message());
    }
  }};
  auto const die = [&](std::size_t node) {
    try {
      lesson::PlainRedis{nodes[node]}({"SHUTDOWN", "NOSAVE"});
    } catch (std::runtime_error const&) {  // it does not answer: it is dead
    }
    lesson::say("node ", node, " dies");
  };
  a.await_mark(marks.a_has_it);
  die(0);
  die(1);
  marks.minority_died = true;
  a.await_mark(marks.a_released);
  b.await_mark(marks.b_had_it);
  die(2);
  marks.majority_died = true;
  a.join();
  b.join();
}

std::string quorum(lesson::Play const& play) {
  auto const nodes = nodes_of(play);
  lesson::say("act one: A is paused past its lease");
  two_holders(play, nodes, "paused", Mishap::pause);
  lesson::say("act two: the clocks of a majority jump");
  two_holders(play, nodes, "jumped", Mishap::clock);
  lesson::say("act three: nodes die");
  nodes_die(play, nodes);
  return "two of five nodes died and nobody noticed, the third was reported; a pause and a jump of clocks let two in all the same, "
         "and the store refused the older fence";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"majority", "fence"}, quorum); }
