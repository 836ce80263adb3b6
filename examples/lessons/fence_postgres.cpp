// SPDX-License-Identifier: MIT
// The fence at PostgreSQL. The play is in fence_play.hpp.
// Needs: redis postgresql
// Guards: fence same
//
// --without fence   the UPDATE does not look at the fence.
// --without same    `<` in place of `<=`: the holder's second write is refused.

#include "fence_play.hpp"
#include "postgres.hpp"

namespace {

class Database {
 public:
  explicit Database(lesson::Play const& play) : connection_{play.postgres()} {}
  long execute(std::string const& sql) { return static_cast<long>(connection_(sql).affected()); }
  std::string cell(std::string const& sql) { return connection_(sql).text(0); }

 private:
  lesson::Postgres connection_;
};

}  // namespace

int main(int argc, char** argv) {
  return lesson::play(argc, argv, {"fence", "same"},
                      [](auto const& play) { return lesson::play_fence<lesson::FencedTable<Database>>(play, "PostgreSQL"); });
}
