// SPDX-License-Identifier: MIT
// `mortise doctor` in front of servers that are bad on purpose: what it says, its exit code, and that it leaves nothing behind.
#if defined(MORTISE_COMMAND)  // its path; absent where the examples are not built

#include <string>
#include <vector>

#include "lock_server.hpp"
#include "support/clock_shim.hpp"
#include "support/processes.hpp"

namespace {

struct Report {
  support::ExitStatus status{};
  std::string text{};

  bool says(std::string const& part) const { return text.find(part) != std::string::npos; }
};

Report doctor(std::string const& uri, std::vector<std::string> const& options = {}) {
  std::vector<std::string> words{MORTISE_COMMAND, "doctor"};
  words.insert(words.end(), options.begin(), options.end());
  support::ChildProcess process{support::Program{.path = "setsid", .arguments = words, .environment = {{"MORTISE_REDIS", uri}}, .with_errors = true}};
  auto text = process.channel().read_all();
  auto const status = process.wait();
  REQUIRE(status);
  return {*status, std::move(text)};
}

/// Exit code and parts of the report, and nothing left at the server.
void diagnosed(LockServer& redis, Report const& report, int code, std::vector<std::string> const& parts) {
  INFO(report.text);
  CHECK(report.status == support::ExitStatus::exited(code));
  for (auto const& part : parts) CHECK_THAT(report.text, contains(part));
  CHECK(redis.keys().empty());
}

}  // namespace

TEST_CASE("the doctor finds nothing wrong with a server that is set up for locks") {
  LockServer redis{{.append_only = true}};
  auto const report = doctor(redis.uri());
  diagnosed(redis, report, 0, {"fine     locks: a scratch lock was taken", "fine     eviction", "fine     persistence", "fine     version: "});
  CHECK_FALSE(report.says("warning"));
  CHECK_FALSE(report.says("error"));
}

TEST_CASE("the doctor warns of a server as it is after its installation") {
  LockServer redis{{.config = {"save 3600 1"}}};
  diagnosed(redis, doctor(redis.uri()), 1, {"warning  persistence: no append-only file", "-> appendonly yes"});
}

TEST_CASE("the doctor finds a policy that evicts, an idle timeout and a memory without disk") {
  LockServer redis{{.config = {"maxmemory 100mb", "maxmemory-policy allkeys-lru", "timeout 5", "tcp-keepalive 0"}}};
  diagnosed(redis, doctor(redis.uri()), 2,
            {"error    eviction: maxmemory-policy is allkeys-lru", "warning  persistence: nothing is written to disk", "warning  timeout: timeout is 5 s",
             "warning  timeout: tcp-keepalive is 0 s"});
}

TEST_CASE("the doctor's JSON is one object that says the same") {
  LockServer redis{{.config = {"maxmemory 100mb", "maxmemory-policy volatile-lru"}}};
  auto const report = doctor(redis.uri(), {"--json"});
  diagnosed(redis, report, 2, {R"("server":")", R"("worst":"error")", R"({"severity":"error","about":"eviction","says":"maxmemory-policy is volatile-lru)",
                               R"("advice":null})"});
  CHECK(std::ranges::count(report.text, '\n') == 1);
  CHECK(report.text.front() == '{');
  CHECK(report.text.ends_with("]}\n"));
}

TEST_CASE("the doctor names the rights that a user lacks, by trying") {
  LockServer redis{{.users = {"nothing on >pw ~* &* -@all", "nopop on >pw ~* &* +@all -blpop", "keys on >pw ~job:* ~{job:*}:* &* +@all"}}};
  diagnosed(redis, doctor(redis.uri("nothing", "pw")), 2,
            {"error    rights: cannot take a lock", "ACL SETUSER nothing +eval +evalsha", "warning  info: INFO is refused", "warning  config: CONFIG GET is refused"});
  diagnosed(redis, doctor(redis.uri("nopop", "pw")), 2, {"error    rights: cannot wait for a lock", "ACL SETUSER nopop +blpop"});
  auto const keys = doctor(redis.uri("keys", "pw"));
  diagnosed(redis, keys, 2, {"ACL SETUSER keys ~lock:mortise-doctor-", "--prefix"});
  diagnosed(redis, doctor(redis.uri("keys", "pw"), {"--prefix", "job:"}), 1, {"fine     locks"});
}

TEST_CASE("with no more than the documented rights the doctor says what it could not look at, and that locks work") {
  LockServer redis{{.users = {"locker on >pw resetchannels -@all ~lock:* ~{lock:*}:* +eval +evalsha +blpop +time +get +set +exists +pttl +pexpire "
                              "+del +lpop +rpush +lrem"}}};
  diagnosed(redis, doctor(redis.uri("locker", "pw")), 1,
            {"fine     locks", "warning  info", "warning  config", "warning  rights: cannot ask replicas to confirm", "+wait"});
}

TEST_CASE("the doctor tells a server that does not have INFO or CONFIG at all") {
  LockServer redis{{.config = {"rename-command INFO \"\"", "rename-command CONFIG \"\""}}};
  diagnosed(redis, doctor(redis.uri()), 1, {"warning  info: INFO is refused", "unknown command", "warning  config", "fine     locks"});
}

TEST_CASE("the doctor tells replicas that need not keep up, a replica, and a server that misses its replicas") {
  LockServer primary{{.append_only = true}};
  LockServer replica;
  replica.replica_of(primary);
  diagnosed(primary, doctor(primary.uri()), 1, {"warning  replication: 1 replicas, and none has to keep up"});
  auto const at_replica = doctor(replica.uri());
  CHECK(at_replica.status == support::ExitStatus::exited(2));
  CHECK_THAT(at_replica.text, contains("error    replication: this server is a replica") && contains("error    locks: cannot take a lock"));
  primary.config_set("min-replicas-to-write", "2");
  diagnosed(primary, doctor(primary.uri()), 2, {"error    replication: min-replicas-to-write is 2, and 1 are in reach", "NOREPLICAS"});
}

TEST_CASE("the doctor sees that the server's clock is far away") {
  support::ClockShim clock;
  LockServer redis{{.environment = clock.environment()}};
  clock.set_offset(2h);
  diagnosed(redis, doctor(redis.uri()), 1, {"warning  clock: the server's clock and this one are 7"});
}

TEST_CASE("the doctor tells a cluster with slots missing, also where it is asked as one server") {
  LockServer redis{{.config = {"cluster-enabled yes"}}};
  for (int slot = 0; slot < 100; ++slot) redis.command({"CLUSTER", "ADDSLOTS", std::to_string(slot)});
  auto const report = doctor(redis.uri());
  INFO(report.text);
  CHECK(report.status == support::ExitStatus::exited(2));
  CHECK_THAT(report.text, contains("error    cluster: 100 of 16384 slots are assigned") && contains("redis+cluster://"));
}

TEST_CASE("a server that is not there, or refuses the login, is exit code 69, and a wrong command line 64") {
  auto const gone = [] {
    LockServer redis;
    return redis.uri();
  }();
  CHECK(doctor(gone).status == support::ExitStatus::exited(69));
  LockServer redis{{.password = "word"}};
  auto const wrong = doctor("redis://:other-word@127.0.0.1:" + std::to_string(redis.port()));
  CHECK(wrong.status == support::ExitStatus::exited(69));
  CHECK_THAT(wrong.text, contains("WRONGPASS") && !contains("other-word"));
  for (std::vector<std::string> const& words :
       {std::vector<std::string>{"a", "b"}, {"--ttl", "1s"}, {"--prefix"}, {"ftp://host"}, {"--", "true"}, {"redis://localhost", "--insecure"}})
    CHECK(doctor(redis.uri(), words).status == support::ExitStatus::exited(64));
}

#endif
