// SPDX-License-Identifier: MIT
// GET, compare, DEL is still wrong: the lock can run out and change hands between the two commands. In a script it cannot.
// Needs: redis
// Guards: script
//
// --without script   the second act sends GET and DEL as well.

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

using namespace std::chrono_literals;

// The guarded delete with its window held open for a good part of a second, by counting.
constexpr auto slow_script = R"lua(
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  for i = 1, 50000000 do end
  return redis.call('DEL', KEYS[1]))lua";

struct Marks {
  lesson::Mark a_has_it{}, a_has_looked{}, b_is_in{}, a_deleted{};
};

/// B asks again and again, from before A looks until it is in. Is the lock B's own after A's delete?
bool act(lesson::Play const& play, std::string const& resource, bool by_script) {
  auto& marks = lesson::shared<Marks>();
  auto& kept = lesson::shared<lesson::Mark>();
  lesson::Process a{"A", [&] {
    lesson::PlainRedis redis{play.redis()};
    auto const ttl = by_script ? 60ms : 300ms;
    lesson::prove(redis.take(resource, "tokenA", ttl), "A gets the lock");
    lesson::say("has the lock for ", ttl.count(), " ms");
    marks.a_has_it = true;
    if (by_script) {
      auto const sent = lesson::Clock::now();
      auto const answer = redis({"EVAL", slow_script, "1", resource, "tokenA"});
      lesson::say("one script compares, counts to fifty million and deletes: ", answer, ", in ", lesson::since(sent).count(),
                  " ms. Nobody came between, though the TTL was ", ttl.count(), " ms");
      lesson::prove(answer == "1" || answer == "0", "the script answers 1 or 0");
    } else {
      auto const holder = redis({"GET", resource});
      lesson::say("GET: ", holder, ". It is ours. Here the window opens: A is slow …");
      lesson::prove(holder == "tokenA", "A looks while it holds the lock");
      marks.a_has_looked = true;
      lesson::await("B is in", marks.b_is_in);
      lesson::say("… and sends its DEL: ", redis({"DEL", resource}));
    }
    marks.a_deleted = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::PlainRedis redis{play.redis()};
    lesson::await("A has the lock", marks.a_has_it);
    lesson::await("the lock", [&] { return redis.take(resource, "tokenB", 10s); });
    lesson::say("SET NX: OK, B has the lock");
    marks.b_is_in = true;
    lesson::await("A's delete", marks.a_deleted);
    auto const holder = redis({"GET", resource});
    lesson::say("GET: ", holder, holder == "tokenB" ? ", B has the lock still" : ". B's lock is gone under its hands");
    kept = holder == "tokenB";
  }};
  a.join();
  b.join();
  return kept;
}

std::string get_then_delete(lesson::Play const& play) {
  lesson::say("act one: GET, compare, DEL");
  bool const by_commands = act(play, "lock:commands", false);
  lesson::say("act two: the same in one script, with the same window held open inside");
  bool const by_script = act(play, "lock:script", !play.without("script"));
  lesson::prove(!by_commands, "in the window between GET and DEL the lock changed hands, and A deleted B's");
  lesson::prove(by_script, "B's lock outlives A's delete");
  return "between GET and DEL the lock ran out, B took it, and A deleted B's lock; a script runs as one, and B's lock stood";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"script"}, get_then_delete); }
