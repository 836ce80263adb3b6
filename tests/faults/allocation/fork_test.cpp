// SPDX-License-Identifier: MIT
// Fork, at each step of what the library does only once in a process: what one thread of the parent is at the making of, the
// child makes for itself.
#include <atomic>
#include <string>
#include <thread>

#include "../setting.hpp"
#include "failing_new.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"

using namespace faults;
using mortise::Client;
using mortise::Fence;
using mortise::Lock;
using mortise::LockSet;
using mortise::SharedLock;
using support::ChildProcess;
using support::ExitStatus;
using support::RedisServer;

namespace {

using FirstUse = bool (*)(Client& redis, std::string const& name);

bool first_lock(Client& redis, std::string const& name) {
  auto lease = Lock{redis, name}.try_acquire();
  return lease && lease->confirm() && lease->release();
}
bool first_room(Client& redis, std::string const& name) {
  auto lease = SharedLock{redis, name}.try_acquire_shared();
  return lease && lease->confirm() && lease->release();
}
bool first_set(Client& redis, std::string const& name) {
  auto leases = LockSet{redis, {"{set}:" + name, "{set}:other " + name}}.try_acquire();
  return leases.has_value();
}
bool first_fenced_write(Client& redis, std::string const& name) { return fenced_set(redis, name, "value", Fence{1}); }

enum Code : int { child_could, no_such_allocation, child_could_not, child_hangs };

/// In a process that has not used the library: forks while one thread stands in its n-th allocation.
int fork_at(std::int64_t n, std::string const& uri, FirstUse use) {
  std::atomic<bool> over{false};
  std::thread parent{[&] {
    NthAllocationStands const standing{n};
    try {
      Client redis{uri};
      use(redis, "parent");
    } catch (mortise::Error const&) {  // it stood for too long
    }
    over = true;
  }};
  while (!over && !NthAllocationStands::somebody_stands()) std::this_thread::yield();
  int code = no_such_allocation;
  if (!over) {
    ChildProcess child{[&] {
      ChildProcess::inherits_of_busy_threads();
      Client redis{uri, {.command_timeout = 5s}};
      return use(redis, "child") ? 0 : 1;
    }};
    auto const status = child.wait(20s);
    code = !status ? child_hangs : *status == ExitStatus::exited(0) ? child_could : child_could_not;
  }
  NthAllocationStands::let_go();
  parent.join();
  return code;
}

}  // namespace

TEST_CASE("a child forked at any allocation of its parent's first use of the library has its own first use",
          support::threads_in_children_of_threads) {
  RedisServer server;
  auto const use = GENERATE(first_lock, first_room, first_set, first_fenced_write);
  auto const uri = server.uri();
  std::int64_t n = 0;
  for (;; ++n) {
    ChildProcess process{[&] { return fork_at(n, uri, use); }};
    auto const status = process.wait(60s);
    REQUIRE(status);
    if (*status == ExitStatus::exited(no_such_allocation)) break;
    CAPTURE(n);
    REQUIRE(*status == ExitStatus::exited(child_could));
  }
  CHECK(n > 20);  // it did fork
}
