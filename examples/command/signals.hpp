// SPDX-License-Identifier: MIT
// The signals that `mortise run` passes on, as a bell that a poll can wait for; and the way back for the child.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <mortise/detail/wake.hpp>

namespace command {

/// Catches the signals that ask a process to do something, and SIGCHLD, while it lives; SIGPIPE is ignored, so that nobody
/// who reads our messages can end us by going away. A signal that was ignored when the process began (nohup) stays
/// ignored. One object at a time, in the main thread.
class Signals {
 public:
  struct Caught {
    int number;
    bool typed;  ///< the terminal sent it, so every process of the foreground group has it already
  };

  Signals() {
    bell() = &bell_;
    struct sigaction action {};
    action.sa_sigaction = &note;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP;
    sigfillset(&action.sa_mask);
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t index = 0; index < changed.size(); ++index) {
      auto const number = changed[index];
      ::sigaction(number, nullptr, &before_[index]);
      bool const ignored = before_[index].sa_handler == SIG_IGN;
      if (number == SIGPIPE)
        ::sigaction(number, &ignore, nullptr);
      else if (!ignored || number == SIGCHLD)
        ::sigaction(number, &action, nullptr);
    }
    resume();
  }
  Signals(Signals const&) = delete;
  Signals& operator=(Signals const&) = delete;
  ~Signals() {
    as_inherited();
    bell() = nullptr;
  }

  /// Rung by every caught signal, SIGCHLD included.
  mortise::detail::Wake& wake() noexcept { return bell_; }

  /// A signal that came and was not taken yet.
  std::optional<Caught> take() noexcept {
    for (bool const typed : {false, true}) {
      auto& set = typed ? typed_ : sent_;
      auto const pending = set.load();
      if (pending == 0) continue;
      auto const number = std::countr_zero(pending);
      set.fetch_and(~(std::uint32_t{1} << number));
      return Caught{number, typed};
    }
    return std::nullopt;
  }

  /// Keeps all signals away from a fork; the child calls as_inherited(), the parent lets them in again with resume().
  void hold() const noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  }
  void resume() const noexcept {
    auto mask = mask_;
    sigdelset(&mask, SIGCHLD);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  }

  /// Dispositions and mask as they were before this object. Safe between fork and exec.
  void as_inherited() const noexcept {
    for (std::size_t index = 0; index < changed.size(); ++index) ::sigaction(changed[index], &before_[index], nullptr);
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  static constexpr std::array changed{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE};

  static std::atomic<mortise::detail::Wake*>& bell() noexcept {
    static std::atomic<mortise::detail::Wake*> bell{nullptr};
    return bell;
  }

  static void note(int number, siginfo_t* info, void*) noexcept {
    bool const from_process = info->si_code == SI_USER || info->si_code <= 0;
    auto& set = from_process ? sent_ : typed_;
    if (number != SIGCHLD) set.fetch_or(std::uint32_t{1} << number);
    if (auto* const rung = bell().load()) rung->ring();
  }

  static inline std::atomic<std::uint32_t> sent_{0};
  static inline std::atomic<std::uint32_t> typed_{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<mortise::detail::Wake*>::is_always_lock_free);

  mortise::detail::Wake bell_;
  std::array<struct sigaction, changed.size()> before_{};
  sigset_t mask_{};
};

}  // namespace command
