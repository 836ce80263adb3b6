// SPDX-License-Identifier: MIT
// The command `mortise` with the URIs of a cluster and of a Sentinel group.
#if defined(MORTISE_COMMAND)  // its path; absent where the examples are not built

#include "real_nodes.hpp"
#include "support/processes.hpp"

namespace topology {

namespace {

struct Said {
  support::ExitStatus status{};
  std::string text{};
};

Said said_by(std::string const& uri, Words const& arguments) {
  support::ChildProcess process{support::Program{.path = MORTISE_COMMAND, .arguments = arguments, .environment = {{"MORTISE_REDIS", uri}}, .with_errors = true}};
  auto text = process.channel().read_all();
  auto const status = process.wait();
  REQUIRE(status);
  return {*status, std::move(text)};
}

void run_show_and_break(std::string const& uri) {
  Client client{uri};
  for (std::string const name : {"lock:a", "lock:b", "{x}lock:c"}) {
    CAPTURE(name);
    auto const ran = said_by(uri, {"run", name, "--", "sh", "-c", "echo fence=$MORTISE_FENCE"});
    CHECK(ran.status == support::ExitStatus::exited(0));
    CHECK_THAT(ran.text, contains("fence=1"));
    CHECK_THAT(said_by(uri, {"status", name}).text, contains("is free"));
    auto const lease = Lock{client, name}.acquire();
    CHECK_THAT(said_by(uri, {"status", name}).text, contains("is held by") && contains(std::to_string(lease.fence().value)));
    CHECK(said_by(uri, {"run", name, "--", "true"}).status == support::ExitStatus::exited(75));
    CHECK(said_by(uri, {"break", name}).status == support::ExitStatus::exited(0));
    CHECK_THAT(said_by(uri, {"status", name}).text, contains("is free"));
  }
}

}  // namespace

TEST_CASE("run, status and break work in a cluster, whose unlockable names they refuse as wrong usage") {
  ClusterNodes cluster{{.replicas = false}};
  run_show_and_break(cluster.uri());
  for (std::string const verb : {"status", "break"}) {
    auto const refused = said_by(cluster.uri(), {verb, "a}b"});
    CHECK(refused.status == support::ExitStatus::exited(64));
    CHECK_THAT(refused.text, contains("{tag}"));
  }
  CHECK(said_by(cluster.uri(), {"run", "a}b", "--", "true"}).status == support::ExitStatus::exited(64));
}

TEST_CASE("run, status and break work with Sentinels") {
  support::RedisServer primary;
  FakeSentinel const sentinel{primary.port()};
  run_show_and_break(sentinel_uri(sentinel));
  auto const unknown = said_by("redis+sentinel://127.0.0.1:1/group", {"status", "lock"});
  CHECK(unknown.status == support::ExitStatus::exited(69));
  CHECK_THAT(unknown.text, contains("127.0.0.1:1"));
}

}  // namespace topology

#endif
