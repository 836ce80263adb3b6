// SPDX-License-Identifier: MIT
// What this process uses at the moment: descriptors, threads, memory, time, signal dispositions. Read from /proc.
#pragma once

#include "support/wait_until.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace support {

/// Each open descriptor and what it is ("socket:[123]", "/dev/null").
std::map<int, std::string> descriptors();
std::size_t open_descriptors();

struct ThreadInfo {
  pid_t id = 0;
  std::string name{};
  /// Bit n - 1 is set when signal n is blocked.
  std::uint64_t blocked = 0;

  bool blocks(int signal) const { return ((blocked >> (signal - 1)) & 1) != 0; }
};

/// All threads of this process, by id. With ThreadSanitizer its own one is among them, always.
std::vector<ThreadInfo> threads();
std::size_t threads_alive();
/// Waits until exactly `count` threads are alive: an ended thread stays visible for a moment.
[[nodiscard]] bool wait_for_threads(std::size_t count, std::chrono::nanoseconds timeout = soon);
/// Waits until exactly `count` descriptors are open.
[[nodiscard]] bool wait_for_descriptors(std::size_t count, std::chrono::nanoseconds timeout = soon);

std::int64_t resident_kib();
/// Time on a processor: of this process, of this thread, of another process.
std::chrono::nanoseconds cpu_time();
std::chrono::nanoseconds thread_cpu_time();
std::chrono::nanoseconds cpu_time_of(pid_t process);

/// The process has ended, reaped or not.
bool process_gone(pid_t process);

/// How this process reacts to each signal, and what the calling thread blocks.
class SignalDispositions {
public:
  /// As they are now.
  SignalDispositions();

  /// One sentence per signal that differs.
  std::vector<std::string> differences(SignalDispositions const& later) const;
  friend bool operator==(SignalDispositions const&, SignalDispositions const&) = default;

private:
  struct Reaction {
    std::uintptr_t handler = 0;
    int flags = 0;
    bool blocked = false;
    friend bool operator==(Reaction const&, Reaction const&) = default;
  };
  std::array<Reaction, 65> reactions_{};
};

}  // namespace support
