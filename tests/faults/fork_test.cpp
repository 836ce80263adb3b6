// SPDX-License-Identifier: MIT
// Fork: the child talks on nothing of its parent's, owns none of its leases, repeats none of its tokens.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setting.hpp"
#include "support/catch.hpp"

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
