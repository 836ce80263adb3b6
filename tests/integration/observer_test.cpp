// SPDX-License-Identifier: MIT
// What an observer is told of a life with locks, and on which thread.
#include "support/waiting.hpp"
#include "witness.hpp"

using support::Waiting;

TEST_CASE("a grant, a busy answer and a release are told, with the lock's name, the fence and how long it took") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.observer = witness.observer()}};
  Lock lock{client, "lock"};
  auto lease = lock.acquire();
  auto const granted = witness.first(Kind::granted);
  CHECK(granted.name == "lock");
  CHECK(granted.fence == lease.fence());
  CHECK(granted.duration > 0ns);
  CHECK_FALSE(lock.try_acquire());
  auto const busy = witness.first(Kind::busy);
  CHECK(busy.name == "lock");
  CHECK(busy.fence == Fence{});
  std::this_thread::sleep_for(20ms);
  lease.release();
  auto const released = witness.first(Kind::released);
  CHECK(released.fence == lease.fence());
  CHECK(released.duration >= 20ms);
  CHECK(witness.of(Kind::lost).empty());
  CHECK(witness.all_on_one_other_thread());
}

TEST_CASE("a release that nobody waits for is told, and so is that there was nothing to release") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.observer = witness.observer()}};
  auto lease = Lock{client, "lock"}.acquire();
  lease.release_later();
  CHECK(witness.first(Kind::released).fence == lease.fence());
  CHECK(witness.of(Kind::lost).empty());

  auto taken = Lock{client, "taken"}.acquire();
  redis.command({"SET", "taken", "foreign"});
  taken.release_later();
  CHECK(witness.first(Kind::lost).fence == taken.fence());
  CHECK(redis.command({"GET", "taken"}).text == "foreign");
  CHECK(witness.of(Kind::released).size() == 1);
}

TEST_CASE("a hand-off is told with the time of the wait, and so is a wait that ends without a grant, with the reason") {
  LockServer redis;
  Witness witness;
  Client holder{redis.unix_uri()};
  Client client{redis.unix_uri(), {.observer = witness.observer()}};
  Lock lock{client, "lock"};
  auto lease = Lock{holder, "lock"}.acquire();
  CHECK_FALSE(lock.acquire_for(50ms));
  auto const waited = witness.first(Kind::waited);
  CHECK(waited.reason == "deadline");
  CHECK(waited.duration >= 50ms);

  std::stop_source stop;
  Waiting cancelled{[&] { return lock.acquire(stop.get_token()).has_value(); }};
  REQUIRE(redis.has_blocked(1));
  stop.request_stop();
  CHECK_FALSE(cancelled.get());
  REQUIRE(wait_until([&] { return witness.of(Kind::waited).size() == 2; }));
  CHECK(witness.of(Kind::waited).back().reason == "cancelled");

  Waiting waiting{[&] { return lock.acquire(); }};
  REQUIRE(redis.has_blocked(1));
  std::this_thread::sleep_for(20ms);
  lease.release();
  auto const next = waiting.get();
  auto const handed = witness.first(Kind::handed_over);
  CHECK(handed.fence == next.fence());
  CHECK(handed.duration >= 20ms);
  CHECK(witness.of(Kind::granted).empty());
}

TEST_CASE("a client that goes away tells those who waited as closed") {
  LockServer redis;
  Witness witness;
  auto client = std::make_unique<Client>(redis.unix_uri(), mortise::ClientOptions{.observer = witness.observer()});
  Lock lock{*client, "lock"};
  auto const lease = lock.acquire();
  Waiting waiting{[&] { return errc_of([&] { return lock.acquire(); }); }};
  REQUIRE(redis.has_blocked(1));
  client.reset();
  CHECK(waiting.get() == Errc::closed);
  CHECK(witness.first(Kind::waited).reason == "closed");
}

TEST_CASE("renewals are told, and the loss that one of them finds") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.observer = witness.observer()}};
  auto const lease = Lock{client, "lock", {.ttl = 1500ms}}.acquire();
  CHECK(witness.first(Kind::renewed).fence == lease.fence());
  redis.command({"DEL", "lock"});
  auto const lost = witness.first(Kind::lost);
  CHECK(lost.name == "lock");
  CHECK(lost.fence == lease.fence());
  CHECK_THAT(lost.reason, contains("deleted"));
  CHECK_FALSE(lease.held());
}

TEST_CASE("an expiry is told as a loss, once") {
  LockServer redis;
  Witness witness;
  Client client{redis.unix_uri(), {.observer = witness.observer()}};
  {
    auto const lease = Lock{client, "lock", {.ttl = 100ms, .renew = false}}.acquire();
    CHECK_THAT(witness.first(Kind::lost).reason, contains("expired"));
  }
  Lock{client, "other"}.acquire().release();
  witness.first(Kind::released);
  CHECK(witness.of(Kind::lost).size() == 1);
}

