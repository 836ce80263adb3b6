// SPDX-License-Identifier: MIT
// Descriptors that end a poll early: a wake-up that another thread rings, and an alarm on the clock that counts suspension.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#endif

#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// Owns one descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_{fd} {}
  Descriptor(Descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_{-1};
};

#if defined(__linux__)
/// Lets a timer of Clock run out at `when`. False where it cannot.
inline bool set_timer(int timer, TimePoint when) noexcept {
  auto const since = when.time_since_epoch();
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  itimerspec spec{};
  spec.it_value.tv_sec = static_cast<time_t>(seconds.count());
  spec.it_value.tv_nsec = static_cast<long>((since - seconds).count());
  return ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, nullptr) == 0;
}
#endif

/// The poll timeout until `deadline`: rounded up, so that a poll never ends before it, and cut to what an int holds.
inline int poll_timeout(TimePoint deadline, TimePoint now) noexcept {
  if (deadline == never) return -1;
  auto const rest = remaining(deadline, now);
  return static_cast<int>(std::min<milliseconds::rep>(rest.count(), 1000 * 3600));
}

/// A bell for one poll at a time: ring() may be called from any thread, also from a stop callback; a ring stays until
/// it is silenced.
class Wake {
 public:
  /// How it rings: only when it is told to, or also at a time, where the system has timers for that.
  enum class Kind : std::uint8_t { plain, timed };

  explicit Wake(Kind kind = Kind::plain) {
#if defined(__linux__)
    timed_ = kind == Kind::timed;
    in_ = Descriptor{timed_ ? ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC) : -1};
    if (in_) return;
    timed_ = false;
    in_ = Descriptor{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (!in_) throw std::system_error{errno, std::generic_category(), "eventfd"};
#else
    static_cast<void>(kind);
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error{errno, std::generic_category(), "pipe"};
    in_ = Descriptor{ends[0]};
    out_ = Descriptor{ends[1]};
    for (int const fd : ends) {
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
#endif
  }

  int descriptor() const noexcept { return in_.get(); }

  void ring() noexcept {
    auto const saved = errno;
    rung_.store(true, std::memory_order_release);
#if defined(__linux__)
    if (timed_)
      set_timer(in_.get(), TimePoint{nanoseconds{1}});  // long past: at once
    else
      [[maybe_unused]] auto const done = ::eventfd_write(in_.get(), 1);
#else
    [[maybe_unused]] auto const done = ::write(out_.get(), "", 1);
#endif
    errno = saved;
  }

  /// Sleeps until then, finer than in milliseconds where the system can, or until it is rung, which it takes back.
  void wait_until(TimePoint until) noexcept {
    pollfd watched{in_.get(), POLLIN, 0};
    for (;;) {
      auto const now = Clock::now();
      auto const rest = std::max(until - now, nanoseconds::zero());
#if defined(__linux__)
      timespec const time{static_cast<time_t>(rest.count() / 1'000'000'000), static_cast<long>(rest.count() % 1'000'000'000)};
      auto const count = ::ppoll(&watched, 1, &time, nullptr);
#else
      auto const count = ::poll(&watched, 1, poll_timeout(until, now));
#endif
      if (count > 0) return silence();
      if (Clock::now() >= until) return;
    }
  }


  /// Rings at `when` if it is timed, in place of any time before; a plain one never does.
  void ring_at([[maybe_unused]] TimePoint when) noexcept {
#if defined(__linux__)
    if (timed_) set_timer(in_.get(), when);
#endif
  }

  /// Takes back whatever was rung, or is to ring. After a poll that the bell ended.
  void silence() noexcept {
    rung_.store(false, std::memory_order_relaxed);
#if defined(__linux__)
    if (timed_) {
      itimerspec const off{};
      ::timerfd_settime(in_.get(), 0, &off, nullptr);
      return;
    }
#endif
    char sink[64];
    while (::read(in_.get(), sink, sizeof sink) > 0) {
    }
  }

  /// The same where it most likely did not ring: then it costs nothing. One ring under way may be heard later.
  void silence_if_rung() noexcept {
    if (rung_.load(std::memory_order_acquire)) silence();
  }

 private:
  std::atomic<bool> rung_{false};
  Descriptor in_;
#if defined(__linux__)
  bool timed_{false};
#endif
#if !defined(__linux__)
  Descriptor out_;
#endif
};

/// Sleeps until a point of Clock or until the bell rings, also across a suspension of the machine.
class Alarm {
 public:
  Alarm() {
#if defined(__linux__)
    timer_ = Descriptor{::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)};  // absent: poll's own timeout serves
#endif
  }

  void ring() noexcept { bell_.ring(); }
  Wake& bell() noexcept { return bell_; }

  /// Returns at `until`, after a ring, when `also` is readable, or now and then for no reason.
  void sleep_until(TimePoint until, int also = -1) noexcept {
    pollfd watched[3] = {{bell_.descriptor(), POLLIN, 0}, {-1, POLLIN, 0}, {also, POLLIN, 0}};
    int timeout = poll_timeout(until, Clock::now());
#if defined(__linux__)
    if (timer_ && timeout > 0 && set_timer(timer_.get(), until)) {
      watched[1].fd = timer_.get();
      timeout = -1;
    }
#endif
    ::poll(watched, 3, timeout);
    if (watched[0].revents != 0) bell_.silence();
  }

 private:
  Wake bell_;
  Descriptor timer_;
};

}  // namespace mortise::inline v1::detail
