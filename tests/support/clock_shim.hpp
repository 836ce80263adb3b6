// SPDX-License-Identifier: MIT
// Moves the wall clock of servers and child programs while they run; steady clocks go on.
#pragma once

#include "support/launch.hpp"
#include "support/temporary_folder.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace support {

/// Give environment() to a RedisServer or a Program; its wall clock is then ahead of the real one by the offset.
class ClockShim {
public:
  ClockShim();
  ClockShim(ClockShim const&) = delete;
  ClockShim& operator=(ClockShim const&) = delete;
  ~ClockShim();

  /// Acts at once on all processes that were started with environment().
  void set_offset(std::chrono::nanoseconds offset) { *offset_ = offset.count(); }
  std::chrono::nanoseconds offset() const { return std::chrono::nanoseconds{*offset_}; }
  Environment environment() const;

private:
  TemporaryFolder folder_;
  std::atomic<std::int64_t>* offset_ = nullptr;
};

}  // namespace support
