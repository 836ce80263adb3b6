// SPDX-License-Identifier: MIT
// The fence at Redis, when Redis itself is the guarded resource. The play is in fence_play.hpp.
// Needs: redis
// Guards: fence
//
// --without fence   a plain SET.

#include "fence_play.hpp"
#include "plain_redis.hpp"

namespace {

class Database {
 public:
  static constexpr bool transactions = false;
  explicit Database(lesson::Play const& play) : client_{play.redis()}, plain_{play.redis()} {}

  void create() {}
  /// One script writes the value and keeps the newest fence beside it; an equal fence passes, as with `<=`.
  bool write(lesson::Write const& what, mortise::Fence fence, lesson::Accept accept) {
    if (accept == lesson::Accept::any) return plain_({"SET", key, what.writer}) == "OK";
    return mortise::fenced_set(client_, key, what.writer, fence);
  }
  std::string last_writer() { return plain_({"GET", key}); }

 private:
  static constexpr auto key = "account:1";
  mortise::Client client_;
  lesson::PlainRedis plain_;
};

}  // namespace

int main(int argc, char** argv) {
  return lesson::play(argc, argv, {"fence"}, [](auto const& play) { return lesson::play_fence<Database>(play, "Redis"); });
}
