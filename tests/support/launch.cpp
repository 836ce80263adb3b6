// SPDX-License-Identifier: MIT
// Child processes: the system calls, and what makes them die with the test process.
#include "support/launch.hpp"

#include "support/proc_text.hpp"
#include "support/wait_until.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
// Children forked by a test with threads may start threads of their own.
extern "C" char const* __tsan_default_options();
extern "C" char const* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif

namespace support {

namespace {

bool in_main_thread() {
  return ::syscall(SYS_gettid) == ::getpid();
}

void close_from(int first, int keep) {
  int const limit = static_cast<int>(::sysconf(_SC_OPEN_MAX));
  auto const close_range = [](int from, int to) {
#ifdef SYS_close_range
    if (from > to || ::syscall(SYS_close_range, from, to, 0) == 0)
      return;
#endif
    for (int fd = from; fd <= to; ++fd)
      ::close(fd);
  };
  close_range(first, keep - 1);
  close_range(std::max(first, keep + 1), limit);
}

void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(EXIT_FAILURE);
}

// The kernel's parent-death signal is bound to the thread that forked. A child of any other thread than the main one,
// which is as old as the process, gets a guard instead: a process that looks whether the test process is still there.
pid_t guard_for(pid_t child, pid_t parent) {
  pid_t const guard = ::fork();
  if (guard != 0)
    return guard;
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    ::signal(number, SIG_IGN);
  close_from(0, -1);
  while (::getppid() == parent)
    ::usleep(50'000);
  ::kill(child, SIGKILL);
  ::_exit(EXIT_SUCCESS);
}

std::optional<int> reap(pid_t pid, int flags) {
  int status = 0;
  for (;;) {
    pid_t const got = ::waitpid(pid, &status, flags);
    if (got == pid)
      return status;
    if (got == 0)
      return std::nullopt;
    if (errno != EINTR)
      return 0;
  }
}

bool stopped(std::filesystem::path const& task) {
  auto const line = proc_text((task / "stat").native());
  auto const name_end = line.rfind(')');
  return name_end == std::string::npos || line.find_first_of("TtZX", name_end) == name_end + 2;
}

bool all_threads_stopped(pid_t pid) {
  std::error_code ended;
  for (auto const& task : std::filesystem::directory_iterator{"/proc/" + std::to_string(pid) + "/task", ended})
    if (!stopped(task.path()))
      return false;
  return true;
}

}  // namespace

Child::Child(Child&& other) noexcept
    : pid_{std::exchange(other.pid_, -1)}, owner_{other.owner_}, guard_{std::exchange(other.guard_, -1)},
      status_{other.status_} {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, -1);
    owner_ = other.owner_;
    guard_ = std::exchange(other.guard_, -1);
    status_ = other.status_;
  }
  return *this;
}

Child Child::fork(std::function<int()> const& body) {
  std::cout.flush();
  std::fflush(nullptr);
  bool const main_thread = in_main_thread();
  Child made;
  made.owner_ = ::getpid();
  made.pid_ = ::fork();
  if (made.pid_ < 0)
    throw_errno("fork");
  if (made.pid_ == 0) {
    if (main_thread)
      die_with(made.owner_);
    ::_exit(body());
  }
  if (!main_thread)
    made.guard_ = guard_for(made.pid_, made.owner_);
  return made;
}

bool Child::mine() const {
  return pid_ > 0 && owner_ == ::getpid() && !status_;
}

void Child::signal(int number) const {
  if (mine())
    ::kill(pid_, number);
}

void Child::freeze() const {
  signal(SIGSTOP);
  if (mine() && !wait_until([this] { return all_threads_stopped(pid_); }))
    throw std::runtime_error{"the child does not stop"};
}

void Child::thaw() const {
  signal(SIGCONT);
}

std::optional<int> Child::wait(Clock::time_point deadline) {
  if (mine() && (status_ = reap(pid_, WNOHANG), !status_))
    static_cast<void>(wait_until([this] { return (status_ = reap(pid_, WNOHANG)).has_value(); },
                                 deadline - Clock::now()));
  if (status_ && guard_ > 0 && owner_ == ::getpid()) {
    ::kill(guard_, SIGKILL);
    reap(std::exchange(guard_, -1), 0);
  }
  return status_;
}

void Child::end() noexcept {
  if (mine()) {
    ::kill(pid_, SIGKILL);
    status_ = reap(pid_, 0);
  }
  wait(Clock::now());
}

Child execute(Execution const& what) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw_errno("pipe2");
  Descriptor failure_in{ends[0]};
  Descriptor failure_out{ends[1]};

  std::vector<char*> words;
  for (auto const& word : what.words)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  auto child = Child::fork([&] {
    int const wanted[] = {what.input, what.output, what.errors};
    for (int target = 0; target < 3; ++target)
      if (wanted[target] >= 0)
        ::dup2(wanted[target], target);
    close_from(3, failure_out.get());
    for (int number = 1; number < NSIG; ++number)
      ::signal(number, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    for (auto const& [name, value] : what.environment)
      ::setenv(name.c_str(), value.c_str(), 1);
    if (what.folder.empty() || ::chdir(what.folder.c_str()) == 0)
      ::execvp(words[0], words.data());
    int const error = errno;
    return ::write(failure_out.get(), &error, sizeof error) > 0 ? 127 : 126;
  });
  failure_out.reset();
  // End of file means executed. Bounded, because a child that another thread forks just now has a copy of that end.
  int error = 0;
  if (wait_ready(failure_in.get(), POLLIN, Clock::now() + Milliseconds{5000}) &&
      ::read(failure_in.get(), &error, sizeof error) == sizeof error) {
    errno = error;
    throw_errno("cannot execute " + what.words.at(0));
  }
  return child;
}

}  // namespace support
