// SPDX-License-Identifier: MIT
// Every way in which a server is not to be trusted, or does not trust us, is told in its own words, and at once.
#include "certificates.hpp"

namespace {

/// The same refusal for a try, for a wait, and for a wait without end; none of them tries again.
std::string refused(Client& client) {
  Lock lock{client, "lock"};
  std::string message;
  for (auto const& error : {error_of([&] { return lock.try_acquire(); }), error_of([&] { return lock.acquire_for(1h); }),
                            error_of([&] { return lock.acquire(); })}) {
    REQUIRE(error);
    INFO(error->what());
    CHECK(error->errc() == Errc::connect_failed);
    CHECK_FALSE(error->retryable());
    CHECK_FALSE(error->in_doubt());
    message = error->what();
  }
  return message;
}

std::string refused(std::string const& uri, mortise::TlsOptions options) {
  Client client{uri, {.tls = mortise::tls(std::move(options))}};
  return refused(client);
}

/// What the constructor says.
std::string options_refused(mortise::TlsOptions options) {
  auto const error = error_of([&] { return Client{"rediss://localhost", {.tls = mortise::tls(std::move(options))}}, 0; });
  REQUIRE(error);
  CHECK(error->errc() == Errc::invalid_option);
  return error->what();
}

}  // namespace

TEST_CASE("a server whose authority is not trusted is refused") {
  Authority authority, other;
  TlsServer redis{authority};
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = other.file()}),
             contains("localhost:" + std::to_string(redis.tls_port())) && contains("certificate") && contains("TlsOptions::ca_file"));
  CHECK_THAT(refused(redis.tls_uri(), {}), contains("its authority is not trusted"));  // by default: the system's
  CHECK(redis.keys().empty());
}

TEST_CASE("a certificate that has expired is refused") {
  Authority authority;
  TlsServer redis{authority, {.claims = {.expired = true}}};
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file()}), contains("certificate has expired"));
}

TEST_CASE("a certificate for another name or address is refused, and the name is told") {
  Authority authority;
  TlsServer redis{authority, {.claims = {.names = "DNS:cache.example,IP:192.0.2.1"}}};
  for (std::string const host : {"localhost", "127.0.0.1"})
    CHECK_THAT(refused(redis.tls_uri(host), {.ca_file = authority.file()}),
               contains("not for \"" + host + '"') && contains("TlsOptions::server_name"));
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file(), .server_name = "other.example"}), contains("not for \"other.example\""));
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file(), .server_name = "192.0.2.2"}), contains("not for \"192.0.2.2\""));
}

TEST_CASE("the name to expect can be given, and a wildcard stands for one whole label") {
  Authority authority;
  TlsServer redis{authority, {.claims = {.names = "DNS:*.cache.example,IP:192.0.2.1"}}};
  for (std::string const name : {"one.cache.example", "192.0.2.1"}) {
    Client client{redis.tls_uri(), {.tls = mortise::tls({.ca_file = authority.file(), .server_name = name})}};
    CHECK(Lock{client, "lock"}.try_acquire());
  }
  for (std::string const name : {"cache.example", "a.b.cache.example"})
    CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file(), .server_name = name}), contains("not for"));
}

TEST_CASE("a name with the dot of the root is the name without it") {
  Authority authority;
  TlsServer redis{authority, {.claims = {.names = "DNS:cache.example"}}};
  Client client{redis.tls_uri(), {.tls = mortise::tls({.ca_file = authority.file(), .server_name = "cache.example."})}};
  CHECK(Lock{client, "lock"}.try_acquire());
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file(), .server_name = "other.example."}), contains("not for \"other.example\""));
}

TEST_CASE("authorities can be given as a folder") {
  Authority authority;
  TlsServer redis{authority};
  Client client{redis.tls_uri(), {.tls = mortise::tls({.ca_directory = authority.directory()})}};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("verification can be switched off, and only so") {
  Authority authority;
  TlsServer redis{authority, {.claims = {.names = "DNS:cache.example", .expired = true}}};
  Client client{redis.tls_uri(), {.tls = mortise::tls({.verify = false})}};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("a server that wants a certificate of its clients gets one, or the refusal says so") {
  auto const version = GENERATE(as<std::string>{}, "TLSv1.2", "TLSv1.3");
  Authority authority, other;
  TlsServer redis{authority, {.wants_certificate = true, .config = {"tls-protocols " + version}}};
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file()}), contains("the server wants a certificate"));
  auto const foreign = other.issue();
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file(), .certificate_file = foreign.certificate, .key_file = foreign.key}),
             contains("the server refuses our certificate"));
  auto const ours = authority.issue();
  Client client{redis.tls_uri(),
                {.tls = mortise::tls({.ca_file = authority.file(), .certificate_file = ours.certificate, .key_file = ours.key})}};
  CHECK(Lock{client, "lock"}.try_acquire());
}

TEST_CASE("a port that does not speak TLS is told as that") {
  LockServer redis;
  Client client{"rediss://localhost:" + std::to_string(redis.port()), {.command_timeout = 300ms, .tls = mortise::tls()}};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK_FALSE(error->in_doubt());
  CHECK_THAT(error->what(), contains("does the server speak TLS on this port?"));
}

TEST_CASE("a port that speaks only TLS is told to a redis:// URI") {
  Authority authority;
  TlsServer redis{authority};
  Client client{"redis://localhost:" + std::to_string(redis.tls_port())};
  auto const error = error_of([&] { return Lock{client, "lock"}.try_acquire(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::connect_failed);
  CHECK_THAT(error->what(), contains("rediss://"));
}

TEST_CASE("a server without TLS 1.2 is not talked to") {
  Authority authority;
  TlsServer redis{authority, {.config = {"tls-protocols TLSv1.1", "tls-ciphers DEFAULT@SECLEVEL=0"}}};
  CHECK_THAT(refused(redis.tls_uri(), {.ca_file = authority.file()}), contains("TLS 1.2"));
}

TEST_CASE("rediss:// and TLS options go together, and one without the other is refused by name") {
  CHECK_THAT(error_of([&] { return Client{"rediss://localhost"}, 0; })->what(), contains("rediss://") && contains("mortise/tls.hpp"));
  for (auto const* const uri : {"redis://localhost", "unix:///run/redis.sock"}) {
    auto const error = error_of([&] { return Client{uri, {.tls = mortise::tls()}}, 0; });
    REQUIRE(error);
    CHECK(error->errc() == Errc::invalid_option);
    CHECK_THAT(error->what(), contains("rediss://"));
  }
}

TEST_CASE("a quorum refuses TLS by name") {
  auto const by_uri = error_of([&] { return mortise::Quorum{{"rediss://a", "rediss://b", "rediss://c"}}, 0; });
  REQUIRE(by_uri);
  CHECK(by_uri->errc() == Errc::invalid_option);
  CHECK_THAT(by_uri->what(), contains("rediss://") && contains("Quorum"));
  auto const by_options = error_of([&] { return mortise::Quorum{{"redis://a", "redis://b", "redis://c"}, {.client = {.tls = mortise::tls()}}}, 0; });
  REQUIRE(by_options);
  CHECK_THAT(by_options->what(), contains("tls") && contains("Quorum"));
}

TEST_CASE("files that cannot be used are refused by the constructor, which names option, file and rule") {
  Authority authority;
  auto const identity = authority.issue();
  CHECK_THAT(options_refused({.ca_file = "/nowhere/ca.pem"}), contains("ca_file \"/nowhere/ca.pem\"") && contains("No such file"));
  CHECK_THAT(options_refused({.ca_file = identity.key}), contains("ca_file") && contains("PEM"));
  CHECK_THAT(options_refused({.ca_directory = "/nowhere"}), contains("ca_directory"));
  CHECK_THAT(options_refused({.ca_directory = authority.file()}), contains("ca_directory") && contains("must be a directory"));
  CHECK_THAT(options_refused({.certificate_file = identity.certificate}), contains("give both or none"));
  CHECK_THAT(options_refused({.key_file = identity.key}), contains("give both or none"));
  CHECK_THAT(options_refused({.certificate_file = identity.key, .key_file = identity.key}), contains("certificate_file"));
  CHECK_THAT(options_refused({.certificate_file = identity.certificate, .key_file = identity.certificate}), contains("key_file"));
  auto const other = authority.issue();
  CHECK_THAT(options_refused({.certificate_file = identity.certificate, .key_file = other.key}), contains("key_file"));
}

TEST_CASE("a server name that no certificate can have is refused by the constructor") {
  CHECK_THAT(options_refused({.server_name = std::string(256, 'a')}), contains("server_name") && contains("256 bytes"));
  for (std::string const name : {"two words", "line\nbreak", "caf\xc3\xa9.example", "."})
    CHECK_THAT(options_refused({.server_name = name}), contains("server_name"));
  CHECK_THAT(options_refused({.server_name = std::string{"a\0b", 3}}), contains("server_name"));
}
