// SPDX-License-Identifier: MIT
// Writing to a connection that the server has closed is an error like any other: no signal, and no disposition changed.
#include <csignal>
#include <deque>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/resources.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lease;
using mortise::Lock;
using support::ChildProcess;
using support::ExitStatus;
using support::RedisServer;

TEST_CASE("a process with the default disposition of SIGPIPE survives writing to closed connections") {
  RedisServer server;
  ChildProcess child{[&] {
    std::signal(SIGPIPE, SIG_DFL);
    support::SignalDispositions const before;
    Client redis{server.unix_uri()};  // over a unix socket the first write to a closed peer fails already
    Lock lock{redis, "name", {.ttl = 30s}};
    for (int i = 0; i < 200; ++i) {
      auto lease = lock.try_acquire();
      if (!lease) return 1;
      server.kill_clients();
      if (!lease->confirm()) return 2;
      server.kill_clients();
      if (!lease->release()) return 3;
    }
    return before.differences(support::SignalDispositions{}).empty() ? 0 : 4;
  }};
  CHECK(child.wait().value() == ExitStatus::exited(0));
}

TEST_CASE("no signal of the host is ever handled on a library thread") {
  RedisServer server;
  Client redis{server.uri()};
  auto const lease = Lock{redis, "name"}.acquire();
  int library_threads = 0;
  for (auto const& thread : support::threads()) {
    if (thread.name != "mortise-keeper" && thread.name != "mortise-herald") continue;
    ++library_threads;
    for (int const signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE, SIGPROF}) CHECK(thread.blocks(signal));
  }
  CHECK(library_threads == 2);
}

TEST_CASE("a renewal that is written to a closed connection ends neither the process nor the lease") {
  RedisServer server;
  ChildProcess child{[&] {
    std::signal(SIGPIPE, SIG_DFL);
    Client redis{server.unix_uri()};
    std::deque<Lease> leases;
    for (int i = 0; i < 20; ++i) {
      Lock lock{redis, "lock " + std::to_string(i), {.ttl = 1500ms}};
      leases.push_back(lock.acquire());
    }
    auto const end = mortise::Clock::now() + 3s;
    while (mortise::Clock::now() < end) {
      server.kill_clients();
      std::this_thread::sleep_for(3ms);
    }
    for (auto const& lease : leases)
      if (!lease.held()) return 1;
    return 0;
  }};
  CHECK(child.wait().value() == ExitStatus::exited(0));
}
