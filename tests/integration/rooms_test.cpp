// SPDX-License-Identifier: MIT
// Readers, writers and permits on a real server: the dead, the starving, the keys that are left, and what goes over the wire.
#include <atomic>
#include <deque>
#include <optional>
#include <thread>

#include "lock_server.hpp"
#include "support/processes.hpp"
#include "support/waiting.hpp"

using mortise::Semaphore;
using mortise::SharedLock;
using support::Channel;
using support::ChildProcess;
using support::Waiting;

namespace {

/// A process that takes something, says so, and holds it, renewing, until it is killed.
template <class Take>
auto until_killed(LockServer& redis, Take take) {
  return [&redis, take](Channel& parent) {
    Client client{redis.unix_uri()};
    auto const lease = take(client);
    parent.send_line("in");
    parent.read_line(1h);
    return 0;
  };
}

/// Keys but for fence counters.
std::vector<std::string> leftovers(LockServer& redis) {
  auto keys = redis.keys();
  std::erase_if(keys, [](auto const& key) { return key.ends_with(":~fence"); });
  return keys;
}

}  // namespace

TEST_CASE("a killed reader is out one TTL after its death, though other readers are renewed and come and go") {
  LockServer redis;
  ChildProcess victim{until_killed(redis, [](Client& client) { return SharedLock{client, "lock", {.ttl = 1s}}.acquire_shared(); })};
  REQUIRE(victim.read_line());
  Client client{redis.unix_uri()};
  SharedLock lock{client, "lock", {.ttl = 1s}};
  auto alive = lock.acquire_shared();
  victim.kill();
  auto const entries = [&] { return redis.command({"ZCARD", "lock"}).integer; };  // one of them says what the room is
  CHECK(entries() == 3);
  CHECK(wait_until([&] {
    static_cast<void>(lock.try_acquire_shared());  // another comes and goes
    return entries() == 2;
  }, 10s, 50ms));
  CHECK(alive.held());
  CHECK_FALSE(lock.try_acquire());
  alive.release();
  CHECK(lock.acquire_for(10s));
}

TEST_CASE("permits of killed processes are back after one TTL, and a waiter gets one") {
  LockServer redis;
  auto const take = [](Client& client) { return Semaphore{client, "permits", 2, {.ttl = 1s}}.acquire(); };
  ChildProcess one{until_killed(redis, take)};
  ChildProcess two{until_killed(redis, take)};
  REQUIRE(one.read_line());
  REQUIRE(two.read_line());
  Client client{redis.unix_uri()};
  Semaphore permits{client, "permits", 2};
  CHECK_FALSE(permits.try_acquire());
  Waiting waiting{[&] { return permits.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  one.kill();
  CHECK(waiting.over_within(6s));
  auto const lease = waiting.get();
  CHECK_FALSE(permits.try_acquire());
  two.kill();
  CHECK(permits.acquire_for(6s));
}

TEST_CASE("a killed waiter does not keep the others out: its place is skipped") {
  LockServer redis;
  Client client{redis.unix_uri()};
  SharedLock lock{client, "lock"};
  auto lease = lock.acquire();
  {
    ChildProcess one{until_killed(redis, [](Client& mine) { return SharedLock{mine, "lock"}.acquire(); })};
    ChildProcess two{until_killed(redis, [](Client& mine) { return SharedLock{mine, "lock"}.acquire(); })};
    REQUIRE(redis.has_blocked(2));
  }
  Waiting behind{[&] { return lock.acquire_shared(); }};
  REQUIRE(redis.has_blocked(1));
  lease.release();
  CHECK(behind.over_within(10s));
  CHECK(behind.get().held());
}

TEST_CASE("a writer is not kept out by readers of whom one is always inside") {
  LockServer redis;
  Client client{redis.unix_uri()};
  std::atomic<bool> over{false};
  std::atomic<int> reads{0};
  std::deque<std::jthread> readers;
  for (int i = 0; i < 8; ++i)
    readers.emplace_back([&, i] {
      SharedLock lock{client, "lock"};
      std::this_thread::sleep_for(6ms * i);
      while (!over) {
        auto const lease = lock.acquire_shared();
        std::this_thread::sleep_for(50ms);
        ++reads;
      }
    });
  REQUIRE(wait_until([&] { return reads > 8; }));
  SharedLock lock{client, "lock"};
  for (int i = 0; i < 10; ++i) {
    auto const took = time_of([&] { return lock.acquire_for(30s).value(); });
    UNSCOPED_INFO("a writer waited " << took.count() / 1'000'000 << " ms");
    CHECK(took < 5s);
  }
  auto const before = reads.load();
  CHECK(wait_until([&] { return reads > before + 8; }));  // nor are they
  over = true;
}

TEST_CASE("a reader is not kept out by writers of whom one is always inside or waiting") {
  LockServer redis;
  std::atomic<bool> over{false};
  std::atomic<int> writes{0};
  std::deque<Client> clients;
  std::deque<std::jthread> writers;
  for (int i = 0; i < 8; ++i)
    writers.emplace_back([&, &mine = clients.emplace_back(redis.unix_uri())] {
      SharedLock lock{mine, "lock"};
      while (!over) {
        auto const lease = lock.acquire();
        std::this_thread::sleep_for(5ms);
        ++writes;
      }
    });
  REQUIRE(wait_until([&] { return writes > 8; }));
  Client client{redis.unix_uri()};
  SharedLock lock{client, "lock"};
  for (int i = 0; i < 10; ++i) {
    auto const before = writes.load();
    auto const lease = lock.acquire_shared_for(30s);
    REQUIRE(lease);
    CHECK(writes - before <= 40);  // those who came before its request; without an order it would be thousands
  }
  over = true;
}

TEST_CASE("ten thousand names, used and abandoned, leave nothing but fence counters") {
  LockServer redis;
  constexpr int names = instrumented ? 1000 : 10'000;
  ChildProcess child{[&](Channel& parent) {
    Client client{redis.unix_uri()};
    std::deque<Lease> leases;
    for (int i = 0; i < names; ++i) {
      auto const name = "room:" + std::to_string(i);
      if (i % 2 == 0)
        leases.push_back(SharedLock{client, name, {.ttl = 3s}}.acquire_shared());
      else
        leases.push_back(Semaphore{client, name, 3, {.ttl = 3s}}.acquire());
    }
    parent.send_line("all");
    parent.read_line(1h);
    return 0;
  }};
  REQUIRE(child.read_line(100s));
  child.kill();
  CHECK(leftovers(redis).size() > 0);
  CHECK(wait_until([&] { return leftovers(redis).empty(); }, 20s, 200ms));
  CHECK(redis.keys().size() == names);
  for (auto const* name : {"{room:0}:~fence", "{room:1}:~fence"}) CHECK(redis.pttl(name) > 0);
}

TEST_CASE("no key of a room is ever without an expiry") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto reader = SharedLock{client, "lock", {.ttl = 1min}}.acquire_shared();
  auto brief = SharedLock{client, "lock", {.ttl = 1s}}.acquire_shared();
  Waiting writer{[&] { return SharedLock{other, "lock"}.acquire_for(1min); }};
  REQUIRE(redis.has_blocked(1));
  CHECK(redis.keys() == std::vector<std::string>{"lock", "{lock}:~alive", "{lock}:~fence", "{lock}:~queue"});
  for (auto const& key : redis.keys()) CHECK(redis.pttl(key) > 0);
  CHECK(redis.pttl("lock") > 30'000);  // the longest lease: a shorter one does not shorten it
  reader.release();
  brief.release();
}

TEST_CASE("what an acquisition of a permit costs on the wire does not depend on how many wait") {
  LockServer redis;
  auto const commands_each = [&](int waiters) {
    std::deque<Client> clients;
    std::deque<std::jthread> threads;
    std::atomic<int> turns{0};
    std::atomic<bool> over{false};
    redis.reset_stats();
    for (int i = 0; i < waiters; ++i)
      threads.emplace_back([&, &mine = clients.emplace_back(redis.unix_uri())] {
        Semaphore permits{mine, "permits", 2};
        while (!over) {
          auto const lease = permits.acquire();
          ++turns;
        }
      });
    REQUIRE(wait_until([&] { return turns > 600; }));
    over = true;
    threads.clear();
    return static_cast<double>(redis.calls_by_clients()) / turns;
  };
  auto const few = commands_each(4);
  auto const many = commands_each(16);
  UNSCOPED_INFO("commands per acquisition: 4 waiters " << few << ", 16 waiters " << many);
  CHECK(few < 5.3);
  CHECK(many < 5.3);
}

TEST_CASE("a waiter whose place was lost asks for another") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto lease = SharedLock{client, "lock"}.acquire();
  Waiting waiting{[&] { return SharedLock{other, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  redis.flush_all();
  CHECK(waiting.over_within(10s));
  CHECK(waiting.get().held());
  CHECK_FALSE(lease.release());
}

TEST_CASE("a waiter whose connection breaks keeps its place") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client early{redis.unix_uri()};
  Client late{redis.unix_uri()};
  auto lease = SharedLock{client, "lock"}.acquire();
  Waiting first{[&] { return SharedLock{early, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  Waiting second{[&] { return SharedLock{late, "lock"}.acquire(); }};
  REQUIRE(redis.has_blocked(2));
  redis.kill_clients();
  REQUIRE(redis.has_blocked(2));
  lease.release();
  auto next = first.get();
  CHECK_FALSE(second.over());
  next.release();
  CHECK(second.get().fence() > next.fence());
}

TEST_CASE("a server that forgot the scripts of a room is told them again, and a full one lets renew and release") {
  LockServer redis;
  Client client{redis.unix_uri()};
  SharedLock lock{client, "lock"};
  auto lease = lock.acquire_shared();
  redis.flush_scripts();
  CHECK(lease.confirm());
  redis.config_set("maxmemory", "1");
  CHECK(lease.extend());
  CHECK(error_of([&] { return SharedLock{client, "other"}.try_acquire(); })->errc() == Errc::server_refused);
  CHECK(lease.release());
  CHECK_FALSE(redis.exists("lock"));
  redis.config_set("maxmemory", "0");
  CHECK(lock.try_acquire());
}

TEST_CASE("a replica refuses to renew and to release a permit, instead of calling it lost") {
  LockServer redis;
  LockServer primary;
  Client client{redis.unix_uri()};
  auto lease = Semaphore{client, "permits", 2}.acquire();
  redis.command({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
  CHECK(error_of([&] { return lease.confirm(); })->errc() == Errc::server_refused);
  CHECK(lease.held());
  CHECK(error_of([&] { return lease.release(); })->errc() == Errc::server_refused);
}

TEST_CASE("a room whose key was overwritten by a foreign hand is lost, and who waits is told that it is none") {
  LockServer redis;
  Client client{redis.unix_uri()};
  Client other{redis.unix_uri()};
  auto reader = SharedLock{client, "lock"}.acquire_shared();
  auto second = SharedLock{client, "lock"}.acquire_shared();
  Waiting writer{[&] { return errc_of([&] { return SharedLock{other, "lock"}.acquire(); }); }};
  REQUIRE(redis.has_blocked(1));
  redis.set("lock", "foreign");
  CHECK_FALSE(reader.confirm());
  CHECK_FALSE(second.release());
  CHECK(writer.get() == Errc::wrong_type);
  CHECK(redis.get("lock") == "foreign");
}

TEST_CASE("with replicas to confirm, a handed-over permit is confirmed too") {
  LockServer redis;
  LockServer replica;
  replica.replica_of(redis);
  mortise::ClientOptions const options{.replicas = 1, .replicas_timeout = 2s};
  Client client{redis.unix_uri(), options};
  Client other{redis.unix_uri(), options};
  auto lease = Semaphore{client, "permits", 1}.acquire();
  Waiting waiting{[&] { return Semaphore{other, "permits", 1}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  lease.release();
  auto const next = waiting.get();
  CHECK(next.fence() > lease.fence());
  CHECK(next.remaining() > 5s);
}

TEST_CASE("several locks of one server are taken by one request, and given back by one each") {
  LockServer redis;
  Client client{redis.unix_uri()};
  mortise::LockSet all{client, {"a", "b", "c", "{x}:d"}};
  static_cast<void>(all.acquire());
  redis.reset_stats();
  auto leases = all.try_acquire();
  REQUIRE(leases);
  CHECK(redis.calls_by_clients() == 1);
  CHECK(leases->release());
  CHECK(redis.calls_by_clients() == 5);
  redis.set("b", "foreign");
  CHECK_FALSE(all.try_acquire());
  CHECK(redis.keys() == std::vector<std::string>{"b", "{a}:~fence", "{b}:~fence", "{c}:~fence", "{x}:d::~fence"});
  redis.command({"DEL", "b"});
  redis.command({"RPUSH", "b", "x"});
  CHECK(error_of([&] { return all.try_acquire(); })->errc() == Errc::wrong_type);
  CHECK_FALSE(redis.exists("a"));
}

TEST_CASE("re-entry of a recursive lock sends nothing") {
  LockServer redis;
  Client client{redis.unix_uri()};
  mortise::RecursiveLock lock{client, "lock", {.renew = false}};
  lock.lock();
  lock.unlock();  // the server knows the scripts now
  lock.lock();
  redis.reset_stats();
  for (int i = 0; i < 100; ++i) lock.lock();
  for (int i = 0; i < 100; ++i) lock.unlock();
  CHECK(redis.calls_by_clients() == 0);
  lock.unlock();
  CHECK(redis.calls_by_clients() == 1);
}
