// SPDX-License-Identifier: MIT
// A request that was sent and whose answer was lost is in doubt, and is said to be, whatever went wrong after it.
#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::Client;
using mortise::Errc;
using mortise::Lock;
using support::wait_until;

namespace {

/// A client behind the proxy, with a connection, to a server that has seen every script.
struct Doubt : Setting {
  Doubt() {
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    REQUIRE(lease->extend());
    REQUIRE(lease->release());
  }

  Client redis{proxy.uri(), {.command_timeout = 500ms}};
  Lock<> lock{redis, "name", {.ttl = 60s, .renew = false}};
};

}  // namespace

TEST_CASE("a release whose answer was lost is in doubt, also where nobody can be reached afterwards") {
  Doubt here;
  auto lease = here.lock.try_acquire();
  REQUIRE(lease);

  here.proxy.refuse(true);
  here.proxy.cut_instead_of_reply(reply_to(Asks::release));
  auto const error = error_of([&] { lease->release(); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK(error->retryable());
  CHECK_FALSE(lease->held());
  CHECK(is_free(here.server, "name"));

  here.proxy.refuse(false);
  CHECK_FALSE(lease->release());  // it was carried out the first time
}

TEST_CASE("an extension whose answer was lost is in doubt and leaves the deadline where it was") {
  Doubt here;
  auto lease = here.lock.try_acquire();
  REQUIRE(lease);
  std::this_thread::sleep_for(20ms);
  auto const before = lease->remaining();

  here.proxy.refuse(true);
  here.proxy.cut_instead_of_reply(reply_to(Asks::keep));
  auto const error = error_of([&] { lease->extend(); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK(lease->held());
  CHECK(lease->remaining() <= before);

  here.proxy.refuse(false);
  CHECK(lease->extend());
  CHECK(lease->remaining() > before);
}

TEST_CASE("an acquire whose answer was lost is in doubt, and is undone as soon as somebody can be reached") {
  Doubt here;

  here.proxy.refuse(true);
  here.proxy.cut_instead_of_reply(reply_to(Asks::acquire));
  auto const error = error_of([&] { static_cast<void>(here.lock.try_acquire()); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK_FALSE(is_free(here.server, "name"));

  here.proxy.refuse(false);
  CHECK(wait_until([&] { return is_free(here.server, "name"); }, 5s));
}

TEST_CASE("an acquire that is answered by nonsense is undone") {
  Doubt here;

  auto const nonsense = GENERATE(as<std::string>{}, ":1\r\n", "$2\r\nOK\r\n", "*1\r\n:1\r\n", "*3\r\n:1\r\n$1\r\nx\r\n:1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "!\r\n");
  here.proxy.replace_replies(nonsense, support::Proxy::always, reply_to(Asks::acquire));
  auto const error = error_of([&] { static_cast<void>(here.lock.try_acquire()); });
  REQUIRE(error);
  CHECK(error->errc() != Errc::invalid_option);
  CHECK(wait_until([&] { return is_free(here.server, "name"); }, 5s));
}

TEST_CASE("a release or an extension that is answered by nonsense is in doubt") {
  Doubt here;
  auto lease = here.lock.try_acquire();
  REQUIRE(lease);
  here.proxy.replace_replies("$1\r\nx\r\n", 1, reply_to(Asks::keep));
  auto error = error_of([&] { lease->extend(); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK(lease->held());
  here.proxy.replace_replies("$1\r\nx\r\n", 1, reply_to(Asks::release));
  error = error_of([&] { lease->release(); });
  REQUIRE(error);
  CHECK(error->in_doubt());
  CHECK(wait_until([&] { return is_free(here.server, "name"); }, 5s));
}
