// SPDX-License-Identifier: MIT
// ACL users with the rights that docs/deployment.md lists, and no other: in a cluster, behind Sentinels, and for the doctor there.
#include <fstream>
#include <iterator>

#include "real_nodes.hpp"
#include "support/processes.hpp"

namespace topology {
namespace {

// As they stand in docs/deployment.md.
constexpr auto* rights_to_lock = "~lock:* ~{lock:*}:* +eval +evalsha +blpop +time +get +set +exists +pttl +pexpire +del +lpop +rpush +lrem";
constexpr auto* rights_in_a_cluster = "+cluster|slots +asking";
constexpr auto* rights_behind_sentinels = "+role";
constexpr auto* rights_at_the_sentinels = "+sentinel|get-master-addr-by-name +sentinel|sentinels";
constexpr auto* rights_of_the_doctor = "+info +config|get";
constexpr auto* rights_of_the_doctor_in_a_cluster = "+cluster|info";

void admit(support::RedisServer& server, std::vector<std::string> const& rights) {
  std::vector<std::string> words{"ACL", "SETUSER", "locker", "on", ">pw", "resetchannels", "-@all"};
  for (auto const& some : rights) {
    std::istringstream each{some};
    std::copy(std::istream_iterator<std::string>{each}, {}, std::back_inserter(words));
  }
  REQUIRE(server.command(words).text == "OK");
}

std::string as_locker(std::string const& uri) {
  auto const host = uri.find("://") + 3;
  return uri.substr(0, host) + "locker:pw@" + uri.substr(host);
}

/// A try, a wait with its hand-off, an extension, a release.
void use_lock(Client& client, std::string const& name) {
  Lock lock{client, name};
  auto lease = lock.acquire_for(20s);
  REQUIRE(lease);
  CHECK_FALSE(lock.try_acquire());
  Waiting waiting{[&] { return lock.acquire_for(20s); }};
  REQUIRE(waiting.asleep());
  CHECK(lease->extend());
  CHECK(lease->release());
  auto next = waiting.get();
  REQUIRE(next);
  CHECK(next->release());
}

}  // namespace

TEST_CASE("locks work in a cluster with the rights that the documentation lists, also where a slot is moving") {
  ClusterNodes cluster{{.replicas = false}};
  for (std::size_t node = 0; node < cluster.size(); ++node) admit(cluster.node(node), {rights_to_lock, rights_in_a_cluster});
  Client client{as_locker(cluster.uri())};
  for (std::size_t node = 0; node < cluster.size(); ++node) use_lock(client, cluster.name_at(node, "lock:"));
  auto const name = cluster.name_at(0, "lock:moving:");
  auto const slot = cluster.slot(name);
  auto lease = Lock{client, name}.acquire_for(20s);
  REQUIRE(lease);
  cluster.begin_move(slot, 0, 1);
  cluster.move_keys(slot, 0, 1);
  CHECK(lease->extend());  // its keys are not where they were: ASK
  CHECK(cluster.node(1).info("commandstats").contains("cmdstat_asking"));
  cluster.end_move(slot, 0, 1);
  CHECK(lease->release());
  use_lock(client, name);
}

TEST_CASE("locks work behind Sentinels with the rights that the documentation lists, through a failover") {
  SentinelNodes group;
  for (std::size_t i = 0; i < 3; ++i) {
    admit(group.server(i), {rights_to_lock, rights_behind_sentinels});
    admit(group.sentinel(i), {rights_at_the_sentinels});
  }
  Client client{as_locker(group.uri()), {.sentinel_username = "locker", .sentinel_password = "pw"}};
  use_lock(client, "lock:before");
  group.fail_over();
  use_lock(client, "lock:after");
}

#if defined(MORTISE_COMMAND)
TEST_CASE("the doctor sees everything with the rights that the documentation lists for it") {
  auto const examine = [](std::string const& uri) {
    support::ChildProcess process{support::Program{.path = MORTISE_COMMAND, .arguments = {"doctor"}, .environment = {{"MORTISE_REDIS", uri}}, .with_errors = true}};
    auto const text = process.channel().read_all();
    static_cast<void>(process.wait());
    return text;
  };
  ClusterNodes cluster{{.replicas = false}};
  for (std::size_t node = 0; node < cluster.size(); ++node)
    admit(cluster.node(node), {rights_to_lock, rights_in_a_cluster, rights_of_the_doctor, rights_of_the_doctor_in_a_cluster});
  auto const report = examine(as_locker(cluster.uri()));
  INFO(report);
  CHECK_THAT(report, contains("fine     locks") && contains("fine     version") && contains("fine     eviction") && contains("fine     cluster"));
  CHECK_THAT(report, !contains("warning  info") && !contains("warning  config") && !contains("warning  cluster"));
}
#endif

TEST_CASE("the documentation lists these rights for groups of servers") {
  std::ifstream file{MORTISE_DEPLOYMENT_DOCUMENT};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::erase(text, '\\');  // a bar in a table is escaped
  for (auto const* const rights : {rights_to_lock, rights_in_a_cluster, rights_behind_sentinels, rights_at_the_sentinels, rights_of_the_doctor,
                                   rights_of_the_doctor_in_a_cluster})
    CHECK_THAT(text, contains(rights));
}

}  // namespace topology
