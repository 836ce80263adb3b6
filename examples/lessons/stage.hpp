// SPDX-License-Identifier: MIT
// What every lesson stands on: one timeline, processes that cannot outlive it, waits that end, and a last line that tells
// what was proved.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lesson {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// The same for all processes of a machine.
using Clock = std::chrono::steady_clock;

/// Exit codes: what CTest and run.sh go by.
enum Exit : int { was_proved = 0, was_not_proved = 1, usage = 64, skipped = 77 };

/// What was to be shown is not so.
struct NotProved : std::runtime_error {
  using runtime_error::runtime_error;
};

/// A store that is not there: the lesson is skipped.
struct Missing : std::runtime_error {
  using runtime_error::runtime_error;
};

inline void prove(bool truth, std::string const& what) {
  if (!truth) throw NotProved{what};
}

inline Clock::time_point began = Clock::now();
inline std::string who = "stage";

inline milliseconds since(Clock::time_point earlier) { return std::chrono::round<milliseconds>(Clock::now() - earlier); }

/// One line of the timeline, in one write, so that lines of several processes never mix.
template <class... Parts>
void say(Parts const&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  auto time = std::to_string(since(began).count());
  time.insert(0, time.size() < 6 ? 6 - time.size() : 0, ' ');
  std::string name{who};
  name.resize(std::max<std::size_t>(name.size(), 6), ' ');
  std::cout << time + " ms  " + name + "  " + text.str() + '\n' << std::flush;
}

/// Whether it becomes true in time; generous, because machines are busy.
template <std::predicate Predicate>
[[nodiscard]] bool comes_true(Predicate&& predicate, milliseconds at_most = 20s) {
  for (auto const end = Clock::now() + at_most; !predicate(); std::this_thread::sleep_for(1ms))
    if (Clock::now() > end) return false;
  return true;
}
/// Waits for what is expected to come soon.
template <std::predicate Predicate>
void await(std::string const& what, Predicate&& predicate, milliseconds at_most = 20s) {
  if (!comes_true(predicate, at_most)) throw std::runtime_error{"waited in vain: " + what};
}
inline void await(std::string const& what, std::atomic<bool> const& mark) {
  await(what, [&] { return mark.load(); });
}
inline void pass(milliseconds time) { std::this_thread::sleep_for(time); }

/// Marks and numbers that all processes forked later see. `T` is made of lock-free atomics.
template <class T>
T& shared() {
  static_assert(std::is_trivially_destructible_v<T>);
  void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error{errno, std::generic_category(), "mmap"};
  return *new (memory) T{};
}
using Mark = std::atomic<bool>;
using Number = std::atomic<std::int64_t>;

/// The unlucky moment: this process is stopped between two of its instructions, until the director lets it go on.
inline void pause_here() { ::raise(SIGSTOP); }

/// How many are where only one should be, and how many ever were at once.
struct Room {
  Number inside{}, most{};
  void enter() {
    auto const now = ++inside;
    for (auto seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
    }
  }
  void leave() { --inside; }
};

/// A process of the play: killed when its handle or the director goes.
class Process {
 public:
  Process(std::string name, std::function<void()> const& body) : name_{std::move(name)} {
    std::cout.flush();
    auto const director = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error{errno, std::generic_category(), "fork"};
    if (pid_ == 0) perform(director, body);
  }
  Process(Process&& other) noexcept : name_{std::move(other.name_)}, pid_{std::exchange(other.pid_, -1)} {}
  Process& operator=(Process&&) = delete;
  ~Process() { kill(); }

  /// SIGSTOP: not one of its instructions runs until go_on(). What a collector, a hypervisor or swapping does to it.
  void stop() {
    ::kill(pid_, SIGSTOP);
    await_stop();
  }
  /// Waits until it has stopped itself by pause_here().
  void await_stop() {
    siginfo_t seen{};
    await("process " + name_ + " stops", [&] {
      return ::waitid(P_PID, static_cast<id_t>(pid_), &seen, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) == 0 && seen.si_pid == pid_;
    });
    if (seen.si_code != CLD_STOPPED) join();  // says why
    ::waitid(P_PID, static_cast<id_t>(pid_), &seen, WSTOPPED | WNOHANG);
  }
  void go_on() { ::kill(pid_, SIGCONT); }
  /// Waits until it has set the mark; if it ends without, join() says why.
  void await_mark(std::atomic<bool> const& mark) {
    siginfo_t seen{};
    await("process " + name_, [&] {
      return mark || (::waitid(P_PID, static_cast<id_t>(pid_), &seen, WEXITED | WNOHANG | WNOWAIT) == 0 && seen.si_pid == pid_);
    });
    if (!mark) join();
  }

  /// kill -9.
  void kill() noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// Waits for its end, which must be a good one.
  void join() {
    int status = 0;
    await("the end of process " + name_, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, 60s);
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == was_not_proved) throw NotProved{"see process " + name_};
    if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) throw Missing{"see process " + name_};
    if (status != 0) throw std::runtime_error{"process " + name_ + " failed"};
  }

 private:
  [[noreturn]] void perform(pid_t director, std::function<void()> const& body) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != director) ::_exit(usage);
    who = name_;
    int code = was_proved;
    try {
      body();
    } catch (NotProved const& no) {
      say("not so: ", no.what());
      code = was_not_proved;
    } catch (Missing const& missing) {
      say(missing.what());
      code = skipped;
    } catch (std::exception const& error) {
      say("FAILS: ", error.what());
      code = usage;
    }
    std::cout.flush();
    ::_exit(code);
  }

  std::string name_;
  pid_t pid_ = -1;
};

/// What the program was called with: its stores, and which guard it is to go without.
class Play {
 public:
  Play(std::string without, std::initializer_list<std::string_view> guards) : without_{std::move(without)} {
    known_ = without_.empty() || std::find(guards.begin(), guards.end(), without_) != guards.end();
  }
  bool known() const { return known_; }
  /// Told to leave this guard out, to see the lesson fail.
  bool without(std::string_view guard) const { return without_ == guard; }
  std::string redis() const { return store("MORTISE_REDIS", "Redis (Debian: redis-server)"); }
  std::string postgres() const { return store("LESSON_POSTGRES", "PostgreSQL (Debian: postgresql)"); }
  std::string mariadb() const { return store("LESSON_MARIADB", "MariaDB (Debian: mariadb-server-core)"); }
  /// Independent servers of a quorum, separated by spaces.
  std::string nodes() const { return store("LESSON_NODES", "five Redis servers (Debian: redis-server)"); }
  std::string folder() const { return store("LESSON_FOLDER", "a scratch folder"); }

 private:
  static std::string store(char const* variable, char const* what) {
    char const* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0')
      throw Missing{std::string{variable} + " is not set, and this lesson needs " + what + ": run it by examples/lessons/run.sh"};
    return value;
  }
  std::string without_;
  bool known_ = true;
};

/// The whole program: `body` plays the lesson and returns what was proved.
inline int play(int argc, char** argv, std::initializer_list<std::string_view> guards,
                std::function<std::string(Play const&)> const& body) {
  bool const option = argc == 3 && std::string_view{argv[1]} == "--without";
  Play const given{option ? argv[2] : "", guards};
  if ((argc != 1 && !option) || !given.known()) {
    std::cerr << "usage: " << argv[0];
    for (auto const guard : guards) std::cerr << (guard == *guards.begin() ? " [--without " : "|") << guard;
    std::cerr << (guards.size() > 0 ? "]\n" : "\n");
    return usage;
  }
  try {
    auto const result = body(given);
    std::cout << "proved: " << result << '\n';
    return was_proved;
  } catch (NotProved const& no) {
    std::cout << "not proved: " << no.what() << '\n';
    return was_not_proved;
  } catch (Missing const& missing) {
    std::cout << "skipped: " << missing.what() << '\n';
    return skipped;
  } catch (std::exception const& error) {
    std::cout << "failed: " << error.what() << '\n';
    return usage;
  }
}

}  // namespace lesson
