// SPDX-License-Identifier: MIT
// What a Client, a held lock and a waiter cost in threads, descriptors, connections and memory: the table of docs/internals.md.
#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include <malloc.h>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/resources.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Clock;
using mortise::Lease;
using mortise::Lock;
using support::RedisServer;
using support::Waiting;
using support::wait_until;

namespace {

/// Bytes that are allocated right now; 0 where that cannot be told (a sanitizer's allocator, another C library).
std::int64_t allocated() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  return static_cast<std::int64_t>(::mallinfo2().uordblks);
#else
  return 0;
#endif
}

struct Use {
  std::int64_t threads{static_cast<std::int64_t>(support::threads_alive())};
  std::int64_t descriptors{static_cast<std::int64_t>(support::open_descriptors())};
  std::int64_t bytes{allocated()};
};

Use operator-(Use const& after, Use const& before) {
  Use difference;
  difference.threads = after.threads - before.threads;
  difference.descriptors = after.descriptors - before.descriptors;
  difference.bytes = after.bytes - before.bytes;
  return difference;
}

}  // namespace

TEST_CASE("what a Client, a held lock and a waiter cost is what the documentation says") {
  RedisServer server;
  server.keys();
  static_cast<void>(Client{server.uri()});  // what is made once for the process
  {
    Client warm{server.uri()};
    static_cast<void>(Lock{warm, "warm"}.try_acquire());
  }
  Use const nothing;
  std::optional<Client> redis;
  redis.emplace(server.uri());
  auto const unused = Use{} - nothing;
  CHECK(unused.threads == 0);
  CHECK(unused.descriptors <= 5);
  CHECK(unused.bytes < 65'536);

  { auto const first = Lock{*redis, "first", {.ttl = 300ms}}.acquire();
    std::this_thread::sleep_for(250ms); }  // renewed: the keeper is connected
  Use const idle;
  auto const used = idle - nothing;
  CHECK(used.threads == 2);
  CHECK(used.descriptors <= 5 + 3);
  CHECK(used.bytes < 131'072);
  CHECK(server.client_list().size() == 2);

  constexpr std::int64_t held_locks = 2000;
  std::vector<Lease> leases;
  leases.reserve(held_locks);
  Use const before_locks;
  for (std::int64_t i = 0; i < held_locks; ++i) leases.push_back(Lock{*redis, "held " + std::to_string(i), {.ttl = 60s}}.acquire());
  auto const locks = Use{} - before_locks;
  CHECK(locks.threads == 0);
  CHECK(locks.descriptors == 0);
  CAPTURE(locks.bytes / held_locks);
  CHECK(locks.bytes / held_locks < 1536);

  // Two names that are waited for by ten threads each: a connection and a bell for each name, nothing for the others.
  constexpr int waiters = 10;
  Use const before_waiters;
  std::deque<Waiting<bool>> waiting;
  for (int i = 0; i < 2 * waiters; ++i) {
    waiting.emplace_back([&, i] { return Lock{*redis, "held " + std::to_string(i % 2)}.acquire_for(60s).has_value(); });
    REQUIRE(waiting.back().asleep());
  }
  auto const lines = Use{} - before_waiters;
  CHECK(lines.threads == 2 * waiters);  // the test's own
  CHECK(lines.descriptors <= 2 * 2);
  CHECK(server.client_list().size() <= 4);
  CAPTURE(lines.bytes / (2 * waiters));
  CHECK(lines.bytes / (2 * waiters) < 8192);  // the test's threads among it

  leases.clear();
  for (auto& one : waiting) CHECK(one.get());
  redis.reset();
  waiting.clear();
  CHECK(support::wait_for_threads(static_cast<std::size_t>(nothing.threads)));
  CHECK(support::wait_for_descriptors(static_cast<std::size_t>(nothing.descriptors)));
}

TEST_CASE("ten thousand leases of one process are renewed by one thread, and none is lost") {
  RedisServer server;
  Client redis{server.uri()};
  auto const count = amount("leases", instrumented ? 1000 : 10'000);
  constexpr auto ttl = 4s;
  std::vector<Lease> leases;
  for (std::int64_t i = 0; i < count; ++i) leases.push_back(Lock{redis, "held " + std::to_string(i), {.ttl = ttl}}.try_acquire().value());
  auto const cpu = support::cpu_time();
  auto const own = support::thread_cpu_time();
  auto const began = Clock::now();
  milliseconds shortest = ttl;
  while (Clock::now() - began < ttl + 1s) {
    std::this_thread::sleep_for(50ms);
    for (auto const& lease : leases) shortest = std::min(shortest, lease.remaining());
  }
  auto const spent = (support::cpu_time() - cpu) - (support::thread_cpu_time() - own);
  CHECK(std::ranges::all_of(leases, [](auto const& lease) { return lease.held(); }));
  CHECK(shortest > 0ms);
  if (!instrumented) CHECK(spent < (Clock::now() - began) / 2);  // a few percent, usually
  CHECK(server.client_list().size() <= 3);
  std::int64_t released = 0;
  for (auto& lease : leases) released += lease.release() ? 1 : 0;
  CHECK(released == count);
}
