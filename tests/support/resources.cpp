// SPDX-License-Identifier: MIT
// Reading /proc and the signal dispositions.
#include "support/resources.hpp"

#include "support/proc_text.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace support {

namespace {

namespace fs = std::filesystem;

// SA_RESTORER of the kernel: glibc sets it with every disposition it has touched.
constexpr int restorer_flag = 0x04000000;

std::string text_of(fs::path const& path) { return proc_text(path.native()); }

int number_of(fs::path const& path) {
  int value = 0;
  auto const name = path.filename().native();
  std::from_chars(name.data(), name.data() + name.size(), value);
  return value;
}

// The line "Name:\tvalue" of a status file.
std::string field_of(std::string const& status, std::string const& name) {
  auto const at = status.find(name + ":\t");
  if (at == std::string::npos)
    return {};
  auto const from = at + name.size() + 2;
  return status.substr(from, status.find('\n', from) - from);
}

std::chrono::nanoseconds reading(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

// ThreadSanitizer's own thread begins with the first thread of a process: it is there before anybody counts.
void settle_sanitizer() {
#ifdef __SANITIZE_THREAD__
  [[maybe_unused]] static bool const begun = (std::thread{[] {}}.join(), true);
#endif
}

// What stands after the name in /proc/<pid>/stat: the state first.
std::string stat_after_name(pid_t process) {
  auto const stat = text_of("/proc/" + std::to_string(process) + "/stat");
  auto const name_end = stat.rfind(") ");
  return name_end == std::string::npos ? "" : stat.substr(name_end + 2);
}

}  // namespace

std::map<int, std::string> descriptors() {
  std::map<int, std::string> found;
  std::error_code gone;
  for (auto const& entry : fs::directory_iterator{"/proc/self/fd"})
    if (auto const target = fs::read_symlink(entry.path(), gone); !gone)
      found[number_of(entry.path())] = target.native();
  // The directory that was just read is among them.
  auto const own = "/proc/" + std::to_string(::getpid()) + "/fd";
  std::erase_if(found, [&](auto const& entry) { return entry.second == own; });
  return found;
}

std::size_t open_descriptors() {
  return descriptors().size();
}

std::vector<ThreadInfo> threads() {
  settle_sanitizer();
  std::vector<ThreadInfo> found;
  for (auto const& entry : fs::directory_iterator{"/proc/self/task"}) {
    auto const status = text_of(entry.path() / "status");
    if (status.empty())
      continue;
    ThreadInfo info{.id = number_of(entry.path()), .name = field_of(status, "Name")};
    auto const mask = field_of(status, "SigBlk");
    std::from_chars(mask.data(), mask.data() + mask.size(), info.blocked, 16);
    found.push_back(std::move(info));
  }
  std::ranges::sort(found, {}, &ThreadInfo::id);
  return found;
}

std::size_t threads_alive() {
  settle_sanitizer();
  return static_cast<std::size_t>(std::distance(fs::directory_iterator{"/proc/self/task"}, {}));
}

bool wait_for_threads(std::size_t count, std::chrono::nanoseconds timeout) {
  return wait_until([count] { return threads_alive() == count; }, timeout);
}

bool wait_for_descriptors(std::size_t count, std::chrono::nanoseconds timeout) {
  return wait_until([count] { return open_descriptors() == count; }, timeout);
}

std::int64_t resident_kib() {
  std::istringstream pages{text_of("/proc/self/statm")};
  std::int64_t total = 0;
  std::int64_t resident = 0;
  pages >> total >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

std::chrono::nanoseconds cpu_time() {
  return reading(CLOCK_PROCESS_CPUTIME_ID);
}

std::chrono::nanoseconds thread_cpu_time() {
  return reading(CLOCK_THREAD_CPUTIME_ID);
}

std::chrono::nanoseconds cpu_time_of(pid_t process) {
  clockid_t clock{};
  if (::clock_getcpuclockid(process, &clock) != 0)
    throw std::system_error{ESRCH, std::generic_category(), "no process " + std::to_string(process)};
  return reading(clock);
}

bool process_gone(pid_t process) {
  auto const stat = stat_after_name(process);
  return stat.empty() || stat.front() == 'Z' || stat.front() == 'X';
}

SignalDispositions::SignalDispositions() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  for (int number = 1; number < static_cast<int>(reactions_.size()); ++number) {
    auto& reaction = reactions_[static_cast<std::size_t>(number)];
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0)
      continue;  // glibc keeps two for itself
    bool const informed = (action.sa_flags & SA_SIGINFO) != 0;
    reaction.handler = informed ? reinterpret_cast<std::uintptr_t>(action.sa_sigaction)
                                : reinterpret_cast<std::uintptr_t>(action.sa_handler);
    bool const handled = informed || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    reaction.flags = action.sa_flags & (handled ? ~restorer_flag : SA_NOCLDSTOP | SA_NOCLDWAIT);
    reaction.blocked = ::sigismember(&blocked, number) == 1;
  }
}

std::vector<std::string> SignalDispositions::differences(SignalDispositions const& later) const {
  std::vector<std::string> found;
  for (std::size_t number = 1; number < reactions_.size(); ++number) {
    auto const& before = reactions_[number];
    auto const& after = later.reactions_[number];
    auto const name = "signal " + std::to_string(number);
    if (before.handler != after.handler || before.flags != after.flags)
      found.push_back(name + " has another disposition");
    if (before.blocked != after.blocked)
      found.push_back(name + (after.blocked ? " is now blocked" : " is no longer blocked"));
  }
  return found;
}

}  // namespace support
