// SPDX-License-Identifier: MIT
// A second process of a test: a forked function or an executable, with lines of text both ways.
#pragma once

#include "support/channel.hpp"
#include "support/launch.hpp"

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace support {

/// How a process ended: by exit with a code, or by a signal.
struct ExitStatus {
  std::optional<int> code{};
  std::optional<int> signal{};

  bool ok() const { return code == 0; }
  static ExitStatus exited(int code) { return {.code = code}; }
  static ExitStatus killed(int signal) { return {.signal = signal}; }

  friend bool operator==(ExitStatus const&, ExitStatus const&) = default;
  friend std::ostream& operator<<(std::ostream& out, ExitStatus const& status);
};

/// An executable, its arguments, and what differs in its environment.
struct Program {
  std::string path{};
  std::vector<std::string> arguments{};
  Environment environment{};
  /// What it writes to stderr comes through the channel too.
  bool with_errors = false;
};

/// A child process; killed (-9) and reaped by the destructor, and killed when the test process dies.
class ChildProcess {
public:
  /// How a forked function's process ends: by _exit, or by exit() with destructors of static objects and atexit.
  enum class Ending { at_once, orderly };
  /// The exit code of a function that threw (a failed REQUIRE throws too); the exception's text is on stderr.
  static constexpr int threw = 99;

  /// Said in a child: what the stacks of its parent's other threads owned at the fork is nobody's here, and no leak.
  static void inherits_of_busy_threads();

  /// Forks; the child runs `body` and ends with its result.
  explicit ChildProcess(std::function<int()> const& body, Ending ending = Ending::at_once);
  /// The same with a channel to the parent.
  explicit ChildProcess(std::function<int(Channel&)> const& body, Ending ending = Ending::at_once);
  /// Executes a program; its stdin and stdout are the channel.
  explicit ChildProcess(Program const& program);

  pid_t pid() const { return child_.pid(); }
  bool alive();
  void signal(int number) { child_.signal(number); }
  /// SIGSTOP; returns when all threads are stopped.
  void freeze() { child_.freeze(); }
  void thaw() { child_.thaw(); }
  /// -9, frozen or not, and reaped.
  void kill() { child_.end(); }
  /// How it ended, as soon as it has; empty at the timeout.
  std::optional<ExitStatus> wait(Milliseconds timeout = Milliseconds{30'000});

  Channel& channel() { return channel_; }
  void send_line(std::string_view line) { channel_.send_line(line); }
  std::optional<std::string> read_line(Milliseconds timeout = Milliseconds{30'000}) {
    return channel_.read_line(timeout);
  }

private:
  Channel channel_;
  Child child_;
};

}  // namespace support
