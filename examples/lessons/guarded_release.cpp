// SPDX-License-Identifier: MIT
// The guarded release: only who holds the lock can release it, because the delete compares the token first.
// Needs: redis
// Guards: guard
//
// --without guard   B deletes the key without looking.

#include "plain_redis.hpp"
#include "stage.hpp"

namespace {

constexpr auto resource = "lock:res";
constexpr lesson::milliseconds ttl{10'000};

std::string guarded_release(lesson::Play const& play) {
  struct Marks {
    lesson::Mark a_has_it{}, b_tried{}, a_released{};
  };
  auto& marks = lesson::shared<Marks>();

  lesson::Process a{"A", [&] {
    lesson::PlainRedis redis{play.redis()};
    lesson::prove(redis.take(resource, "tokenA", ttl), "A gets the lock");
    lesson::say("has the lock under tokenA");
    marks.a_has_it = true;
    lesson::await("B's attempts", marks.b_tried);
    bool const released = redis.release(resource, "tokenA");
    lesson::say("releases with tokenA: ", released ? "1, the lock was its own" : "0, the lock was gone");
    lesson::prove(released, "A's lock stands until A itself releases it");
    marks.a_released = true;
  }};
  lesson::Process b{"B", [&] {
    lesson::PlainRedis redis{play.redis()};
    lesson::await("A has the lock", marks.a_has_it);
    if (play.without("guard")) {
      lesson::say("DEL ", resource, ": ", redis({"DEL", resource}), "   (the comparison left out)");
    } else {
      bool const released = redis.release(resource, "tokenB");
      lesson::say("releases with tokenB: ", released ? "1" : "0, nothing happens: that token does not hold the lock");
      lesson::prove(!released, "a release with another token answers 0");
    }
    bool const early = redis.take(resource, "tokenB", ttl);
    lesson::say("asks for the lock: ", early ? "OK, although A works" : "(nil), A has it still");
    marks.b_tried = true;
    lesson::prove(!early, "A's lock outlives B's attempt to release it");
    lesson::await("A's release", marks.a_released);
    lesson::prove(redis.take(resource, "tokenB", ttl), "B gets the lock after A's release");
    lesson::say("asks again: OK, B has the lock");
    redis.release(resource, "tokenB");
  }};
  b.join();
  a.join();
  return "a release with a token that does not hold the lock answered 0 and changed nothing; the holder's answered 1 and let B in";
}

}  // namespace

int main(int argc, char** argv) { return lesson::play(argc, argv, {"guard"}, guarded_release); }
