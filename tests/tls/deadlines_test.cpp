// SPDX-License-Identifier: MIT
// Deadlines hold during the handshake too.
#include "certificates.hpp"
#include "support/sockets.hpp"
#include "support/waiting.hpp"

namespace {

/// Accepts in the kernel and never says a word.
struct MuteListener {
  std::uint16_t port{0};
  support::Descriptor socket{support::listen_on_free_port(port)};
};

}  // namespace

TEST_CASE("a server that never answers the handshake costs a try its command timeout, and a wait its deadline") {
  MuteListener const mute;
  Client client{"rediss://127.0.0.1:" + std::to_string(mute.port), {.command_timeout = 200ms, .connect_timeout = 150ms, .tls = mortise::tls()}};
  Lock lock{client, "lock"};
  std::optional<Errc> errc;
  CHECK(time_of([&] { errc = errc_of([&] { return lock.try_acquire(); }); }) < 2s);
  CHECK(errc == Errc::connect_failed);
  auto const waited = time_of([&] { errc = errc_of([&] { return lock.acquire_for(400ms); }); });
  CHECK(waited >= 400ms);
  CHECK(waited < 2s);
  CHECK(errc == Errc::connect_failed);
}

TEST_CASE("a server that is frozen in the handshake costs no more than that, and serves again when it is thawed") {
  Authority authority;
  TlsServer redis{authority};
  Client client{redis.tls_uri(), {.command_timeout = 200ms, .tls = mortise::tls({.ca_file = authority.file()})}};
  Lock lock{client, "lock"};
  redis.freeze();
  CHECK(time_of([&] { CHECK(errc_of([&] { return lock.try_acquire(); }) == Errc::connect_failed); }) < 2s);
  redis.thaw();
  CHECK(lock.acquire_for(10s));
}

TEST_CASE("a wait can be cancelled during the handshake") {
  MuteListener const mute;
  Client client{"rediss://127.0.0.1:" + std::to_string(mute.port), {.connect_timeout = 1min, .tls = mortise::tls()}};
  Lock lock{client, "lock"};
  std::stop_source cancel;
  support::Waiting waiting{[&] { return lock.acquire(cancel.get_token()).has_value(); }};
  REQUIRE(waiting.asleep());
  cancel.request_stop();
  CHECK(waiting.over_within(soon));
  CHECK_FALSE(waiting.get());
}

TEST_CASE("an acquire whose answer is late is undone over TLS as well") {
  Authority authority;
  TlsServer redis{authority};
  Client client{redis.tls_uri(), {.command_timeout = 200ms, .tls = mortise::tls({.ca_file = authority.file()})}};
  Lock lock{client, "lock"};
  REQUIRE(lock.try_acquire());
  redis.freeze();
  CHECK(errc_of([&] { return lock.try_acquire(); }) == Errc::in_doubt);
  redis.thaw();
  CHECK(wait_until([&] { return !redis.exists("lock"); }));
}
