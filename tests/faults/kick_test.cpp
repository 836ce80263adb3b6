// SPDX-License-Identifier: MIT
// A waiter that leaves while the keeper is about to tell it that its server does not answer.
#include <atomic>
#include <thread>

#include "setting.hpp"
#include "support/catch.hpp"

using namespace faults;
using mortise::detail::Authority;
using mortise::detail::Chore;
using mortise::detail::Herald;
using mortise::detail::Keeper;
using mortise::detail::Line;
using mortise::detail::LockKeys;
using mortise::detail::LockSpec;
using mortise::detail::Wake;

namespace {

/// Nobody answers.
struct Nobody final : Authority {
  void send(std::span<Chore>, mortise::TimePoint, Wake*) noexcept override {}
  void collect(std::span<Chore>, mortise::TimePoint, Wake*) noexcept override {}
};

/// A line whose kick takes its time.
struct SlowLine final : Line {
  using Line::Line;
  void kick(mortise::Error const*) noexcept override {
    if (gone) kicked_when_gone = true;
    kicked = true;
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(1ms);
      if (gone) kicked_when_gone = true;
    }
  }
  std::atomic<bool> kicked{false};
  std::atomic<bool> gone{false};
  std::atomic<bool> kicked_when_gone{false};
};

}  // namespace

TEST_CASE("a line that is unwatched is not kicked any more") {
  auto const authority = std::make_shared<Nobody>();
  auto const herald = std::make_shared<Herald>(authority, Herald::Observer{});
  auto const keeper = std::make_shared<Keeper>(authority, herald, 100ms, 1);
  auto const line = std::make_shared<SlowLine>(std::make_shared<LockSpec const>(LockSpec{LockKeys{"name"}, {}}));
  keeper->start();
  keeper->watch(*line, -2);
  REQUIRE(support::wait_until([&] { return line->kicked.load(); }));
  keeper->unwatch(*line);
  line->gone = true;  // what the kick touches may be gone from here on
  keeper->stop();
  CHECK_FALSE(line->kicked_when_gone);
}
