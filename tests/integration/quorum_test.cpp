// SPDX-License-Identifier: MIT
// A lock that several servers have to agree on: grants, fences, losses, and what is left when they do not agree.
#include <atomic>
#include <mutex>
#include <thread>

#include "quorum_servers.hpp"
#include "support/waiting.hpp"

using support::Waiting;

TEST_CASE("all nodes up: a lock is granted by all of them with one fence, held once, and leaves nothing but the counter") {
  auto const count = GENERATE(1U, 2U, 3U, 4U, 5U);
  QuorumServers nodes{count};
  Quorum quorum{nodes.uris(), at_once({.node_timeout = 2s})};  // a busy machine is no slow node
  Quorum rival{nodes.uris(), at_once({.node_timeout = 2s})};
  Lock lock{quorum, "lock"};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  CHECK(wait_until([&] { return nodes.holding("lock") == std::string(count, 'x'); }));
  for (auto& node : nodes) CHECK(node.get(fence_key("lock")) == std::to_string(lease->fence().value));
  CHECK_FALSE(Lock{rival, "lock"}.try_acquire());
  CHECK(lease->confirm());
  CHECK(lease->extend());
  CHECK(lease->release());
  CHECK_FALSE(lease->release());
  CHECK(wait_until([&] { return nodes.holding("lock") == std::string(count, '-'); }));
  auto const next = Lock{rival, "lock"}.try_acquire();
  REQUIRE(next);
  CHECK(next->fence() > lease->fence());
  for (auto& node : nodes) CHECK(node.get(wait_key("lock")) == std::nullopt);
}

TEST_CASE("remaining() is never more than the smallest PTTL among the nodes, for leases of 50 ms to an hour") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  for (auto const ttl : {milliseconds{50}, milliseconds{1s}, milliseconds{10s}, milliseconds{1h}}) {
    Lock lock{quorum, "lock", {.ttl = ttl, .renew = false}};
    auto const lease = lock.acquire();
    for (auto& node : nodes) {
      auto const remaining = lease.remaining();
      auto const pttl = node.pttl("lock");  // asked later: even less may be left
      if (pttl > 0 && remaining.count() > pttl) CHECK(remaining.count() - pttl <= 20);
    }
    CHECK(lease.remaining() < ttl);
  }
}

TEST_CASE("nodes whose counters differ are brought to one fence in a second round") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  auto const ahead = mortise::detail::wall_microseconds() + 30'000'000;
  nodes[0].set(fence_key("lock"), std::to_string(ahead));
  nodes[1].set(fence_key("lock"), std::to_string(ahead + 5));
  nodes[2].set(fence_key("lock"), std::to_string(ahead + 9));
  Lock lock{quorum, "lock"};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  CHECK(lease->fence().value > ahead + 5);
  CHECK(lease->confirm());
  int raised = 0;
  for (auto& node : nodes) raised += node.get(fence_key("lock")) == std::to_string(lease->fence().value) ? 1 : 0;
  CHECK(raised >= 2);
  auto const fence = lease->fence();
  CHECK(lease->release());
  for (int i = 0; i < 20; ++i) {
    auto const next = lock.try_acquire();
    REQUIRE(next);
    CHECK(next->fence() > fence);
  }
}

TEST_CASE("a rival that holds a majority is busy, and what was got at the others is given back at once") {
  QuorumServers nodes{5};
  Quorum quorum{nodes.uris(), at_once()};
  Lock lock{quorum, "lock"};
  nodes.occupy({0, 2, 4}, "lock");
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(lock.try_acquire());
    CHECK(nodes.holding("lock") == "x-x-x");
  }
  CHECK_FALSE(lock.acquire_for(200ms));
  CHECK(nodes.holding("lock") == "x-x-x");
  nodes[4].command({"DEL", "lock"});
  auto const third = lock.try_acquire();
  REQUIRE(third);
  CHECK(wait_until([&] { return nodes.holding("lock") == "xxxxx"; }));
}

TEST_CASE("half of an even number of nodes is not enough") {
  QuorumServers nodes{4};
  Quorum quorum{nodes.uris(), at_once()};
  nodes.occupy({0, 1}, "lock");
  CHECK_FALSE(Lock{quorum, "lock"}.try_acquire());
  CHECK(nodes.holding("lock") == "xx--");
}

TEST_CASE("a larger quorum is kept to") {
  QuorumServers nodes{4};
  Quorum all{nodes.uris(), at_once({.quorum = 4})};
  Quorum three{nodes.uris(), at_once({.quorum = 3})};
  nodes.occupy({3}, "lock");
  CHECK_FALSE(Lock{all, "lock"}.try_acquire());
  CHECK(Lock{three, "lock"}.try_acquire());
}

TEST_CASE("a lease that a minority keeps is lost, and that is told before its validity ends") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  Lock lock{quorum, "lock", {.ttl = 2s}};
  auto lease = lock.acquire();
  REQUIRE(wait_until([&] { return nodes.holding("lock") == "xxx"; }));
  nodes[0].command({"DEL", "lock"});
  CHECK(lease.confirm());
  nodes[1].command({"DEL", "lock"});
  SECTION("by an extension") {
    CHECK_FALSE(lease.extend());
    CHECK_FALSE(lease.held());
  }
  SECTION("by the renewal") {
    CHECK(wait_until([&] { return lease.lost().stop_requested(); }, 10s));
    CHECK_FALSE(lease.held());
  }
  SECTION("by the release") { CHECK_FALSE(lease.release()); }
  CHECK_FALSE(lease.release());
  CHECK(wait_until([&] { return nodes.holding("lock") == "---"; }, 5s));
}

TEST_CASE("a lease is renewed as long as a majority is there") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  Lock lock{quorum, "lock", {.ttl = 1s}};
  auto lease = lock.acquire();
  nodes[1].freeze();
  std::this_thread::sleep_for(2500ms);
  CHECK(lease.held());
  CHECK(lease.confirm());
  nodes[1].thaw();
  CHECK(lease.release());
  CHECK(wait_until([&] { return nodes.holding("lock") == "---"; }, 10s));
}

TEST_CASE("answers of the majority that come after the validity has ended bring no lease back") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once({.node_timeout = 5s, .client = {.command_timeout = 5s}})};
  Lock lock{quorum, "lock", {.ttl = 600ms, .renew = false}};
  auto lease = lock.acquire();
  for (auto const node : {1U, 2U}) nodes[node].freeze();
  Waiting extending{[&] {
    try {
      return lease.extend(1h);
    } catch (Error const&) {
      return false;
    }
  }};
  std::this_thread::sleep_for(1s);
  CHECK_FALSE(lease.held());
  for (auto const node : {1U, 2U}) nodes[node].thaw();
  CHECK_FALSE(extending.get());
  CHECK_FALSE(lease.held());
  CHECK(lease.lost().stop_requested());
}

TEST_CASE("a TTL that the nodes' answers outlast is a timeout, and leaves no key behind") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once({.node_timeout = 400ms})};
  Lock warm{quorum, "warm"};
  CHECK(warm.try_acquire());
  Lock lock{quorum, "lock", {.ttl = 40ms}};
  for (auto const node : {0U, 1U}) nodes[node].client_pause(150);
  CHECK(errc_of([&] { return lock.try_acquire(); }) == Errc::timeout);
  CHECK(wait_until([&] { return nodes.holding("lock") == "---"; }));
}

TEST_CASE("options and lists that cannot work are refused before anything is sent, and say why") {
  std::string const a = "redis://127.0.0.1:1";
  std::string const b = "redis://127.0.0.1:2";
  std::string const c = "redis://127.0.0.1:3";
  std::string const d = "redis://127.0.0.1:4";
  auto const said = [](std::vector<std::string> const& uris, QuorumOptions const& options = {}) -> std::string {
    auto const error = error_of([&] {
      Quorum quorum{uris, options};
      return 0;
    });
    if (!error) return "nothing";
    CHECK(error->errc() == Errc::invalid_option);
    return error->what();
  };
  CHECK_THAT(said({}), contains("at least one URI"));
  CHECK_THAT(said({a, b, a}), contains("127.0.0.1:1 is given twice"));
  CHECK_THAT(said({a, a + "/3"}), contains("is given twice"));
  CHECK_THAT(said({a, b, c}, {.quorum = 1}), contains("quorum is 1 of 3 nodes: must be a majority, 2 to 3"));
  CHECK_THAT(said({a, b, c, d}, {.quorum = 2}), contains("must be a majority, 3 to 4"));
  CHECK_THAT(said({a, b, c}, {.quorum = 4}), contains("2 to 3"));
  CHECK_THAT(said({a, b, c}, {.quorum = -1}), contains("quorum is -1"));
  CHECK_THAT(said({a, b, c}, {.node_timeout = 0ms}), contains("node_timeout is 0ms: must be positive"));
  CHECK_THAT(said({a, b, c}, {.quarantine = -1ms}), contains("quarantine is -1ms"));
  CHECK_THAT(said({a, b, c}, {.client = {.replicas = 1}}), contains("replicas is 1"));
  CHECK_THAT(said({a, b, c}, {.client = {.tracking = true}}), contains("tracking"));
  CHECK_THAT(said({a, "http://x", c}), contains("URI"));
  CHECK(said({a, b, c}, {.quorum = 3}) == "nothing");
  CHECK(said({a, b, c, d}) == "nothing");
}

TEST_CASE("one server under two names is found and refused, whichever node it is, and nothing is left there") {
  QuorumServers nodes{2};
  auto uris = nodes.uris();
  uris.push_back(nodes[0].unix_uri());
  Quorum quorum{uris, at_once()};
  Lock lock{quorum, "lock"};
  for (int i = 0; i < 3; ++i) {
    auto const error = error_of([&] { return lock.try_acquire(); });
    REQUIRE(error);
    CHECK(error->errc() == Errc::invalid_option);
    CHECK_THAT(error->what(), contains("are the same server"));
    CHECK_THAT(error->what(), contains(nodes.endpoint(0)));
  }
  CHECK(errc_of([&] { return lock.acquire(); }) == Errc::invalid_option);
  CHECK(nodes.holding("lock") == "--");
}

TEST_CASE("threads of one Quorum take turns, and so do Quorums, sixteen of them") {
  QuorumServers nodes{3};
  bool const apart = GENERATE(false, true);
  std::deque<Quorum> quorums;
  for (int i = 0; i < (apart ? 16 : 1); ++i) quorums.emplace_back(nodes.uris(), at_once({.node_timeout = 1s, .client = {.command_timeout = 5s}}));
  std::int64_t count = 0;  // nobody guards it but the lock
  std::uint64_t last = 0;
  std::atomic<bool> rising{true};
  constexpr int turns = 15;
  std::deque<Waiting<bool>> threads;
  auto const took = time_of([&] {
    for (std::size_t i = 0; i < 16; ++i)
      threads.emplace_back([&, i] {
        Lock lock{quorums[i % quorums.size()], "lock"};
        for (int turn = 0; turn < turns; ++turn) {
          auto const lease = lock.acquire_for(60s);
          if (!lease) return false;
          if (lease->fence().value <= last) rising = false;
          last = lease->fence().value;
          auto const seen = count;
          std::this_thread::yield();
          count = seen + 1;
        }
        return true;
      });
    for (auto& thread : threads) CHECK(thread.get());
    return 0;
  });
  UNSCOPED_INFO(16 * turns << " turns in " << took.count() / 1'000'000 << " ms");
  CHECK(count == 16 * turns);
  CHECK(rising);
}

TEST_CASE("contenders that start together have a winner within a few rounds, on 3, 4 and 5 nodes") {
  auto const count = GENERATE(3U, 4U, 5U);
  QuorumServers nodes{count};
  std::deque<Quorum> quorums;
  for (int i = 0; i < 8; ++i) quorums.emplace_back(nodes.uris(), at_once({.node_timeout = 1s}));
  for (auto& quorum : quorums) static_cast<void>(Lock{quorum, "warm"}.acquire_for(10s));
  for (int round = 0; round < (instrumented ? 5 : 25); ++round) {
    std::atomic<int> at_start{0};
    std::atomic<int> winners{0};
    std::deque<Waiting<bool>> threads;
    for (auto& quorum : quorums)
      threads.emplace_back([&] {
        Lock lock{quorum, "lock" + std::to_string(round)};
        ++at_start;
        while (at_start < 8) std::this_thread::yield();
        auto lease = lock.acquire_for(20s);
        if (lease) ++winners;
        return lease && lease->release();
      });
    for (auto& thread : threads) CHECK(thread.get());
    CHECK(winners == 8);
  }
}

TEST_CASE("a waiter is cancelled, times out and is told of the end of its Quorum in time") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  auto other = std::make_unique<Quorum>(nodes.uris(), at_once());
  auto const held = Lock{quorum, "lock"}.acquire();
  Lock lock{*other, "lock"};
  auto const took = time_of([&] { CHECK_FALSE(lock.acquire_for(300ms)); return 0; });
  CHECK(took >= 300ms);
  CHECK(took < 300ms + 2s);
  std::stop_source stop;
  Waiting cancelled{[&] { return lock.acquire(stop.get_token()).has_value(); }};
  std::this_thread::sleep_for(50ms);
  stop.request_stop();
  CHECK(cancelled.over_within(soon));
  CHECK_FALSE(cancelled.get());
  Waiting closed{[&] { return errc_of([&] { return lock.acquire(); }); }};
  std::this_thread::sleep_for(50ms);
  other.reset();
  CHECK(closed.over_within(soon));
  CHECK(closed.get() == Errc::closed);
}
