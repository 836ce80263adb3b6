// SPDX-License-Identifier: MIT
// A lock that goes from thread to thread of one Client: whoever releases it asks for it in the name of the next, in one write.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"
#include "support/waiting.hpp"

using namespace faults;
using mortise::Client;
using mortise::Fence;
using mortise::Lease;
using mortise::Lock;
using support::Direction;
using support::RedisServer;
using support::Waiting;
using support::wait_until;

namespace {

using Waiter = Waiting<std::optional<Lease>>;

/// A holder, and a thread of the same Client that waits for its release without having said a word. It does so for a moment
/// only, so on a busy machine it may take several rounds until a release meets it.
class Handover {
 public:
  explicit Handover(mortise::ClientOptions options = {}) : redis{here.proxy.uri(), std::move(options)} {
    Lock{redis, "warm"}.acquire().release();
  }

  void begin(std::function<std::optional<Lease>(Lock<>&)> const& wait) {
    REQUIRE(wait_until([&] {
      waiter.reset();
      here.proxy.record();
      here.proxy.clear_record();
      holder.emplace(lock.acquire());
      waiter = std::make_unique<Waiter>([this, wait] { return wait(lock); });
      if (waiter->asleep(3) && count(here.proxy, Asks::acquire) == 1) return true;
      holder.reset();
      waiter->get();
      return false;
    }));
  }

  /// Whether the release was met: the next request was in the waiter's name.
  bool met() const {
    std::vector<Asks> said;
    for (auto const& request : here.proxy.recorded(Direction::request))
      if (auto const what = asks(request); what == Asks::acquire || what == Asks::release || what == Asks::pop) said.push_back(what);
    return said.size() >= 3 && said[0] == Asks::acquire && said[1] == Asks::release && said[2] == Asks::acquire;
  }

  /// Another round: what is left of this one goes.
  void again() {
    static_cast<void>(error_of([&] { static_cast<void>(waiter->get()); }));
    waiter.reset();
    holder.reset();
  }

  /// Rounds of `round`, the waiting by `wait`, until its release meets the waiter.
  void pass_on(std::function<std::optional<Lease>(Lock<>&)> const& wait, std::function<void()> const& round) {
    for (int rounds = 0;; ++rounds) {
      REQUIRE(rounds < 100);
      begin(wait);
      round();
      if (met()) return;
      again();
    }
  }

  /// Fences of the grants that the server gave by ACQUIRE and told of, whoever heard it.
  std::multiset<std::string> granted() const {
    std::multiset<std::string> fences;
    std::string const grant = "*3\r\n:1\r\n:";
    for (auto const& reply : here.proxy.recorded(Direction::reply))
      if (reply.starts_with(grant)) fences.insert(reply.substr(grant.size(), reply.find('\r', grant.size()) - grant.size()));
    return fences;
  }

  Setting here{};
  Client redis;
  Lock<> lock{redis, "name", {.ttl = 60s, .renew = false}};
  std::optional<Lease> holder{};
  std::unique_ptr<Waiter> waiter{};
};

/// Free in a moment: where somebody had begun to wait at the server, a reservation stands that long.
bool gets_free(RedisServer& server) {
  return wait_until([&] { return is_free(server, "name"); }, 10s);
}

std::string text(Fence fence) { return std::to_string(fence.value); }

}  // namespace

TEST_CASE("threads of one client pass a lock on by two commands a turn, each with a higher fence") {
  RedisServer server;
  Client redis{server.uri()};
  Lock{redis, "name"}.acquire().release();
  server.command({"CONFIG", "RESETSTAT"});
  constexpr int threads = 4;
  constexpr int turns = instrumented ? 50 : 200;
  long counter = 0;
  std::vector<Fence> fences;
  {
    std::vector<std::jthread> crowd;
    for (int i = 0; i < threads; ++i)
      crowd.emplace_back([&] {
        Lock lock{redis, "name"};
        for (int turn = 0; turn < turns; ++turn) {
          auto const lease = lock.acquire();
          ++counter;
          fences.push_back(lease.fence());
        }
      });
  }
  CHECK(counter == threads * turns);
  CHECK(std::adjacent_find(fences.begin(), fences.end(), std::greater_equal<>{}) == fences.end());
  auto stats = server.commandstats();
  auto const each = static_cast<double>(stats["evalsha"] + stats["eval"] + stats["blpop"]) / (threads * turns);
  CHECK(each >= 2.0);
  CHECK(each < 3.0);  // 4 by way of the server's line
  CHECK(gets_free(server));
}

TEST_CASE("the next thread is granted in the write that releases, for its own TTL and by its own token") {
  Handover pair;
  std::string owner_before;
  pair.pass_on([](Lock<>& lock) { return lock.acquire_for(20s); }, [&] {
    owner_before = owner(pair.here.server, "name");
    CHECK(pair.holder->release());
  });
  auto const before = pair.holder->fence();
  auto lease = pair.waiter->get();
  REQUIRE(lease);
  CHECK(lease->fence() > before);
  CHECK(owner(pair.here.server, "name") != owner_before);
  CHECK(lease->remaining() > 50s);
  CHECK(count(pair.here.proxy, Asks::acquire) == 2);
  CHECK(count(pair.here.proxy, Asks::pop) == 0);
  CHECK(lease->confirm());
  CHECK(lease->release());
  CHECK(gets_free(pair.here.server));
}

TEST_CASE("who waits at the server comes before a thread that came later") {
  RedisServer server;
  Client redis{server.uri()};
  Client other{server.uri()};
  auto const rounds = instrumented ? 5 : 20;
  for (int round = 0; round < rounds; ++round) {
    auto holder = Lock{redis, "name"}.acquire();
    Waiting stranger{[&] { return Lock{other, "name"}.acquire(); }};
    REQUIRE(wait_until([&] { return server.info("clients")["blocked_clients"] == "1"; }));
    Waiting ours{[&] { return Lock{redis, "name"}.acquire().fence(); }};
    static_cast<void>(ours.over_within(5ms));  // it stands in line by then, or comes even later
    CHECK(holder.release());
    auto theirs = stranger.get();
    auto const fence = theirs.fence();
    CHECK_FALSE(ours.over());
    theirs.release();
    CHECK(ours.get() > fence);
  }
}

TEST_CASE("behind a hold that takes long the next thread takes its place at the server") {
  RedisServer server;
  Client redis{server.uri()};
  Client other{server.uri()};
  auto holder = Lock{redis, "name"}.acquire();
  Waiting first{[&] { return Lock{redis, "name"}.acquire(); }};
  REQUIRE(wait_until([&] { return server.info("clients")["blocked_clients"] == "1"; }));
  Waiting stranger{[&] { return Lock{other, "name"}.acquire().fence(); }};
  REQUIRE(wait_until([&] { return server.info("clients")["blocked_clients"] == "2"; }));
  CHECK(holder.release());
  auto lease = first.get();
  CHECK_FALSE(stranger.over());
  lease.release();
  CHECK(stranger.get() > lease.fence());
}

TEST_CASE("a thread that stands in line behind others gets its place at the server too, once they have had their turn") {
  RedisServer server;
  Client redis{server.uri()};
  std::vector<std::unique_ptr<Waiting<Lease>>> crowd;
  auto held = std::make_unique<Lease>(Lock{redis, "name"}.acquire());
  for (int i = 0; i < 3; ++i) crowd.push_back(std::make_unique<Waiting<Lease>>([&] { return Lock{redis, "name"}.acquire(); }));
  auto last = held->fence();
  while (!crowd.empty()) {
    REQUIRE(wait_until([&] { return server.info("clients")["blocked_clients"] == "1"; }));  // one of them, however many stand here
    CHECK(held->release());
    auto const next = [&] { return std::find_if(crowd.begin(), crowd.end(), [](auto const& one) { return one->over(); }); };
    REQUIRE(wait_until([&] { return next() != crowd.end(); }));
    auto const served = next();
    held = std::make_unique<Lease>((*served)->get());
    crowd.erase(served);
    CHECK(held->fence() > last);
    last = held->fence();
  }
}

TEST_CASE("a waiter that gives up while it waits for a thread's release leaves no trace") {
  Handover pair;
  SECTION("by its deadline") {
    pair.begin([](Lock<>& lock) { return lock.acquire_for(45ms); });
    CHECK_FALSE(pair.waiter->get());
  }
  SECTION("cancelled") {
    std::stop_source stop;
    pair.begin([&](Lock<>& lock) { return lock.acquire(stop.get_token()); });
    stop.request_stop();
    CHECK_FALSE(pair.waiter->get());
  }
  CHECK(pair.holder->held());
  CHECK(pair.holder->release());
  CHECK(gets_free(pair.here.server));
  CHECK(pair.lock.try_acquire());
}

TEST_CASE("the answer to what was asked in the next one's name is cut off: it counts in the same wait, with the fence it had") {
  Handover pair;
  pair.pass_on([](Lock<>& lock) { return lock.acquire_for(20s); }, [&] {
    pair.here.proxy.cut_instead_of_reply(reply_to(Asks::acquire));
    CHECK(pair.holder->release());  // its own answer was there
  });
  auto lease = pair.waiter->get();
  REQUIRE(lease);
  CHECK(pair.granted().count(text(lease->fence())) == 2);
  CHECK(lease->confirm());
  auto const token = owner(pair.here.server, "name");
  CHECK(lease->release());
  CHECK(gets_free(pair.here.server));
  // And once more: for all that is known the first request may still be on its way.
  CHECK(wait_until([&] { return count(pair.here.proxy, Asks::release, token) >= 2; }));
}

TEST_CASE("the answer to the release in front is cut off: both are known in the end") {
  Handover pair;
  pair.pass_on([](Lock<>& lock) { return lock.acquire_for(20s); }, [&] {
    pair.here.proxy.cut_instead_of_reply(reply_to(Asks::release));
    CHECK(pair.holder->release());
  });
  auto lease = pair.waiter->get();
  REQUIRE(lease);
  CHECK(lease->confirm());
  CHECK(lease->fence() > pair.holder->fence());
  CHECK(lease->release());
  CHECK(gets_free(pair.here.server));
}

TEST_CASE("a server that does not know the scripts any more is told them again, by both") {
  Handover pair;
  pair.pass_on([](Lock<>& lock) { return lock.acquire_for(20s); }, [&] {
    pair.here.server.command({"SCRIPT", "FLUSH"});
    CHECK(pair.holder->release());
  });
  auto lease = pair.waiter->get();
  REQUIRE(lease);
  CHECK(lease->release());
  CHECK(gets_free(pair.here.server));
}

TEST_CASE("a waiter whose time is over while the answers do not come is gone by its deadline, and what was granted is undone") {
  Handover pair{{.command_timeout = 2s}};
  std::optional<Waiting<bool>> releasing;
  for (int rounds = 0;; ++rounds) {
    REQUIRE(rounds < 100);
    pair.begin([](Lock<>& lock) { return lock.acquire_for(400ms); });
    pair.here.proxy.hold(Direction::reply);
    releasing.emplace([&] { return error_of([&] { static_cast<void>(pair.holder->release()); }).has_value(); });
    // Whoever had asked by itself is told that nobody answered.
    bool got = true;
    if (!error_of([&] { got = pair.waiter->get().has_value(); }) && !got && pair.met()) break;
    pair.here.proxy.resume(Direction::reply);
    releasing.reset();
    pair.waiter.reset();
    pair.holder.reset();
  }
  CHECK_FALSE(is_free(pair.here.server, "name"));  // granted to one who has left, until somebody can say so
  pair.here.proxy.resume(Direction::reply);
  CHECK_FALSE(releasing->get());
  CHECK(gets_free(pair.here.server));  // and not by the TTL of a minute
}

TEST_CASE("a lease that was lost keeps its late release from what the next thread has") {
  RedisServer server;
  Client redis{server.uri()};
  auto lost = Lock{redis, "name", {.ttl = 300ms, .renew = false}}.acquire();
  Waiting next{[&] { return Lock{redis, "name"}.acquire(); }};
  auto lease = next.get();
  CHECK_FALSE(lost.held());
  if (GENERATE(true, false)) {  // nobody else is in line
    CHECK_FALSE(lost.release());
    CHECK(lease.release());
    CHECK(gets_free(server));
    return;
  }
  Waiting third{[&] { return Lock{redis, "name"}.acquire(); }};
  REQUIRE(third.asleep());
  CHECK_FALSE(lost.release());
  CHECK(lease.held());
  CHECK_FALSE(third.over());
  CHECK(lease.release());
  CHECK(third.get().fence() > lease.fence());
}

TEST_CASE("a release that is not waited for lets the next thread ask for itself") {
  Handover pair;
  pair.begin([](Lock<>& lock) { return lock.acquire_for(20s); });
  pair.holder->release_later();
  auto const lease = pair.waiter->get();
  REQUIRE(lease);
  CHECK(lease->fence() > pair.holder->fence());
}

TEST_CASE("a client that goes away sends home who waits for a thread's release, and the holder keeps its lease") {
  RedisServer server;
  auto redis = std::make_unique<Client>(server.uri());
  auto holder = Lock{*redis, "name"}.acquire();
  Waiting waiter{[&client = *redis] { return error_of([&] { static_cast<void>(Lock{client, "name"}.acquire()); }); }};
  static_cast<void>(waiter.over_within(5ms));
  REQUIRE(waiter.asleep());
  redis.reset();
  auto const error = waiter.get();
  REQUIRE(error);
  CHECK(error->errc() == mortise::Errc::closed);
  CHECK(holder.held());
  CHECK(holder.release());
  CHECK(gets_free(server));
}
