// SPDX-License-Identifier: MIT
// Fork: the child talks on nothing of its parent's, owns none of its leases, repeats none of its tokens.
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::ChildProcess;
using support::ExitStatus;
using support::RedisServer;

TEST_CASE("a child that closed all descriptors and opened others keeps those") {
  RedisServer server;
  Client redis{server.uri()};
  Lock lock{redis, "name", {.ttl = 300ms}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  std::this_thread::sleep_for(250ms);  // the keeper has its connection, too
  ChildProcess child{[&] {
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    for (int fd = 3; fd < 40; ++fd)
      if (::open("/dev/null", O_RDWR) != fd) return 1;
    Lock other{redis, "other"};
    if (!other.try_acquire()) return 2;
    struct stat null {};
    if (::stat("/dev/null", &null) != 0) return 3;
    for (int fd = 3; fd < 40; ++fd) {
      struct stat there {};
      if (::fstat(fd, &there) != 0 || there.st_rdev != null.st_rdev) return 4;
    }
    return 0;
  }};
  CHECK(child.wait().value() == ExitStatus::exited(0));
  CHECK(lease->held());
  CHECK(lease->release());
}

TEST_CASE("parent and children that use one Client get their own answers, draw their own tokens, and leave the parent's lease alone") {
  RedisServer server;
  constexpr int children = 4;
  // The fences of each name lie in a range of their own: an answer to one is no answer to another.
  auto const range = [](int who) { return static_cast<std::uint64_t>(3 + who) * 1'000'000'000'000'000; };
  auto const name_of = [](int who) { return "name " + std::to_string(who); };
  for (int who = 0; who <= children; ++who)
    REQUIRE(server.command({"SET", "{" + name_of(who) + "}:~fence", std::to_string(range(who))}).is_ok());
  Client redis{server.uri()};
  Lock held{redis, "held by the parent", {.ttl = 600ms}};
  auto lease = held.try_acquire();
  REQUIRE(lease);
  auto const token = owner(server, "held by the parent");
  support::SharedCounters tokens{static_cast<std::size_t>((children + 1) * 200)};
  auto const duration = milliseconds{amount("fork_ms", 1000)};

  auto const work = [&](int who) {
    RedisServer& asked = server;
    Lock lock{redis, name_of(who), {.ttl = 300ms}};
    auto const end = mortise::Clock::now() + duration;
    for (std::size_t i = 0; mortise::Clock::now() < end; ++i) {
      auto mine = lock.try_acquire();
      if (!mine) return 1;
      if (mine->fence().value / 1'000'000'000'000'000 != range(who) / 1'000'000'000'000'000) return 2;
      if (i < 200) tokens[static_cast<std::size_t>(who) * 200 + i] = static_cast<std::int64_t>(std::hash<std::string>{}(owner(asked, name_of(who))));
      if (i % 50 == 0) std::this_thread::sleep_for(150ms);  // renewed
      if (!mine->held() || !mine->confirm()) return 3;
      if (held.try_acquire()) return 4;  // the parent has it
      if (!mine->release()) return 5;
    }
    return 0;
  };
  std::deque<ChildProcess> family;
  for (int who = 1; who <= children; ++who)
    family.emplace_back([&, who] { return work(who); }, who % 2 == 0 ? ChildProcess::Ending::orderly : ChildProcess::Ending::at_once);
  // The parent holds what its children ask for: so its own turn with that name is left out.
  {
    Lock lock{redis, name_of(0), {.ttl = 300ms}};
    auto const end = mortise::Clock::now() + duration;
    for (std::size_t i = 0; mortise::Clock::now() < end; ++i) {
      auto mine = lock.try_acquire();
      REQUIRE(mine);
      REQUIRE(mine->fence().value / 1'000'000'000'000'000 == 3);
      if (i < 200) tokens[i] = static_cast<std::int64_t>(std::hash<std::string>{}(owner(server, name_of(0))));
      REQUIRE(mine->confirm());
      REQUIRE(lease->held());
      REQUIRE(mine->release());
    }
  }
  for (auto& child : family) CHECK(child.wait().value() == ExitStatus::exited(0));
  CHECK(lease->held());
  CHECK(lease->confirm());
  CHECK(owner(server, "held by the parent") == token);
  std::set<std::int64_t> seen;
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] != 0) {
      ++drawn;
      seen.insert(tokens[i]);
    }
  CHECK(drawn > children);
  CHECK(seen.size() == drawn);
  CHECK(lease->release());
}

TEST_CASE("however a child ends or cleans up, its parent's lease, lock and renewal stand") {
  RedisServer server;
  std::optional<Client> redis;
  redis.emplace(server.uri());
  std::optional<Lock<>> lock;
  lock.emplace(*redis, "name", mortise::LockOptions{.ttl = 500ms});
  Lock guarded{*redis, "guarded", {.ttl = 500ms}};
  guarded.lock();
  std::optional<mortise::Lease> lease = lock->try_acquire();
  REQUIRE(lease);
  auto const token = owner(server, "name");
  std::deque<ChildProcess> family;
  auto const ends = [&](auto body, ChildProcess::Ending ending) { family.emplace_back(body, ending); };
  using Ending = ChildProcess::Ending;
  ends([] { return 0; }, Ending::at_once);
  ends([] { return 0; }, Ending::orderly);  // exit(): static destructors, while the parent holds
  ends([&] {  // destructors run
    bool const inert = !lease->held() && !lease->release() && !lease->confirm() && !lease->extend();
    guarded.unlock();
    lease.reset();
    lock.reset();
    redis.reset();
    return inert ? 0 : 1;
  }, Ending::orderly);
  ends([&] {  // uses what it has inherited, and cleans up
    Lock other{*redis, "other", {.ttl = 500ms}};
    if (!other.acquire_for(10s)) return 1;
    guarded.unlock();
    lease.reset();
    lock.reset();
    redis.reset();
    return 0;
  }, Ending::orderly);
  ends([&]() -> int {  // a child's child
    ChildProcess grandchild{[&] {
      lease.reset();
      redis.reset();
      return 0;
    }, Ending::orderly};
    return grandchild.wait().value() == ExitStatus::exited(0) ? 0 : 1;
  }, Ending::at_once);
  for (auto& child : family) CHECK(child.wait().value() == ExitStatus::exited(0));
  std::this_thread::sleep_for(1200ms);  // two TTLs: it is renewed still
  CHECK(lease->held());
  CHECK(owner(server, "name") == token);
  CHECK(guarded.lease().held());
  CHECK(lease->release());
  guarded.unlock();
}

TEST_CASE("a child that was forked at any moment of its parent's work can use the Client", support::forking_beside_busy_threads) {
  RedisServer server;
  Client redis{server.uri()};
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 2; ++t)
    busy.emplace_back([&, t] {
      for (int i = 0; !over; ++i) {
        Lock lock{redis, "busy " + std::to_string((t + i) % 3), {.ttl = 30ms}};
        try {
          auto const lease = lock.acquire_for(1s);
          if (i % 4 == 0) std::this_thread::sleep_for(12ms);  // renewed: the keeper is at work
        } catch (mortise::Error const& error) {  // a machine that has no time for the server either
          if (!error.retryable()) throw;
        }
      }
    });
  for (std::int64_t i = 0, forks = amount("forks", 40); i < forks; ++i) {
    ChildProcess child{[&] {
      Lock lock{redis, "child", {.ttl = 10s}};
      auto lease = lock.acquire_for(10s);
      return lease && lease->confirm() && lease->release() ? 0 : 1;
    }, i % 2 == 0 ? ChildProcess::Ending::at_once : ChildProcess::Ending::orderly};
    auto const status = child.wait(20s);
    REQUIRE(status);  // no deadlock on a mutex that was locked at the fork
    REQUIRE(*status == ExitStatus::exited(0));
  }
  over = true;
  for (auto& thread : busy) thread.join();
}
