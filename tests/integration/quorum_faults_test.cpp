// SPDX-License-Identifier: MIT
// Nodes that are frozen, refuse, talk nonsense or hang up: a minority of them is nobody's business, a majority is told.
#include <mutex>
#include <thread>

#include "quorum_servers.hpp"
#include "support/fake_server.hpp"
#include "support/processes.hpp"
#include "support/proxy.hpp"
#include "support/resources.hpp"

using support::ChildProcess;
using support::ExitStatus;
using support::FakeReply;
using support::FakeServer;
using support::Proxy;

namespace {

/// Acquires and releases, and says how long the middle one of so many pairs took.
mortise::nanoseconds middle_pair(Lock<Quorum>& lock, std::size_t count) {
  std::vector<mortise::nanoseconds> times;
  for (std::size_t i = 0; i < count; ++i)
    times.push_back(time_of([&] {
      auto lease = lock.try_acquire();
      REQUIRE(lease);
      CHECK(lease->extend());
      CHECK(lease->release());
      return 0;
    }));
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(count / 2));
  return times[count / 2];
}

}  // namespace

TEST_CASE("frozen nodes, a minority, cost nothing, come back by themselves, and are clean then") {
  auto const [count, frozen] = GENERATE(std::pair{3U, 1U}, std::pair{5U, 2U});
  QuorumServers nodes{count};
  std::mutex mutex;
  std::string events;
  Quorum quorum{nodes.uris(), at_once({.client = {.observer = [&](Event const& event) {
                                                    std::lock_guard const guard{mutex};
                                                    if (event.kind == Event::Kind::degraded || event.kind == Event::Kind::reconnected)
                                                      events += std::string{to_string(event.kind)} + ' ' + event.endpoint + ' ' + event.reason + '\n';
                                                  }}})};
  Lock lock{quorum, "lock", {.ttl = 20s}};
  auto const before = middle_pair(lock, 50);
  for (std::size_t node = 0; node < frozen; ++node) nodes[node].freeze();
  auto const first = time_of([&] { return lock.try_acquire().has_value(); });
  auto const after = middle_pair(lock, 200);
  UNSCOPED_INFO("all up " << before.count() / 1000 << " us, frozen: first " << first.count() / 1000 << " us, then " << after.count() / 1000 << " us");
  CHECK(after < 50ms);  // half of a node timeout: nobody has waited for the frozen ones
  std::this_thread::sleep_for(150ms);
  CHECK(middle_pair(lock, 50) < 50ms);
  for (std::size_t node = 0; node < frozen; ++node) nodes[node].thaw();
  CHECK(wait_until([&] {
    static_cast<void>(lock.try_acquire());
    std::lock_guard const guard{mutex};
    return std::ranges::count(events, '\n') == 2 * static_cast<std::ptrdiff_t>(frozen);
  }, 10s));
  std::lock_guard const guard{mutex};
  for (std::size_t node = 0; node < frozen; ++node) {
    CHECK_THAT(events, contains("degraded " + nodes.endpoint(node)));
    CHECK_THAT(events, contains("no answer within 100ms"));
    CHECK_THAT(events, contains("reconnected " + nodes.endpoint(node)));
  }
  CHECK(wait_until([&] { return nodes.holding("lock") == std::string(count, '-'); }, 10s));
  CHECK(wait_until([&] {
    auto const all = lock.try_acquire();
    std::this_thread::sleep_for(10ms);
    return nodes.holding("lock") == std::string(count, 'x');
  }, 10s));
}

TEST_CASE("a Quorum that begins with a frozen minority waits one node timeout in all, once") {
  QuorumServers nodes{5};
  nodes[1].freeze();
  nodes[3].freeze();
  Quorum quorum{nodes.uris(), at_once({.node_timeout = 300ms})};
  Lock lock{quorum, "lock"};
  CHECK(time_of([&] { return lock.try_acquire().has_value(); }) < 300ms + 250ms);  // two in turn would be 600 ms
  CHECK(middle_pair(lock, 20) < 150ms);
}

TEST_CASE("three of five frozen: no quorum, told with each node's answer, in time, and the living are clean") {
  QuorumServers nodes{5};
  std::mutex mutex;
  std::string reason;
  Quorum quorum{nodes.uris(), at_once({.client = {.observer = [&](Event const& event) {
                                                    std::lock_guard const guard{mutex};
                                                    if (event.kind == Event::Kind::no_quorum) reason = event.reason;
                                                  }}})};
  Lock lock{quorum, "lock"};
  CHECK(lock.try_acquire());
  auto held = Lock{quorum, "held"}.acquire();
  for (auto const node : {0U, 2U, 3U}) nodes[node].freeze();
  for (int i = 0; i < 3; ++i) {
    std::optional<Error> error;
    CHECK(time_of([&] { error = error_of([&] { return lock.try_acquire(); }); return 0; }) < 1s + 500ms);
    REQUIRE(error);
    CHECK(error->errc() == Errc::no_quorum);
    CHECK(error->retryable());
    std::string const what = error->what();
    CHECK_THAT(what, contains("3 of 5 nodes have to agree"));
    for (auto const node : {1U, 4U}) CHECK_THAT(what, contains(nodes.endpoint(node) + (i == 0 ? ": granted" : ": not asked, for too few others can be")));
    for (auto const node : {0U, 2U, 3U}) CHECK_THAT(what, contains(nodes.endpoint(node) + ": no "));
    CHECK(what.find('\n') == std::string::npos);
    CHECK(nodes.holding("lock", ".-..-") == ".-..-");
  }
  CHECK(wait_until([&] {
    std::lock_guard const guard{mutex};
    return reason.find(nodes.endpoint(1) + ": ") != std::string::npos;
  }));
  auto const waited = time_of([&] { CHECK(errc_of([&] { return lock.acquire_for(400ms); }) == Errc::no_quorum); return 0; });
  CHECK(waited >= 300ms);
  CHECK(waited < 400ms + 1s);
  CHECK(errc_of([&] { return held.extend(); }) == Errc::no_quorum);
  auto const release = error_of([&] { return held.release(); });
  REQUIRE(release);
  CHECK(release->errc() == Errc::no_quorum);
  CHECK_THAT(release->what(), contains(nodes.endpoint(1) + ": released"));
  CHECK(nodes.holding("held", ".-..-") == ".-..-");

  // With two of the living busy it is still no answer: nobody knows what the others would say.
  nodes.occupy({1, 4}, "lock");
  CHECK(errc_of([&] { return lock.try_acquire(); }) == Errc::no_quorum);
  for (auto const node : {0U, 2U, 3U}) nodes[node].thaw();
  CHECK(wait_until([&] { return nodes.holding("lock") == "-x--x" && nodes.holding("held") == "-----"; }, 10s));
  CHECK(lock.acquire_for(10s));  // three of five
}

TEST_CASE("acquire() gives up when too few nodes have been there for retry_for") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once({.client = {.retry_for = 500ms}})};
  nodes[0].freeze();
  nodes[1].freeze();
  CHECK(errc_of([&] { return Lock{quorum, "lock"}.acquire(); }) == Errc::no_quorum);
}

TEST_CASE("what one node refuses, for whatever reason, leaks into nothing while a majority decides") {
  auto const bad = GENERATE(0U, 2U);
  auto const refusal = GENERATE(as<std::string>{}, "-READONLY You can't write against a read only replica.\r\n",
                                "-OOM command not allowed when used memory > 'maxmemory'.\r\n", "-LOADING Redis is loading\r\n",
                                "-NOAUTH Authentication required.\r\n", "-ERR who are you\r\n", "-WRONGTYPE Operation\r\n",
                                "+OK\r\n", ":9223372036854775807\r\n", "*3\r\n:1\r\n:-5\r\n:1\r\n", "$-1\r\n", "HTTP/1.1 400 Bad Request\r\n", "");
  CAPTURE(bad, refusal);
  QuorumServers nodes{2};
  FakeServer node{[&](FakeServer::Words const& words) -> FakeReply {
    if (words[0] == "CLIENT") return {.bytes = support::simple("OK")};
    if (words[0] == "INFO") return {.bytes = support::bulk("# Server\r\nrun_id:fake\r\nuptime_in_seconds:1000000\r\n")};
    if (refusal.empty()) return {.then = FakeReply::Then::reset};
    return {.bytes = refusal};
  }};
  auto uris = nodes.uris();
  uris.insert(uris.begin() + bad, node.uri());
  // Its age would put the others into quarantine: they have none.
  Quorum quorum{uris, at_once()};
  Lock lock{quorum, "lock", {.ttl = 600ms}};
  for (int i = 0; i < 5; ++i) {
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    CHECK(lease->confirm());
    CHECK(lease->extend());
    CHECK(lease->release());
    std::scoped_lock const guard{lock};
    CHECK(lock.lease().held());
  }
  auto const lease = lock.acquire();
  std::this_thread::sleep_for(1s);  // renewed
  CHECK(lease.held());
  nodes.occupy({0, 1}, "taken");
  CHECK_FALSE(Lock{quorum, "taken"}.try_acquire());
}

TEST_CASE("a majority that refuses for good is told at once, also out of a wait") {
  QuorumServers nodes{3, {.password = "secret-of-the-nodes"}};
  auto uris = nodes.uris();
  for (std::size_t node = 0; node < 2; ++node) uris[node] = "redis://127.0.0.1:" + std::to_string(nodes[node].port());
  Quorum quorum{uris, at_once()};
  auto const error = error_of([&] { return Lock{quorum, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::no_quorum);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("NOAUTH"));
  CHECK(std::string{error->what()}.find("secret") == std::string::npos);
}

TEST_CASE("connections that were killed are made anew without a word") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  Lock lock{quorum, "lock"};
  for (int i = 0; i < 10; ++i) {
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    for (auto& node : nodes) node.kill_clients();
    CHECK(lease->extend());
    for (auto& node : nodes) node.kill_clients();
    if (i % 2 == 0) std::this_thread::sleep_for(20ms);
    CHECK(lease->release());
  }
  for (auto& node : nodes) node.flush_scripts();
  CHECK(lock.try_acquire());
}

TEST_CASE("a node that is slower than the majority gets its grant too, though it does not know the script or has hung up") {
  QuorumServers nodes{3};
  Proxy proxy{nodes[2].port()};
  proxy.delay(support::Direction::reply, 30ms);
  auto uris = nodes.uris();
  uris[2] = proxy.uri();
  Quorum quorum{uris, at_once({.node_timeout = 2s})};
  Lock lock{quorum, "lock"};
  auto const granted_everywhere = [&] {
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    CHECK(wait_until([&] { return nodes.holding("lock") == "xxx"; }));
    CHECK(lease->release());
    CHECK(wait_until([&] { return nodes.holding("lock") == "---"; }));
  };
  SECTION("a server that has never seen the script") { granted_everywhere(); }
  SECTION("a connection that was closed while idle") {
    granted_everywhere();
    nodes[2].kill_clients();
    std::this_thread::sleep_for(100ms);  // for longer than an idle connection goes unwatched
    granted_everywhere();
  }
  SECTION("a server that has forgotten the scripts, from the second grant on") {
    granted_everywhere();
    nodes[2].flush_scripts();
    {
      auto const lease = lock.try_acquire();
      CHECK(lease);
    }
    CHECK(wait_until([&] { return nodes.holding("lock") == "---"; }));
    std::this_thread::sleep_for(100ms);  // the node has said by now that it knows no such script
    granted_everywhere();
  }
}

TEST_CASE("a grant whose answer was lost with a failed attempt is released in the background") {
  QuorumServers nodes{3};
  Proxy proxy{nodes[2].port()};
  auto uris = nodes.uris();
  uris[2] = proxy.uri();
  Quorum quorum{uris, at_once()};
  CHECK(Lock{quorum, "warm"}.try_acquire());
  nodes.occupy({0, 1}, "lock");
  Lock lock{quorum, "lock", {.ttl = 1min}};
  proxy.swallow_replies(Proxy::always);
  CHECK_FALSE(lock.try_acquire());
  proxy.stop_swallowing();
  CHECK(wait_until([&] { return nodes.holding("lock") == "xx-"; }, 10s));
  nodes[0].command({"DEL", "lock"});
  CHECK(lock.acquire_for(5s));
}

TEST_CASE("a forked child has a Quorum of its own, and its parent's lease is none of its business") {
  QuorumServers nodes{3};
  Quorum quorum{nodes.uris(), at_once()};
  Lock lock{quorum, "lock"};
  auto lease = lock.acquire();
  ChildProcess child{[&] {
    if (lease.held()) return 1;
    if (lock.try_acquire()) return 2;
    auto own = Lock{quorum, "child"}.try_acquire();
    return own && own->release() ? 0 : 3;
  }, ChildProcess::Ending::orderly};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(lease.confirm());
  CHECK(wait_until([&] { return nodes.holding("lock") == "xxx"; }));
}
