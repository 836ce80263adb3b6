// SPDX-License-Identifier: MIT
// A call that is expected to block, on a thread of its own.
#pragma once

#include "support/proc_text.hpp"
#include "support/wait_until.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace support {

/// Runs `call` on a thread of its own from the construction on; joined by the destructor, so the test has to see to it
/// that the call ends. What it returns or throws comes out of get().
template <class Result>
class Waiting {
public:
  template <class Call>
    requires std::is_invocable_r_v<Result, Call&>
  explicit Waiting(Call call)
      : task_{std::move(call)}, result_{task_.get_future()}, thread_{[this] {
          id_ = static_cast<pid_t>(::syscall(SYS_gettid));
          task_();
        }} {}
  Waiting(Waiting const&) = delete;
  Waiting& operator=(Waiting const&) = delete;
  ~Waiting() { thread_.join(); }

  /// The call has begun, and its thread has slept at so many looks, a millisecond apart or more: it waits for its turn. False if
  /// it never does. Few looks are for who can tell by other means that it slept over something else.
  [[nodiscard]] bool asleep(int enough = 25) {
    int looks = 0;
    return wait_until([&] {
      looks = id_ != 0 && !over() && state() == 'S' ? looks + 1 : 0;
      return looks == enough || over();
    }) && !over();
  }
  bool over() const { return result_.wait_for(std::chrono::seconds{0}) == std::future_status::ready; }
  /// The call's end is seen within `timeout`.
  [[nodiscard]] bool over_within(std::chrono::nanoseconds timeout) const {
    return result_.wait_for(timeout) == std::future_status::ready;
  }
  /// Waits for the end. Once.
  Result get() { return result_.get(); }

private:
  char state() const {
    auto const line = proc_text("/proc/self/task/" + std::to_string(id_) + "/stat");
    auto const name_end = line.rfind(") ");
    return name_end == std::string::npos ? '?' : line[name_end + 2];
  }

  std::atomic<pid_t> id_{0};
  std::packaged_task<Result()> task_;
  std::future<Result> result_;
  std::thread thread_;
};

template <class Call>
explicit Waiting(Call) -> Waiting<std::invoke_result_t<Call&>>;

}  // namespace support
