// SPDX-License-Identifier: MIT
// Signals at a steady rate, to interrupt system calls of the code under test.
#pragma once

#include "support/sockets.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <sys/types.h>
#include <thread>

namespace support {

/// From construction to destruction sends a signal with a handler that does nothing (without SA_RESTART: blocking calls
/// end with EINTR). The disposition before is restored. One storm at a time per signal.
class SignalStorm {
public:
  /// Who is hit: the thread that makes the storm, or the process (any thread that does not block the signal).
  enum class Target { this_thread, process };

  explicit SignalStorm(std::chrono::microseconds every = std::chrono::milliseconds{1},
                       Target target = Target::this_thread, int signal = SIGUSR1);
  SignalStorm(SignalStorm const&) = delete;
  SignalStorm& operator=(SignalStorm const&) = delete;
  ~SignalStorm();

  std::int64_t sent() const { return sent_; }
  /// How often any storm's handler has run in this process.
  static std::int64_t handled();

private:
  void blow(std::chrono::microseconds every);

  int signal_;
  pid_t thread_id_;  // 0: the process
  struct sigaction before_ {};
  std::atomic<bool> ended_ = false;
  std::atomic<std::int64_t> sent_ = 0;
  std::thread thread_;
};

}  // namespace support
