// SPDX-License-Identifier: MIT
// Waiting for a condition by short polls, in place of sleeps.
#pragma once

#include <chrono>
#include <thread>

namespace support {

/// Generous: a bound for what is expected to happen soon, on a busy machine.
inline constexpr std::chrono::seconds soon{30};

/// Polls until `predicate()` is true; false at the timeout. The last look is taken after the timeout.
template <class Predicate>
[[nodiscard]] bool wait_until(Predicate&& predicate, std::chrono::nanoseconds timeout = soon,
                              std::chrono::nanoseconds interval = std::chrono::milliseconds{1}) {
  auto const deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    bool const last = std::chrono::steady_clock::now() >= deadline;
    if (predicate())
      return true;
    if (last)
      return false;
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace support
