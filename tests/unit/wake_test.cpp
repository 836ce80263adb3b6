// SPDX-License-Identifier: MIT
// Wake-ups and alarms: what ends a poll early, and what does not end it before its time.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <mortise/detail/wake.hpp>

#include "support/catch.hpp"
#include "support/processes.hpp"

using namespace std::chrono_literals;
using mortise::Clock;
using mortise::TimePoint;
using mortise::detail::Alarm;
using mortise::detail::Descriptor;
using mortise::detail::never;
using mortise::detail::poll_timeout;
using mortise::detail::Wake;

namespace {

bool rung(Wake const& wake, int timeout = 0) {
  pollfd watched{wake.descriptor(), POLLIN, 0};
  return ::poll(&watched, 1, timeout) == 1 && watched.revents == POLLIN;
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

/// Sleeps until the time has come, however often the alarm returns before; says how often it did.
int sleeps_until(Alarm& alarm, TimePoint until) {
  int returned = 0;
  for (; Clock::now() < until; ++returned) alarm.sleep_until(until);
  return returned;
}

/// Handles SIGUSR1 without SA_RESTART while it lives, so that every system call is interrupted.
class InterruptingSignal {
 public:
  InterruptingSignal() {
    struct sigaction action{};
    action.sa_handler = [](int) { ++handled; };
    ::sigaction(SIGUSR1, &action, &before_);
  }
  ~InterruptingSignal() { ::sigaction(SIGUSR1, &before_, nullptr); }

  static inline std::atomic<int> handled{0};

 private:
  struct sigaction before_{};
};

}  // namespace

TEST_CASE("a descriptor is closed once by its last owner") {
  int const fd = ::dup(STDERR_FILENO);
  {
    Descriptor first{fd};
    Descriptor second{std::move(first)};
    CHECK_FALSE(first);  // NOLINT: a moved-from descriptor is empty
    CHECK(second.get() == fd);
    Descriptor third;
    third = std::move(second);
    CHECK(is_open(fd));
    auto& same = third;
    third = std::move(same);
    CHECK(third.get() == fd);
  }
  CHECK_FALSE(is_open(fd));
}

TEST_CASE("assigning to a descriptor closes what it had, releasing one does not") {
  int const one = ::dup(STDERR_FILENO);
  int const two = ::dup(STDERR_FILENO);
  Descriptor descriptor{one};
  descriptor = Descriptor{two};
  CHECK_FALSE(is_open(one));
  CHECK(descriptor.release() == two);
  CHECK_FALSE(descriptor);
  CHECK(is_open(two));
  ::close(two);
}

TEST_CASE("a ring is there until it is silenced, however often it was rung") {
  Wake wake;
  CHECK_FALSE(rung(wake));
  wake.ring();
  CHECK(rung(wake));
  CHECK(rung(wake));
  for (int i = 0; i < 100'000; ++i) wake.ring();
  wake.silence();
  CHECK_FALSE(rung(wake));
  wake.silence();
  wake.ring();
  CHECK(rung(wake));
}

TEST_CASE("a ring from another thread ends a poll") {
  Wake wake;
  std::jthread ringer{[&] { wake.ring(); }};
  CHECK(rung(wake, 30'000));
}

TEST_CASE("ringing leaves errno alone, and the descriptor does not survive exec") {
  Wake wake;
  errno = EDOM;
  wake.ring();
  CHECK(errno == EDOM);
  CHECK((::fcntl(wake.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(wake.descriptor(), F_GETFL) & O_NONBLOCK) != 0);
}

TEST_CASE("a poll is told whole milliseconds, rounded up and cut to what an int holds") {
  TimePoint const now{1h};
  CHECK(poll_timeout(now + 5ms, now) == 5);
  CHECK(poll_timeout(now + 5ms + 1ns, now) == 6);
  CHECK(poll_timeout(now + 1ns, now) == 1);
  CHECK(poll_timeout(now, now) == 0);
  CHECK(poll_timeout(now - 1h, now) == 0);
  CHECK(poll_timeout(never, now) == -1);
  CHECK(poll_timeout(now + 24h * 365, now) == 3'600'000);
  CHECK(poll_timeout(never - 1ns, now) == 3'600'000);
}

TEST_CASE("an alarm returns at its time, not before, and not for ever") {
  Alarm alarm;
  for (auto const nap : {1us, 300us, 1000us, 2500us, 20'000us}) {
    auto const until = Clock::now() + nap;
    CHECK(sleeps_until(alarm, until) <= 5);  // it sleeps: it does not spin
    CHECK(Clock::now() >= until);
  }
}

TEST_CASE("an alarm whose time has passed returns at once") {
  Alarm alarm;
  alarm.sleep_until(Clock::now() - 1h);
  alarm.sleep_until(TimePoint::min());
  alarm.sleep_until(TimePoint{});
  SUCCEED();
}

TEST_CASE("a ring ends an alarm of any length, and is used up by it") {
  Alarm alarm;
  for (auto const until : {Clock::now() + 2h, Clock::now() + 24h * 3650, never - 1ns, never}) {
    std::jthread ringer{[&] { alarm.ring(); }};
    alarm.sleep_until(until);
  }
  CHECK_FALSE(rung(alarm.bell()));
}

TEST_CASE("a ring before the sleep is not lost") {
  Alarm alarm;
  alarm.ring();
  alarm.sleep_until(never);
  CHECK_FALSE(rung(alarm.bell()));
}

TEST_CASE("an alarm set anew forgets its former time") {
  Alarm alarm;
  auto const soon = Clock::now() + 2ms;
  sleeps_until(alarm, soon);  // its timer has gone off
  auto const later = Clock::now() + 10ms;
  CHECK(sleeps_until(alarm, later) <= 5);
  CHECK(Clock::now() >= later);
}

TEST_CASE("signals do not bring an alarm forward") {
  InterruptingSignal const interrupting;
  std::atomic<bool> asleep{false}, done{false};
  auto const sleeper = ::pthread_self();
  auto const before = InterruptingSignal::handled.load();
  std::jthread shooter{[&] {
    while (!asleep) std::this_thread::yield();
    while (!done) {
      ::pthread_kill(sleeper, SIGUSR1);
      std::this_thread::yield();
    }
  }};
  Alarm alarm;
  auto const until = Clock::now() + 30ms;
  asleep = true;
  sleeps_until(alarm, until);
  CHECK(Clock::now() >= until);
  CHECK(support::wait_until([&] { return InterruptingSignal::handled > before; }));
  done = true;
}

#if defined(__linux__)
TEST_CASE("an alarm without a timer of the system still returns at its time") {
  support::ChildProcess child{[] {
    Descriptor const lowest{::dup(STDERR_FILENO)};
    Descriptor second{::dup(STDERR_FILENO)};
    auto const limit = static_cast<rlim_t>(second.get()) + 1;
    second.close();
    rlimit const one_more{limit, limit};
    if (::setrlimit(RLIMIT_NOFILE, &one_more) != 0) return 1;
    Alarm alarm;
    if (::dup(STDERR_FILENO) != -1) return 2;  // the bell took the last one
    auto const until = Clock::now() + 5ms;
    if (sleeps_until(alarm, until) > 5) return 3;
    alarm.ring();
    alarm.sleep_until(never);
    return 0;
  }};
  CHECK(child.wait() == support::ExitStatus::exited(0));
}
#endif
