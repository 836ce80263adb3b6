// SPDX-License-Identifier: MIT
// The side that is guarded: fenced_set on a Redis key, a gate in a resource server, and the bare counter.
#include <atomic>
#include <thread>

#include "lock_server.hpp"

using mortise::fenced_set;
using mortise::FenceGate;
using mortise::FencingCounter;

TEST_CASE("fenced_set refuses an older fence, takes the same and newer ones, and the value is read by GET") {
  LockServer redis;
  Client client{redis.unix_uri()};
  CHECK(fenced_set(client, "key", "one", Fence{10}));
  CHECK(redis.get("key") == "one");
  CHECK(fenced_set(client, "key", "two", Fence{10}));
  CHECK(redis.get("key") == "two");
  CHECK(fenced_set(client, "key", "three", Fence{11}));
  CHECK_FALSE(fenced_set(client, "key", "late", Fence{10}));
  CHECK(redis.get("key") == "three");
  CHECK(redis.pttl("key") == -1);
  CHECK(redis.command({"TYPE", "key"}).text == "string");
}

TEST_CASE("fenced_set tells fences apart up to the last one, and any bytes are a key and a value") {
  LockServer redis;
  Client client{redis.unix_uri()};
  constexpr auto last = (std::uint64_t{1} << 53) - 1;
  std::string const bytes{"\0 \r\n\xff{}", 7};
  CHECK(fenced_set(client, bytes, bytes, Fence{last - 1}));
  CHECK(fenced_set(client, bytes, "", Fence{last}));
  CHECK_FALSE(fenced_set(client, bytes, bytes, Fence{last - 1}));
  CHECK(redis.get(bytes) == "");
}

TEST_CASE("the keys of fenced_set do not know each other") {
  LockServer redis;
  Client client{redis.unix_uri()};
  CHECK(fenced_set(client, "x", "a", Fence{5}));
  CHECK(fenced_set(client, "{x}", "b", Fence{3}));
  CHECK(fenced_set(client, "y", "c", Fence{1}));
  CHECK(redis.get("x") == "a");
  CHECK(redis.get("{x}") == "b");
}

TEST_CASE("a stale holder's write is refused once its successor has written") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Lock lock{client, "lock"};
  auto stale = lock.acquire();
  redis.command({"DEL", "lock"});
  auto const successor = lock.acquire();
  CHECK(fenced_set(client, "data", "by the successor", successor.fence()));
  CHECK_FALSE(fenced_set(client, "data", "by the stale one", stale.fence()));
  CHECK(redis.get("data") == "by the successor");
}

TEST_CASE("fenced_set survives SCRIPT FLUSH, and names a key that cannot be written") {
  LockServer redis;
  Client client{redis.unix_uri()};
  CHECK(fenced_set(client, "key", "one", Fence{1}));
  redis.flush_scripts();
  CHECK(fenced_set(client, "key", "two", Fence{2}));
  redis.command({"RPUSH", "{list}:~guard", "a"});
  CHECK(errc_of([&] { return fenced_set(client, "list", "value", Fence{1}); }) == Errc::wrong_type);
  CHECK_FALSE(redis.exists("list"));
}

TEST_CASE("a fencing counter counts on from the key it is given, and knows its last number") {
  LockServer redis;
  Client client{redis.unix_uri()};
  FencingCounter counter{client, "counter"};
  CHECK_FALSE(counter.last());
  CHECK(counter.next() == Fence{1});
  CHECK(counter.next() == Fence{2});
  CHECK(counter.last() == Fence{2});
  CHECK(FencingCounter{client, "counter"}.next() == Fence{3});
  CHECK(redis.get("counter") == "3");
  CHECK(redis.pttl("counter") == -1);
}

TEST_CASE("a fencing counter is exact up to 2^53 - 1 and an error beyond, also at the end of 64 bits") {
  LockServer redis;
  Client client{redis.unix_uri()};
  FencingCounter counter{client, "counter"};
  redis.set("counter", "9007199254740989");
  CHECK(counter.next().value == 9'007'199'254'740'990);
  CHECK(counter.next().value == 9'007'199'254'740'991);
  CHECK(counter.last() == Fence{9'007'199'254'740'991});
  for (int i = 0; i < 2; ++i) {
    auto const error = error_of([&] { return counter.next(); });
    REQUIRE(error);
    CHECK(error->errc() == Errc::server_refused);
    CHECK_FALSE(error->retryable());
    CHECK_THAT(error->what(), contains("counter") && contains("2^53"));
  }
  redis.set("counter", "9223372036854775807");
  CHECK(errc_of([&] { return counter.next(); }) == Errc::server_refused);
  CHECK(redis.get("counter") == "9223372036854775807");
}

TEST_CASE("a fencing counter's key that holds no counter is an error") {
  LockServer redis;
  Client client{redis.unix_uri()};
  FencingCounter counter{client, "counter"};
  redis.set("counter", "seven");
  CHECK(errc_of([&] { return counter.last(); }) == Errc::wrong_type);
  CHECK(errc_of([&] { return counter.next(); }));
  redis.command({"DEL", "counter"});
  redis.command({"RPUSH", "counter", "1"});
  CHECK(errc_of([&] { return counter.last(); }) == Errc::wrong_type);
  CHECK(errc_of([&] { return counter.next(); }) == Errc::wrong_type);
  redis.command({"DEL", "counter"});
  redis.set("counter", "-5");
  CHECK(errc_of([&] { return counter.next(); }) == Errc::server_refused);
}

TEST_CASE("numbers drawn by many threads are all different") {
  LockServer redis;
  Client client{redis.unix_uri()};
  constexpr int threads = 4;
  constexpr int draws = 100;
  std::vector<std::vector<Fence>> drawn(threads);
  {
    std::vector<std::jthread> workers;
    for (auto& mine : drawn)
      workers.emplace_back([&] {
        FencingCounter counter{client, "counter"};
        for (int i = 0; i < draws; ++i) mine.push_back(counter.next());
      });
  }
  std::vector<Fence> all;
  for (auto const& mine : drawn) {
    CHECK(std::ranges::is_sorted(mine));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());
  CHECK(all.back() == Fence{threads * draws});
}

TEST_CASE("a gate admits the newest fence and its equals, whatever threads come in whatever order") {
  FenceGate gate;
  CHECK(gate.newest() == Fence{0});
  CHECK(gate.admit(Fence{0}));
  CHECK(gate.admit(Fence{5}));
  CHECK(gate.admit(Fence{5}));
  CHECK_FALSE(gate.admit(Fence{4}));
  CHECK(gate.newest() == Fence{5});
  CHECK(gate.admit(Fence{~std::uint64_t{0}}));
  CHECK_FALSE(gate.admit(Fence{6}));

  FenceGate shared;
  constexpr int threads = 4;
  constexpr std::uint64_t most = 20'000;
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> workers;
    for (std::uint64_t offset = 1; offset <= threads; ++offset)
      workers.emplace_back([&, offset] {
        for (auto fence = offset; fence <= most; fence += threads) {
          auto const before = shared.newest();
          bool const admitted = shared.admit(Fence{fence});
          if (admitted && before > Fence{fence}) ++wrong;
          if (shared.newest() < Fence{fence} || shared.newest() < before) ++wrong;
        }
      });
  }
  CHECK(wrong == 0);
  CHECK(shared.newest() == Fence{most});
}
