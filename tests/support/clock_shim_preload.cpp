// SPDX-License-Identifier: MIT
// A library to preload: moves the wall clock of a process by an offset that a test keeps in a shared file.

// A call of gettimeofday(), time() or clock_gettime() goes through the symbol and thus comes here, also where glibc
// would take the vDSO. What waits for an absolute CLOCK_REALTIME in the kernel is not moved.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

constexpr std::int64_t second = 1'000'000'000;

std::atomic<std::int64_t> const* mapped_offset() {
  auto const* const path = std::getenv("MORTISE_CLOCK_SHIM");
  int const fd = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0)
    return nullptr;
  void* const memory = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory != MAP_FAILED ? static_cast<std::atomic<std::int64_t> const*>(memory) : nullptr;
}

std::atomic<std::int64_t> const* offset = nullptr;

__attribute__((constructor)) void find_offset() {
  offset = mapped_offset();
}

int moved(clockid_t clock, timespec* time) {
  auto const result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  bool const wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  if (result != 0 || !wall || offset == nullptr)
    return result;
  auto const now = std::int64_t{time->tv_sec} * second + time->tv_nsec + offset->load(std::memory_order_relaxed);
  time->tv_sec = static_cast<time_t>(now / second);
  time->tv_nsec = static_cast<long>(now % second);
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  return moved(clock, time);
}

__attribute__((visibility("default"))) int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  int const result = moved(CLOCK_REALTIME, &now);
  if (result == 0)
    *time = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}

__attribute__((visibility("default"))) time_t time(time_t* where) noexcept {
  timespec now{};
  moved(CLOCK_REALTIME, &now);
  if (where != nullptr)
    *where = now.tv_sec;
  return now.tv_sec;
}

__attribute__((visibility("default"))) int timespec_get(timespec* time, int base) noexcept {
  return base == TIME_UTC && moved(CLOCK_REALTIME, time) == 0 ? base : 0;
}

}
