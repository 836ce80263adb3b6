// SPDX-License-Identifier: MIT
// Granted or released by the server, and nobody told: the same call finds out, or what is left is undone in a moment.
#include <set>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Lock;
using support::Direction;
using support::wait_until;

namespace {

/// The fences of all grants that the server has answered, whoever got them.
std::multiset<std::string> granted_fences(support::Proxy const& proxy) {
  std::multiset<std::string> fences;
  std::string const granted = "*3\r\n:1\r\n:";
  for (auto const& reply : proxy.recorded(Direction::reply))
    if (reply.starts_with(granted)) fences.insert(reply.substr(granted.size(), reply.find('\r', granted.size()) - granted.size()));
  return fences;
}

}  // namespace

TEST_CASE("a grant whose answer was cut off counts within the same call, with the fence it had") {
  Setting here;
  Client redis{here.proxy.uri()};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  REQUIRE(lock.try_acquire());
  here.proxy.record();
  here.proxy.cut_instead_of_reply(reply_to(Asks::acquire));
  auto const lease = lock.try_acquire();
  REQUIRE(lease);
  auto const fences = granted_fences(here.proxy);
  CHECK(fences.size() == 2);
  CHECK(fences.count(std::to_string(lease->fence().value)) == 2);
  CHECK(lease->held());
}

TEST_CASE("a grant whose answer was swallowed counts within the same wait, with the fence it had") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 300ms}};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  REQUIRE(lock.try_acquire());
  here.proxy.record();
  here.proxy.swallow_replies(1, reply_to(Asks::acquire));
  auto lease = lock.acquire_for(20s);
  REQUIRE(lease);
  auto const fences = granted_fences(here.proxy);
  CHECK(fences.size() == 2);
  CHECK(fences.count(std::to_string(lease->fence().value)) == 2);
  CHECK(lease->remaining() <= 60s);
  CHECK(lease->release());
  CHECK(is_free(here.server, "name"));
}

TEST_CASE("a grant whose answer was swallowed leaves nothing behind the call that gave up") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 300ms}};
  Client other{here.server.uri()};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  Lock same{other, "name", {.ttl = 60s, .renew = false}};
  REQUIRE(lock.try_acquire());
  here.proxy.record();
  here.proxy.swallow_replies(1, reply_to(Asks::acquire));
  auto const error = error_of([&] { static_cast<void>(lock.try_acquire()); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK(granted_fences(here.proxy).size() == 1);
  auto const lease = same.acquire_for(20s);
  REQUIRE(lease);
  // Not by the TTL of 60 s: nothing of the first was older than its command timeout.
  CHECK(wait_until([&] { return count(here.proxy, Asks::release) >= 1; }));
}

TEST_CASE("a release that could not be sent keeps its token, and may be said again until it is done") {
  Setting here;
  Client redis{here.proxy.uri(), {.command_timeout = 300ms}};
  Client other{here.server.uri()};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  Lock same{other, "name", {.ttl = 60s, .renew = false}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  here.proxy.refuse(true);
  here.proxy.cut_all();
  for (int i = 0; i < 3; ++i) {
    CHECK(error_of([&] { static_cast<void>(lease->release()); }));
    CHECK_FALSE(lease->held());
    CHECK_FALSE(is_free(here.server, "name"));
  }
  here.proxy.refuse(false);
  static_cast<void>(lease->release());  // false if the library has done it in between
  CHECK(is_free(here.server, "name"));
  CHECK(same.try_acquire());
  CHECK_FALSE(lease->release());
}

TEST_CASE("a release whose answer was cut off is known to be done, and a second one harms nobody") {
  Setting here;
  Client redis{here.proxy.uri()};
  Client other{here.server.uri()};
  Lock lock{redis, "name", {.ttl = 60s, .renew = false}};
  Lock same{other, "name", {.ttl = 60s, .renew = false}};
  auto lease = lock.try_acquire();
  REQUIRE(lease);
  here.proxy.cut_instead_of_reply(reply_to(Asks::release));
  CHECK(lease->release());
  auto const next = same.try_acquire();
  REQUIRE(next);
  CHECK_FALSE(lease->release());
  CHECK(next->held());
  CHECK_FALSE(is_free(here.server, "name"));
}
