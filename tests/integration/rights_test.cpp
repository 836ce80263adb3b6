// SPDX-License-Identifier: MIT
// ACL users: everything works with the rights that docs/deployment.md lists, and a right that is missing is told by name.
#include <atomic>
#include <fstream>
#include <iterator>

#include "lock_server.hpp"
#include "support/waiting.hpp"

using support::Waiting;

namespace {

// As they stand in docs/deployment.md.
constexpr auto* rights_of_locks = "~lock:* ~{lock:*}:* +eval +evalsha +blpop +time +get +set +exists +pttl +pexpire +del +lpop +rpush +lrem";
constexpr auto* rights_of_names = "+client|setname";
constexpr auto* rights_of_databases = "+select";
constexpr auto* rights_of_replicas = "+wait";
constexpr auto* rights_of_disks = "+waitaof";
constexpr auto* rights_of_nodes = "+info";
constexpr auto* rights_of_tracking = "&__redis__:invalidate +client|id +client|tracking +subscribe";
constexpr auto* rights_of_counters = "+incr";
constexpr auto* rights_of_rooms = "+pexpireat +zadd +zcard +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore";
constexpr auto* rights_of_several = "+lindex";

std::string user_with(std::string const& rights) { return "locker on >pw resetchannels -@all " + rights; }

/// Whatever an exclusive lock does: a try, a wait and its hand-off, renewal, extension, a release in each of its forms.
void use_locks(LockServer& redis, Client& client) {
  auto lease = Lock{client, "lock:a", {.ttl = 500ms}}.acquire();
  Waiting waiting{[&] { return Lock{client, "lock:a"}.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  CHECK_FALSE(Lock{client, "lock:a"}.try_acquire());
  std::this_thread::sleep_for(1200ms);
  CHECK(lease.confirm());
  CHECK(lease.extend(1min));
  CHECK(lease.release());
  auto second = waiting.get();
  CHECK(second.held());
  redis.set("lock:a", "another client");  // taken over: the release is answered "not yours"
  redis.command({"SET", wait_key("lock:a"), "1", "PX", "3000"});
  CHECK_FALSE(second.release());
  redis.command({"DEL", "lock:a", wait_key("lock:a")});
  redis.set(fence_key("lock:a"), "12");  // a reservation that nobody popped
  redis.command({"RPUSH", wake_key("lock:a"), "12"});
  redis.set("lock:a", "h:12");
  CHECK(Lock{client, "lock:a"}.try_acquire());
}

/// The refusal that a call ends with, whatever call it is.
template <class Call>
void denied(LockServer& redis, char const* user, std::string const& told, Call const& call) {
  Client client{redis.uri(user, "pw"), {.client_name = "visible"}};
  Lock lock{client, "lock:a"};
  auto const error = error_of([&] { return call(lock); });
  REQUIRE(error);
  INFO(user << ": " << error->what());
  CHECK(error->errc() == Errc::no_permission);
  CHECK_FALSE(error->retryable());
  CHECK_FALSE(error->in_doubt());
  CHECK_THAT(error->what(), contains(told) && contains(std::string{"ACL SETUSER "} + user + " ") && !contains("visible#"));
}

}  // namespace

TEST_CASE("everything a lock does works with the rights that the documentation lists") {
  LockServer redis{{.users = {user_with(rights_of_locks)}}};
  Client client{redis.uri("locker", "pw")};
  use_locks(redis, client);
}

TEST_CASE("names, databases, replicas and tracking work with the rights that the documentation lists for them") {
  LockServer redis{{.users = {user_with(std::string{rights_of_locks} + ' ' + rights_of_names + ' ' + rights_of_databases + ' ' +
                                        rights_of_replicas + ' ' + rights_of_tracking)}}};
  LockServer replica;
  replica.replica_of(redis);
  std::atomic<bool> degraded{false};
  Client client{redis.uri("locker", "pw"),
                {.client_name = "somebody",
                 .replicas = 1,
                 .replicas_timeout = 20s,
                 .observer = [&](mortise::Event const& event) { degraded = degraded || event.kind == mortise::Event::Kind::degraded; },
                 .tracking = true}};
  use_locks(redis, client);
  auto const lease = Lock{client, "lock:b", {.ttl = 1h}}.acquire();
  CHECK(std::ranges::any_of(redis.client_list(), [](auto const& one) { return one.at("name") == "somebody"; }));
  CHECK(wait_until([&] {
    redis.command({"DEL", "lock:b"});
    return !lease.held();
  }));
  CHECK_FALSE(degraded);
  Client elsewhere{redis.uri("locker", "pw") + "/3"};
  CHECK(Lock{elsewhere, "lock:a"}.try_acquire());
}

TEST_CASE("replicas' disks are asked with the right that the documentation lists for them") {
  support::ServerOptions const options{.users = {user_with(rights_of_locks)}, .append_only = true};
  LockServer redis{options};
  LockServer replica{options};
  replica.replica_of(redis);
  if (redis.command({"ACL", "SETUSER", "locker", rights_of_disks}).text != "OK") {  // before Redis 7.2
    Client client{redis.uri("locker", "pw"), {.replicas = 1, .replicas_fsync = true}};
    auto const error = error_of([&] { static_cast<void>(Lock{client, "lock:a"}.try_acquire()); });
    REQUIRE(error);
    CHECK_THAT(error->what(), contains("unknown command"));
    CHECK(wait_until([&] { return !redis.exists("lock:a"); }));
    return;
  }
  Client client{redis.uri("locker", "pw"), {.replicas = 1, .replicas_timeout = 20s, .replicas_fsync = true}};
  CHECK(Lock{client, "lock:a"}.acquire_for(30s));
}

TEST_CASE("a restarted node of a quorum is found out with the right that the documentation lists for it") {
  std::deque<LockServer> nodes;
  std::vector<std::string> uris;
  for (int i = 0; i < 3; ++i) {
    auto& node = nodes.emplace_back(support::ServerOptions{.users = {user_with(std::string{rights_of_locks} + ' ' + rights_of_nodes)}});
    uris.push_back(node.uri("locker", "pw"));
  }
  mortise::Quorum quorum{uris, {.quarantine = 1h}};
  Lock lock{quorum, "lock:a"};
  CHECK(lock.acquire_for(30s)->release());
  nodes[0].restart(LockServer::Data::lost);
  nodes[1].restart(LockServer::Data::lost);
  std::optional<Error> error;
  CHECK(wait_until([&] {
    error = error_of([&] { static_cast<void>(lock.try_acquire()); });
    return error && std::string_view{error->what()}.find("quarantine") != std::string_view::npos;
  }));
  CHECK((error && error->errc() == Errc::no_quorum));
}

TEST_CASE("counters and guarded writes work with the rights that the documentation lists for them") {
  LockServer redis{{.users = {user_with(std::string{"~lock:* ~{lock:*}:* +eval +evalsha +get +set "} + rights_of_counters)}}};
  Client client{redis.uri("locker", "pw")};
  mortise::FencingCounter counter{client, "lock:counter"};
  CHECK(counter.next() == Fence{1});
  CHECK(counter.last() == Fence{1});
  CHECK(mortise::fenced_set(client, "lock:value", "x", Fence{5}));
  CHECK_FALSE(mortise::fenced_set(client, "lock:value", "y", Fence{4}));
}

TEST_CASE("shared locks, semaphores and several locks at once work with the rights that the documentation lists for them") {
  LockServer redis{{.users = {user_with(std::string{rights_of_locks} + ' ' + rights_of_rooms + ' ' + rights_of_several)}}};
  Client client{redis.uri("locker", "pw")};
  mortise::SharedLock shared{client, "lock:shared", {.ttl = 500ms}};
  auto reader = shared.try_acquire_shared();
  REQUIRE(reader);
  CHECK(shared.try_acquire_shared());
  CHECK_FALSE(shared.try_acquire());
  Waiting writer{[&] { return shared.acquire_for(20s).has_value(); }};
  REQUIRE(redis.has_blocked(1));
  std::this_thread::sleep_for(1200ms);
  CHECK(reader->confirm());
  CHECK(reader->release());
  CHECK(writer.get());
  mortise::Semaphore permits{client, "lock:permits", 1};
  auto permit = permits.try_acquire();
  REQUIRE(permit);
  Waiting next{[&] { return permits.acquire_for(20s).has_value(); }};
  REQUIRE(redis.has_blocked(1));
  CHECK_FALSE(permits.try_acquire());
  CHECK(permit->release());
  CHECK(next.get());
  Lock one{client, "lock:one"};
  Lock other{client, "lock:other"};
  CHECK(mortise::acquire_all(one, other).held());
}

TEST_CASE("the documentation lists these rights") {
  std::ifstream file{MORTISE_DEPLOYMENT_DOCUMENT};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::erase(text, '\\');  // a bar in a table is escaped
  for (auto const* const rights :
       {rights_of_locks, rights_of_names, rights_of_databases, rights_of_replicas, rights_of_disks, rights_of_nodes, rights_of_tracking, rights_of_counters, rights_of_rooms, rights_of_several})
    CHECK_THAT(text, contains(rights));
}

TEST_CASE("a right that is missing is told by name with the line that grants it, to tries and to waits, and is never busy") {
  LockServer redis{{.users = {"noscripts on >pw ~* &* +@all -eval -evalsha", "noeval on >pw ~* &* +@all -eval", "nokeys on >pw ~other:* &* +@all",
                              "nopop on >pw ~* &* +@all -blpop", "noset on >pw ~* &* +@all -set", "notime on >pw ~* &* +@all -time",
                              "readonly on >pw ~* &* -@all +@read +@connection +eval +evalsha +time"}}};
  auto const tries = [](auto& lock) { return lock.try_acquire(); };
  auto const waits = [](auto& lock) { return lock.acquire(); };
  auto const each = [&](char const* user, std::string const& told) {
    denied(redis, user, told, tries);
    denied(redis, user, told, waits);
  };
  each("noscripts", "+eval");
  each("noeval", "+eval");
  each("nokeys", "~lock:a ~{lock:a}:*");
  each("noset", "+set");
  each("notime", "+time");
  each("readonly", "+set");
  CHECK(redis.keys().empty());
  Client holder{redis.unix_uri()};
  auto const lease = Lock{holder, "lock:a"}.acquire();
  denied(redis, "nopop", "+blpop", waits);
  denied(redis, "nokeys", "~lock:a ~{lock:a}:*", waits);
}

TEST_CASE("a prefix that covers the lock's key but not those beside it is told as missing keys") {
  LockServer redis{{.users = {"prefix on >pw ~lock:* &* +@all"}}};
  denied(redis, "prefix", "~lock:a ~{lock:a}:*", [](auto& lock) { return lock.try_acquire(); });
  Client client{redis.uri("prefix", "pw")};
  CHECK(Lock{client, "lock:{a}"}.try_acquire());  // a name with a tag of its own: its keys begin with it
}

TEST_CASE("a right that is taken away while a lock is held ends its renewal, and the release is refused by name") {
  LockServer redis{{.users = {"alice on >pw ~* &* +@all"}}};
  Client client{redis.uri("alice", "pw")};
  auto lease = Lock{client, "lock:a", {.ttl = 500ms}}.acquire();
  redis.command({"ACL", "SETUSER", "alice", "-pexpire", "-del"});
  CHECK(wait_until([&] { return !lease.held() && !redis.exists("lock:a"); }));
  auto again = Lock{client, "lock:a"}.try_acquire();
  REQUIRE(again);
  auto const error = error_of([&] { return again->release(); });
  REQUIRE(error);
  CHECK(error->errc() == Errc::no_permission);
  redis.command({"ACL", "SETUSER", "alice", "+pexpire", "+del"});
  again->release();  // or the keeper has done it already
  CHECK_FALSE(redis.exists("lock:a"));
}

TEST_CASE("a waiter whose right is taken away while it waits is told so") {
  LockServer redis{{.users = {"alice on >pw ~* &* +@all"}}};
  Client holder{redis.unix_uri()};
  auto const lease = Lock{holder, "lock:a"}.acquire();
  Client client{redis.uri("alice", "pw")};
  Waiting waiting{[&] { return errc_of([&] { return Lock{client, "lock:a"}.acquire(); }); }};
  REQUIRE(redis.has_blocked(1));
  redis.command({"ACL", "SETUSER", "alice", "-eval", "-evalsha"});
  CHECK(waiting.get() == Errc::no_permission);
}

TEST_CASE("a user who may run EVAL but not EVALSHA has everything, and is refused once for each connection") {
  LockServer redis{{.users = {"plain on >pw ~* &* +@all -evalsha"}}};
  Client client{redis.uri("plain", "pw")};
  use_locks(redis, client);
  Lock lock{client, "lock:b"};
  for (int i = 0; i < 100; ++i) CHECK(lock.try_acquire());
  std::vector<Lease> leases;
  for (int i = 0; i < 200; ++i) leases.push_back(Lock{client, "lock:" + std::to_string(i), {.ttl = 1s}}.acquire());
  std::this_thread::sleep_for(2s);
  CHECK(std::ranges::all_of(leases, [](Lease& lease) { return lease.confirm(); }));
  std::int64_t refused = 0;
  for (auto const& [name, value] : redis.info("commandstats"))
    if (name == "cmdstat_evalsha") refused = std::stoll(value.substr(value.find("rejected_calls=") + 15));
  CHECK(refused > 0);
  CHECK(refused <= 200);
}

TEST_CASE("a user who may not use what an option needs is told by name, and nothing is left") {
  LockServer redis{{.users = {"nowait on >pw ~* &* +@all -wait", "noselect on >pw ~* &* +@all -select"}}};
  Client replicated{redis.uri("nowait", "pw"), {.replicas = 1}};
  for (auto const& error : {error_of([&] { return Lock{replicated, "lock:a"}.try_acquire(); }),
                            error_of([&] { return Lock{replicated, "lock:a"}.acquire(); })}) {
    REQUIRE(error);
    CHECK(error->errc() == Errc::no_permission);
    CHECK_THAT(error->what(), contains("ACL SETUSER nowait +wait"));
  }
  CHECK(wait_until([&] { return !redis.exists("lock:a"); }));
  Client elsewhere{redis.uri("noselect", "pw") + "/3"};
  CHECK_THAT(error_of([&] { return Lock{elsewhere, "lock:a"}.try_acquire(); })->what(), contains("ACL SETUSER noselect +select"));
}
