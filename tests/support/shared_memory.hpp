// SPDX-License-Identifier: MIT
// Numbers and a barrier that a test and its forked children share.
#pragma once

#include "support/wait_until.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace support {

/// Atomic 64-bit numbers, zero at first, shared with every process forked after the construction.
class SharedCounters {
public:
  explicit SharedCounters(std::size_t count);
  SharedCounters(SharedCounters const&) = delete;
  SharedCounters& operator=(SharedCounters const&) = delete;
  ~SharedCounters();

  std::atomic<std::int64_t>& operator[](std::size_t index) { return numbers_[index]; }
  std::atomic<std::int64_t> const& operator[](std::size_t index) const { return numbers_[index]; }
  std::size_t size() const { return count_; }

private:
  std::size_t count_;
  std::atomic<std::int64_t>* numbers_;
};

/// A barrier for `parties` threads or processes, reusable; made before the fork.
class Barrier {
public:
  explicit Barrier(std::int64_t parties) : parties_{parties}, state_{1} {}

  /// Waits until all parties are here; false at the timeout (the barrier is of no use then).
  [[nodiscard]] bool arrive_and_wait(std::chrono::nanoseconds timeout = soon);

private:
  std::int64_t parties_;
  SharedCounters state_;  // [0] arrivals ever
};

}  // namespace support
