// SPDX-License-Identifier: MIT
// Library threads: they run when they want to, when they are rung, and they end when they are told to.
#include <atomic>
#include <memory>

#include <mortise/detail/worker.hpp>

#include "support/catch.hpp"
#include "support/wait_until.hpp"

using mortise::detail::Worker;
using namespace std::chrono_literals;

namespace {

/// Counts its steps, and never wants another by itself.
struct Counting : std::enable_shared_from_this<Counting> {
  mortise::TimePoint step() {
    ++steps;
    return mortise::detail::never;
  }
  std::atomic<int> steps{0};
  Worker<Counting> worker{"counting"};
};

/// Listens to its own bell inside the step, as one does who polls for answers, and takes the ring for news of those.
struct Listening : std::enable_shared_from_this<Listening> {
  mortise::TimePoint step() {
    inside = true;
    if (!support::wait_until([&] { return worker.stopping(); })) return mortise::detail::never;
    worker.bell().wait_until(mortise::Clock::now() + 10s);  // until the ring that told so, which it takes back
    return mortise::detail::never;
  }
  std::atomic<bool> inside{false};
  Worker<Listening> worker{"listening"};
};

}  // namespace

TEST_CASE("a library thread runs a step at its start and one more for a ring") {
  auto owner = std::make_shared<Counting>();
  owner->worker.start(owner);
  CHECK(support::wait_until([&] { return owner->steps == 1; }));
  owner->worker.wake();
  CHECK(support::wait_until([&] { return owner->steps == 2; }));
  owner->worker.stop();
}

TEST_CASE("a library thread that heard the order to stop inside its step does not sleep over it") {
  auto owner = std::make_shared<Listening>();
  owner->worker.start(owner);
  REQUIRE(support::wait_until([&] { return owner->inside.load(); }));
  std::weak_ptr<Listening> const gone{owner};
  owner->worker.stop();
  owner.reset();
  CHECK(support::wait_until([&] { return gone.expired(); }));
}
