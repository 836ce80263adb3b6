// SPDX-License-Identifier: MIT
// Locks over TLS are the same locks: held, renewed, waited for, lost, forked.
#include "certificates.hpp"
#include "support/child_process.hpp"
#include "support/instrumented.hpp"
#include "support/waiting.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>

using mortise::Event;
using support::ChildProcess;
using support::ExitStatus;
using support::Waiting;

namespace {

struct Trusted {
  Authority authority{};
  TlsServer redis{authority};
  mortise::ClientOptions options() const { return {.tls = mortise::tls({.ca_file = authority.file()})}; }
};

}  // namespace

TEST_CASE("a lock over TLS is taken, renewed, confirmed and released, by name and by address") {
  auto const host = GENERATE(as<std::string>{}, "localhost", "127.0.0.1");
  Trusted setting;
  Client client{setting.redis.tls_uri(host) + "/3", setting.options()};
  auto lease = Lock{client, "lock", {.ttl = 300ms}}.acquire();
  std::this_thread::sleep_for(1s);  // three times the TTL
  CHECK(lease.confirm());
  CHECK(lease.extend(1min));
  CHECK(setting.redis.keys(3).size() == 2);
  CHECK(lease.release());
  CHECK_FALSE(setting.redis.exists("lock"));
}

TEST_CASE("TLS 1.2 serves as well as TLS 1.3") {
  auto const version = GENERATE(as<std::string>{}, "TLSv1.2", "TLSv1.3");
  Authority authority;
  TlsServer redis{authority, {.config = {"tls-protocols " + version}}};
  Client client{redis.tls_uri(), {.tls = mortise::tls({.ca_file = authority.file()})}};
  Lock lock{client, "lock"};
  for (int i = 0; i < 100; ++i) {
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    CHECK(lease->release());
  }
  CHECK(redis.info("stats").at("total_connections_received") < std::string{"9"});  // kept, not made anew for each
}

TEST_CASE("an idle connection over TLS is used again") {
  Trusted setting;
  Client client{setting.redis.tls_uri(), setting.options()};
  Lock lock{client, "lock"};
  REQUIRE(lock.try_acquire());
  auto const connections = setting.redis.info("stats").at("total_connections_received");
  std::this_thread::sleep_for(50ms);  // long enough for the pool to ask the kernel
  REQUIRE(lock.try_acquire());
  CHECK(setting.redis.info("stats").at("total_connections_received") == connections);
}

TEST_CASE("waiters over TLS get their turn with the release, beside others that speak plainly") {
  Trusted setting;
  Client secured{setting.redis.tls_uri(), setting.options()};
  Client plain{setting.redis.unix_uri()};
  auto first = Lock{plain, "lock"}.acquire();
  Waiting waiting{[&] { return Lock{secured, "lock"}.acquire(); }};
  REQUIRE(setting.redis.has_blocked(1));
  CHECK(first.release());
  auto second = waiting.get();
  CHECK(second.held());
  CHECK(second.fence() > first.fence());
  Waiting next{[&] { return Lock{plain, "lock"}.acquire(); }};
  REQUIRE(setting.redis.has_blocked(1));
  CHECK(second.release());
  CHECK(next.get().held());
}

TEST_CASE("a thousand leases are renewed over one TLS connection") {
  Trusted setting;
  Client client{setting.redis.tls_uri(), setting.options()};
  std::deque<Lock<Client>> locks;
  std::vector<Lease> leases;
  for (int i = 0; i < (instrumented ? 100 : 1000); ++i)
    leases.push_back(locks.emplace_back(client, "lock:" + std::to_string(i), mortise::LockOptions{.ttl = 3s}).acquire());
  std::this_thread::sleep_for(4s);
  CHECK(std::ranges::all_of(leases, [](Lease& lease) { return lease.held() && lease.confirm(); }));
}

TEST_CASE("connections over TLS that the server cuts are made anew, told to the observer, and raise no SIGPIPE") {
  struct sigaction before {};
  REQUIRE(::sigaction(SIGPIPE, nullptr, &before) == 0);
  REQUIRE(before.sa_handler == SIG_DFL);  // a write that raised it would end this program
  Trusted setting;
  std::atomic<int> reconnected{0};
  auto options = setting.options();
  options.observer = [&](Event const& event) { reconnected += event.kind == Event::Kind::reconnected ? 1 : 0; };
  Client client{setting.redis.tls_uri(), options};
  auto lease = Lock{client, "lock", {.ttl = 600ms}}.acquire();
  for (int i = 0; i < 5; ++i) {
    setting.redis.kill_clients();
    std::this_thread::sleep_for(220ms);  // a renewal
    CHECK(lease.confirm());
  }
  setting.redis.kill_clients();
  CHECK(lease.release());
  CHECK(wait_until([&] { return reconnected > 0; }));
}

TEST_CASE("a waiter over TLS whose connection is cut waits on") {
  Trusted setting;
  Client holder{setting.redis.unix_uri()};
  Client client{setting.redis.tls_uri(), setting.options()};
  auto held = Lock{holder, "lock"}.acquire();
  Waiting waiting{[&] { return Lock{client, "lock"}.acquire(); }};
  REQUIRE(setting.redis.has_blocked(1));
  setting.redis.kill_clients();
  REQUIRE(setting.redis.has_blocked(1));
  CHECK(held.release());
  CHECK(waiting.get().held());
}

TEST_CASE("tracking hears over TLS of a key that was deleted") {
  Trusted setting;
  auto options = setting.options();
  options.tracking = true;
  Client client{setting.redis.tls_uri(), options};
  auto const lease = Lock{client, "lock", {.ttl = 1h}}.acquire();
  CHECK(wait_until([&] {
    setting.redis.command({"DEL", "lock"});
    return !lease.held();
  }));
}

TEST_CASE("a forked child talks over TLS connections of its own, and leaves the parent's alone") {
  Trusted setting;
  Client client{setting.redis.tls_uri(), setting.options()};
  Lock lock{client, "parent", {.ttl = 1s}};
  auto lease = lock.acquire();
  std::atomic<bool> connected{false};
  std::atomic<bool> ended{false};
  // Traffic of another thread at the moment of the fork; no handshakes, during which a child may inherit locks of OpenSSL's.
  std::thread busy{[&] {
    Client other{setting.redis.tls_uri(), setting.options()};
    static_cast<void>(Lock{other, "busy"}.try_acquire());
    connected = true;
    while (support::forks_beside_busy_threads && !ended) static_cast<void>(Lock{other, "busy"}.try_acquire());
  }};
  CHECK(wait_until([&] { return connected.load(); }, 20s));
  for (auto const ending : {ChildProcess::Ending::at_once, ChildProcess::Ending::orderly}) {
    ChildProcess child{std::function<int()>{[&] {
                         auto own = Lock{client, "child"}.acquire_for(20s);
                         if (!own || lease.held() || lock.try_acquire()) return 1;
                         return own->confirm() && own->release() ? 0 : 2;
                       }},
                       ending};
    CHECK(child.wait() == ExitStatus::exited(0));
  }
  ended = true;
  busy.join();
  CHECK(lease.confirm());
  CHECK(lease.release());
}

TEST_CASE("a process that ends while a lease over TLS is held ends in order and releases it") {
  Trusted setting;
  ChildProcess child{std::function<int()>{[&] {
                       static Client client{setting.redis.tls_uri(), setting.options()};
                       static Lock lock{client, "lock"};
                       static auto lease = lock.acquire();
                       return 0;
                     }},
                     ChildProcess::Ending::orderly};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK_FALSE(setting.redis.exists("lock"));
}
