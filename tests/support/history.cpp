// SPDX-License-Identifier: MIT
// The log in shared memory.
#include "support/history.hpp"

#include "support/sockets.hpp"

#include <ctime>
#include <fcntl.h>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace support {

// The kind is written last: a slot whose writer was killed half-way counts as nothing.
struct HistoryLog::Slot {
  std::atomic<Happening> what;
  HistoryRecord record;
};

namespace {

constexpr std::size_t head = 64;

}  // namespace

std::int64_t boottime_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

HistoryLog::HistoryLog(std::filesystem::path const& file, std::size_t capacity)
    : capacity_{capacity}, bytes_{head + capacity * sizeof(Slot)} {
  Descriptor const opened{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  // Growing only: zeroes are a valid empty log, and nobody's records are cut off.
  if (!opened || (::lseek(opened.get(), 0, SEEK_END) < static_cast<off_t>(bytes_) &&
                  ::ftruncate(opened.get(), static_cast<off_t>(bytes_)) != 0))
    throw_errno("cannot open " + file.native());
  map(opened.get());
}

HistoryLog::HistoryLog(std::size_t capacity) : capacity_{capacity}, bytes_{head + capacity * sizeof(Slot)} {
  map(-1);
}

void HistoryLog::map(int fd) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Happening>::is_always_lock_free);
  int const flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED)
    throw_errno("mmap");
  next_ = static_cast<std::atomic<std::uint64_t>*>(memory);
  slots_ = reinterpret_cast<Slot*>(static_cast<char*>(memory) + head);
}

HistoryLog::~HistoryLog() {
  ::munmap(next_, bytes_);
}

void HistoryLog::add(Happening what, std::uint64_t name, std::uint64_t fence, std::int64_t until) {
  add({.what = what, .process = ::getpid(), .thread = ::syscall(SYS_gettid), .name = name, .fence = fence,
       .at = boottime_ns(), .until = until});
}

void HistoryLog::add_about(pid_t process, Happening what) {
  add({.what = what, .process = process, .at = boottime_ns()});
}

void HistoryLog::add(HistoryRecord const& record) {
  auto const index = next_->fetch_add(1, std::memory_order_relaxed);
  if (index >= capacity_)
    return;  // records() reports it
  slots_[index].record = record;
  slots_[index].what.store(record.what, std::memory_order_release);
}

std::size_t HistoryLog::begun() const {
  auto const count = next_->load();
  if (count > capacity_)
    throw std::length_error{"the history has " + std::to_string(count) + " records and room for " +
                            std::to_string(capacity_)};
  return count;
}

std::vector<HistoryRecord> HistoryLog::records() const {
  auto const count = begun();
  std::vector<HistoryRecord> found;
  for (std::size_t index = 0; index < count; ++index)
    if (slots_[index].what.load(std::memory_order_acquire) != Happening::nothing)
      found.push_back(slots_[index].record);
  return found;
}

std::size_t HistoryLog::count(Happening what) const {
  auto const all = begun();
  std::size_t found = 0;
  for (std::size_t index = 0; index < all; ++index)
    if (slots_[index].what.load(std::memory_order_acquire) == what)
      ++found;
  return found;
}

}  // namespace support
