// SPDX-License-Identifier: MIT
// The signal storm: it interrupts whom it should and leaves no trace.
#include "support/catch.hpp"
#include "support/resources.hpp"
#include "support/signal_storm.hpp"

#include <cerrno>
#include <poll.h>

using support::SignalDispositions;
using support::SignalStorm;
using Target = support::SignalStorm::Target;

TEST_CASE("a storm interrupts system calls until it is over", "[signal_storm]") {
  auto const target = GENERATE(Target::this_thread, Target::process);
  SignalDispositions const before;
  auto const handled_before = SignalStorm::handled();
  {
    SignalStorm storm{std::chrono::milliseconds{1}, target};
    int interrupted = 0;
    for (int round = 0; round < 10; ++round)
      if (::poll(nullptr, 0, 10'000) < 0 && errno == EINTR)
        ++interrupted;
    CHECK(interrupted == 10);
    CHECK(storm.sent() >= 10);
    CHECK(SignalStorm::handled() - handled_before >= 10);
  }
  CHECK(before.differences(SignalDispositions{}).empty());
}
