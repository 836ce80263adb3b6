// SPDX-License-Identifier: MIT
#include "process.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <time.h>
#include <unistd.h>

namespace bench {
namespace {

std::filesystem::path const tasks{"/proc/self/task"};

Seconds clock(clockid_t id) {
  timespec now{};
  ::clock_gettime(id, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

}  // namespace

double resident_kib() {
  std::ifstream in{"/proc/self/statm"};
  double size = 0;
  double resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024;
}

std::size_t threads() {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Iterator{tasks}, Iterator{}));
}

Seconds process_time() { return clock(CLOCK_PROCESS_CPUTIME_ID); }
Seconds thread_time() { return clock(CLOCK_THREAD_CPUTIME_ID); }

Seconds time_of_threads(std::string const& name) {
  std::chrono::nanoseconds total{};
  for (auto const& task : std::filesystem::directory_iterator{tasks}) {
    std::string of;
    std::getline(std::ifstream{task.path() / "comm"}, of);
    if (of != name) continue;
    std::int64_t running = 0;
    std::ifstream{task.path() / "schedstat"} >> running;
    total += std::chrono::nanoseconds{running};
  }
  return total;
}

}  // namespace bench
