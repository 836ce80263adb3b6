// SPDX-License-Identifier: MIT
// The storm's thread and handler.
#include "support/signal_storm.hpp"

#include "support/quiet_thread.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace support {

namespace {

std::atomic<std::int64_t> handled_count = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

void count_signal(int) {
  handled_count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

SignalStorm::SignalStorm(std::chrono::microseconds every, Target target, int signal)
    : signal_{signal},
      thread_id_{target == Target::process ? 0 : static_cast<pid_t>(::syscall(SYS_gettid))} {
  struct sigaction action {};
  action.sa_handler = count_signal;
  ::sigemptyset(&action.sa_mask);
  if (::sigaction(signal_, &action, &before_) != 0)
    throw_errno("sigaction");
  thread_ = quiet_thread([this, every] { blow(every); });
}

SignalStorm::~SignalStorm() {
  ended_ = true;
  thread_.join();
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;  // discards what is still pending, which the disposition before might die of
  ::sigaction(signal_, &ignore, nullptr);
  ::sigaction(signal_, &before_, nullptr);
}

std::int64_t SignalStorm::handled() {
  return handled_count;
}

void SignalStorm::blow(std::chrono::microseconds every) {
  while (!ended_) {
    ++sent_;
    if (thread_id_ == 0)
      ::kill(::getpid(), signal_);
    else
      ::syscall(SYS_tgkill, ::getpid(), thread_id_, signal_);
    std::this_thread::sleep_for(every);
  }
}

}  // namespace support
