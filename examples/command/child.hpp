// SPDX-License-Identifier: MIT
// One child process: started as a shell would start it, signalled as a group where it has one, its end told as a shell tells it.
#pragma once

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <mortise/detail/wake.hpp>

#include "exit_code.hpp"
#include "signals.hpp"

namespace command {

/// Whether this session has a terminal. Then the child stays in our process group, so that Ctrl-C, Ctrl-Z, `fg` and reading
/// from the terminal work as without us, in a pipeline too. Without one it gets a group of its own, so that a signal
/// reaches all it has started and nobody else.
inline bool has_terminal() noexcept {
  return static_cast<bool>(mortise::detail::Descriptor{::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)});
}

class Child {
 public:
  /// Starts `command` with `environment` added to ours. Throws std::system_error where no process can be made.
  Child(std::vector<char*> const& command, std::vector<std::string> const& environment, Signals const& signals)
      : own_group_{!has_terminal()} {
    std::vector<char*> argv{command};
    argv.push_back(nullptr);
    auto envp = with(environment);
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::system_error{errno, std::generic_category(), "pipe"};
    mortise::detail::Descriptor reading{ends[0]}, writing{ends[1]};
    for (int const end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    auto const parent = ::getpid();

    signals.hold();
    pid_ = ::fork();
    if (pid_ == 0) become(argv, envp, signals, parent, writing.get());
    auto const error = errno;
    if (pid_ > 0 && own_group_) ::setpgid(pid_, pid_);  // here and in the child: whoever comes first
    signals.resume();
    if (pid_ < 0) throw std::system_error{error, std::generic_category(), "fork"};

    writing.close();
    int failure = 0;
    ssize_t got = 0;
    do got = ::read(reading.get(), &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    if (got == sizeof failure) exec_error_ = failure;  // otherwise exec closed the pipe
  }
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;

  /// The errno of an exec that failed; 0 when the command runs.
  int exec_error() const noexcept { return exec_error_; }

  /// Whether it is in our own process group, so that it gets what the terminal sends by itself.
  bool shares_terminal() const noexcept { return !own_group_; }

  /// The exit code a shell would show, once the child has ended.
  std::optional<int> ended() noexcept { return reap(WEXITED | WNOHANG); }

  /// The same, waited for.
  int end() noexcept { return *reap(WEXITED); }

  /// To the whole group where the child has one.
  void signal(int number) const noexcept {
    if (own_group_)
      ::kill(-pid_, number);
    else if (!exit_code_)
      ::kill(pid_, number);
  }

  /// From here on the processes that lose their parent in the group come to us, where there is a way for that: otherwise a
  /// container without an init would keep them for ever, ended but there.
  void adopt_orphans() const noexcept {
#if defined(__linux__)
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
  }

  /// Whether anything a signal() would reach is still there.
  bool anything_left() noexcept {
    if (!ended()) return true;
    if (!own_group_) return false;
    siginfo_t orphan{};
    do orphan.si_pid = 0;
    while (::waitid(P_PGID, static_cast<id_t>(pid_), &orphan, WEXITED | WNOHANG) == 0 && orphan.si_pid != 0);
    return ::kill(-pid_, 0) == 0;
  }

 private:
  std::optional<int> reap(int options) noexcept {
    if (exit_code_) return exit_code_;
    siginfo_t info{};
    int result = 0;
    do result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, options);
    while (result != 0 && errno == EINTR);
    if (result != 0) return exit_code_ = ExitCode::system;
    if (info.si_pid == 0) return std::nullopt;
    return exit_code_ = info.si_code == CLD_EXITED ? info.si_status : ExitCode::of_signal(info.si_status);
  }

  static std::vector<char*> with(std::vector<std::string> const& added) {
    std::vector<char*> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      std::string_view const existing{*entry};
      bool replaced = false;
      for (auto const& fresh : added) replaced = replaced || existing.starts_with(fresh.substr(0, fresh.find('=') + 1));
      if (!replaced) all.push_back(*entry);
    }
    for (auto const& fresh : added) all.push_back(const_cast<char*>(fresh.c_str()));
    all.push_back(nullptr);
    return all;
  }

  /// Between fork and exec: nothing here allocates or takes a lock.
  [[noreturn]] void become(std::vector<char*> const& argv, std::vector<char*>& envp, Signals const& signals, pid_t parent,
                           int report) const noexcept {
    if (own_group_) ::setpgid(0, 0);
#if defined(__linux__)
    // When we are killed with SIGKILL nobody renews, and nobody tells the child: the kernel does, while the TTL runs out.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(ExitCode::lost);
#else
    static_cast<void>(parent);
#endif
    signals.as_inherited();
    environ = envp.data();
    ::execvp(argv.front(), argv.data());
    int const error = errno;
    [[maybe_unused]] auto const told = ::write(report, &error, sizeof error);
    ::_exit(error == ENOENT ? ExitCode::not_found : ExitCode::not_executable);
  }

  bool own_group_;
  pid_t pid_{-1};
  int exec_error_{0};
  std::optional<int> exit_code_{};
};

}  // namespace command
