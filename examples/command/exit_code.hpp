// SPDX-License-Identifier: MIT
// What the command's exit codes mean: sysexits.h where it has a word, a shell's own numbers for a command that cannot start.
#pragma once

namespace command {

struct ExitCode {
  static constexpr int done = 0;            ///< `status`: the lock is free
  static constexpr int not_free = 1;        ///< `status`: held or reserved; `break`: left alone; `doctor`: warnings, 2 errors
  static constexpr int usage = 64;          ///< EX_USAGE: also an option that the library refuses
  static constexpr int unavailable = 69;    ///< EX_UNAVAILABLE: Redis unreachable, or it refused
  static constexpr int system = 71;         ///< EX_OSERR: no process, no pipe
  static constexpr int busy = 75;           ///< EX_TEMPFAIL: somebody else holds the lock
  static constexpr int lost = 76;           ///< the lease ended before the command did
  static constexpr int not_executable = 126;
  static constexpr int not_found = 127;

  static constexpr int of_signal(int signal) noexcept { return 128 + signal; }
};

}  // namespace command
