// SPDX-License-Identifier: MIT
// The command `mortise` over TLS.
#if defined(MORTISE_COMMAND)

#include "certificates.hpp"
#include "support/processes.hpp"

namespace {

struct Ended {
  support::ExitStatus status{};
  std::string text{};
};

Ended ended(std::vector<std::string> words, std::string const& uri) {
  words.insert(words.begin(), MORTISE_COMMAND);
  support::ChildProcess process{support::Program{.path = "setsid", .arguments = words, .environment = {{"MORTISE_REDIS", uri}}, .with_errors = true}};
  auto text = process.channel().read_all();
  auto const status = process.wait();
  REQUIRE(status);
  return {*status, std::move(text)};
}

}  // namespace

TEST_CASE("the command runs, looks, breaks and diagnoses over TLS, with redis-cli's options for it") {
  Authority authority;
  TlsServer redis{authority, {.claims = {.names = "DNS:cache.example"}, .wants_certificate = true}};
  auto const ours = authority.issue();
  std::vector<std::string> const tls{"--cacert", authority.file(), "--cert", ours.certificate, "--key=" + ours.key, "--sni", "cache.example"};
  auto const with_tls = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, tls.begin(), tls.end());
    return ended(words, redis.tls_uri());
  };
  auto const run = with_tls({"run", "job", "--", "sh", "-c", "echo $MORTISE_FENCE"});
  CHECK(run.status == support::ExitStatus::exited(0));
  CHECK(run.text == redis.get(fence_key("job")).value_or("") + "\n");
  CHECK(with_tls({"status", "job"}).status == support::ExitStatus::exited(0));
  redis.command({"SET", "job", "somebody", "PX", "600000"});
  CHECK(with_tls({"status", "job"}).status == support::ExitStatus::exited(1));
  CHECK(with_tls({"break", "job"}).status == support::ExitStatus::exited(0));
  CHECK_FALSE(redis.exists("job"));
  auto const report = with_tls({"doctor"});
  CHECK(report.status == support::ExitStatus::exited(1));  // no append-only file
  CHECK_THAT(report.text, contains("fine     tls: encrypted"));
}

TEST_CASE("the command says why TLS fails, by exit code 69, and where its options do not belong, by 64") {
  Authority authority;
  TlsServer redis{authority};
  auto const refused = ended({"doctor"}, redis.tls_uri());
  CHECK(refused.status == support::ExitStatus::exited(69));
  CHECK_THAT(refused.text, contains("authority is not trusted"));
  auto const insecure = ended({"doctor", "--insecure"}, redis.tls_uri());
  CHECK(insecure.status == support::ExitStatus::exited(1));
  CHECK_THAT(insecure.text, contains("warning  tls: the server's certificate is not verified"));
  CHECK(ended({"status", "job", "--cacert", authority.file()}, redis.uri()).status == support::ExitStatus::exited(64));
  CHECK(ended({"status", "job", "--cacert", "/nowhere"}, redis.tls_uri()).status == support::ExitStatus::exited(64));
}

#endif
