// SPDX-License-Identifier: MIT
// Processes that take turns on one name, with an unguarded read-modify-write of a file inside.
#include <deque>
#include <fstream>

#include "lock_server.hpp"
#include "support/processes.hpp"
#include "support/temporary_folder.hpp"

using support::Barrier;
using support::ChildProcess;
using support::ExitStatus;

namespace {

/// A number and the fence of whoever wrote it last, in a file that nothing guards.
struct Ledger {
  std::filesystem::path file;

  struct Entry {
    long count{0};
    std::uint64_t fence{0};
  };

  Entry read() const {
    Entry entry;
    std::ifstream{file} >> entry.count >> entry.fence;
    return entry;
  }
  void write(Entry const& entry) const { std::ofstream{file} << entry.count << ' ' << entry.fence << '\n'; }
};

/// Adds one to the ledger, turn by turn; 1 as soon as a fence does not rise.
template <class Turn>
int add(Ledger const& ledger, int turns, Turn&& turn) {
  for (int i = 0; i < turns; ++i) {
    bool rises = true;
    turn([&](Fence fence) {
      auto entry = ledger.read();
      rises = fence.value > entry.fence;
      ledger.write({entry.count + 1, fence.value});
    });
    if (!rises) return 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("eight processes take a thousand turns each: the count is exact, fences rise strictly, only the counter is left") {
  LockServer redis;
  support::TemporaryFolder const folder;
  Ledger const ledger{folder.path() / "count"};
  constexpr int processes = 8;
  constexpr int turns = instrumented ? 100 : 1000;
  ledger.write({});
  Barrier start{processes};
  auto const took = time_of([&] {
    std::deque<ChildProcess> children;
    for (int i = 0; i < processes; ++i)
      children.emplace_back([&, i] {
        Client client{i % 2 == 0 ? redis.unix_uri() : redis.uri()};
        Lock lock{client, "lock"};
        if (!start.arrive_and_wait()) return 2;
        if (i % 4 < 2) return add(ledger, turns, [&](auto&& work) { work(lock.acquire().fence()); });
        return add(ledger, turns, [&](auto&& work) {
          std::scoped_lock const guard{lock};
          work(lock.fence());
        });
      });
    for (auto& child : children) CHECK(child.wait(110s) == ExitStatus::exited(0));
    return 0;
  });
  UNSCOPED_INFO(processes << " x " << turns << " turns in " << took.count() / 1'000'000 << " ms");
  CHECK(ledger.read().count == processes * turns);
  CHECK(std::stoull(redis.get(fence_key("lock")).value()) >= ledger.read().fence);
  CHECK(wait_until([&] { return redis.keys() == std::vector<std::string>{fence_key("lock")}; }, 10s));
}

TEST_CASE("processes that only try take turns too, and none of them is ever inside with another") {
  LockServer redis;
  support::TemporaryFolder const folder;
  Ledger const ledger{folder.path() / "count"};
  constexpr int processes = 4;
  constexpr int turns = 50;
  ledger.write({});
  std::deque<ChildProcess> children;
  for (int i = 0; i < processes; ++i)
    children.emplace_back([&] {
      Client client{redis.unix_uri()};
      Lock lock{client, "lock"};
      return add(ledger, turns, [&](auto&& work) {
        for (;;) {
          if (auto const lease = lock.try_acquire()) return work(lease->fence());
          std::this_thread::sleep_for(1ms);
        }
      });
    });
  for (auto& child : children) CHECK(child.wait(110s) == ExitStatus::exited(0));
  CHECK(ledger.read().count == processes * turns);
  CHECK(redis.keys() == std::vector<std::string>{fence_key("lock")});
}
