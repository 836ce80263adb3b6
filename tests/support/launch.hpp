// SPDX-License-Identifier: MIT
// Child processes that do not outlive the test: forking, executing, reaping; below RedisServer and ChildProcess.
#pragma once

#include "support/sockets.hpp"

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace support {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// An owned child process: reaped once, killed by the destructor, and by the kernel if the test process dies.
/// In a forked copy of the test process it is inert.
class Child {
public:
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child() { end(); }

  /// Forks; the child runs `body` and ends with its result by _exit.
  static Child fork(std::function<int()> const& body);

  pid_t pid() const { return pid_; }
  /// Started by this process and not reaped yet.
  bool mine() const;
  /// Sends a signal; no effect when it has ended.
  void signal(int number) const;
  /// SIGSTOP, and waits until all of its threads are stopped.
  void freeze() const;
  /// SIGCONT.
  void thaw() const;
  /// The status as by waitpid, as soon as the child has ended; empty at the deadline.
  std::optional<int> wait(Clock::time_point deadline);
  /// Kills (-9) and reaps, frozen or not.
  void end() noexcept;

private:
  pid_t pid_ = -1;
  pid_t owner_ = -1;
  pid_t guard_ = -1;
  std::optional<int> status_{};
};

/// What to execute and with which descriptors as its input and outputs (-1: inherited).
struct Execution {
  std::vector<std::string> words{};
  Environment environment{};
  std::string folder{};
  int input = -1;
  int output = -1;
  int errors = -1;
};

/// Executes a program (found by PATH) with default signal dispositions, no blocked signals and no inherited descriptor
/// beyond the three. Throws std::system_error when it cannot be executed (ENOENT: not installed).
Child execute(Execution const& what);

}  // namespace support
