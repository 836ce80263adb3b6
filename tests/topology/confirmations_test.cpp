// SPDX-License-Identifier: MIT
// Grants that replicas must have on disk: what is asked, and what becomes of each answer. The server is played.
#include "fake_node.hpp"

namespace topology {

namespace {

ClientOptions on_disk() {
  ClientOptions options;
  options.replicas = 2;
  options.replicas_timeout = 40ms;
  options.replicas_fsync = true;
  return options;
}

}  // namespace

TEST_CASE("replicas_fsync asks for WAITAOF, and counts replicas, not the server's own disk") {
  FakeNode node;
  std::atomic<int> confirmed{2};
  node.answers([&](Words const& words) -> std::optional<FakeReply> {
    if (words[0] == "WAITAOF") return FakeReply{.bytes = array({support::number(1), support::number(confirmed)})};
    return std::nullopt;
  });
  Client client{"redis://" + node.host_and_port(), on_disk()};
  Lock lock{client, "lock"};
  CHECK(lock.try_acquire());
  auto const seen = node.requests();
  CHECK(std::find(seen.begin(), seen.end(), Words{"WAITAOF", "0", "2", "40"}) != seen.end());
  confirmed = 1;
  auto const error = error_of([&] { return lock.try_acquire(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), contains("only 1 of 2"));
  CHECK(wait_until([&] { return node.count(Asks::release) >= 2; }));  // undone
}

TEST_CASE("a server that has no WAITAOF refuses for good, and the grant is undone") {
  FakeNode node;
  node.answers([](Words const& words) -> std::optional<FakeReply> {
    if (words[0] == "WAITAOF") return FakeReply{.bytes = refused("ERR unknown command 'WAITAOF', with args beginning with: '0' '2' '40' ")};
    return std::nullopt;
  });
  Client client{"redis://" + node.host_and_port(), on_disk()};
  auto const error = error_of([&] { return Lock{client, "lock"}.acquire(); });
  REQUIRE(error);
  CHECK_FALSE(error->retryable());
  CHECK_THAT(error->what(), contains("WAITAOF"));
  CHECK(wait_until([&] { return node.count(Asks::release) >= 1; }));
}

TEST_CASE("replicas_fsync without replicas is refused before anything is sent") {
  ClientOptions options;
  options.replicas_fsync = true;
  auto const error = error_of([&] { return Client{"redis://127.0.0.1:1", options}, 0; });
  REQUIRE(error);
  CHECK(error->errc() == Errc::invalid_option);
  CHECK_THAT(error->what(), contains("replicas_fsync") && contains("replicas is 0"));
}

}  // namespace topology
