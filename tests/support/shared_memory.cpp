// SPDX-License-Identifier: MIT
// Shared numbers and the barrier.
#include "support/shared_memory.hpp"

#include "support/sockets.hpp"

#include <new>
#include <sys/mman.h>

namespace support {

SharedCounters::SharedCounters(std::size_t count) : count_{count} {
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  auto const bytes = count * sizeof(std::atomic<std::int64_t>);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw_errno("mmap");
  numbers_ = static_cast<std::atomic<std::int64_t>*>(memory);
  for (std::size_t index = 0; index < count; ++index)
    new (&numbers_[index]) std::atomic<std::int64_t>{0};
}

SharedCounters::~SharedCounters() {
  ::munmap(numbers_, count_ * sizeof(std::atomic<std::int64_t>));
}

bool Barrier::arrive_and_wait(std::chrono::nanoseconds timeout) {
  auto const mine = state_[0].fetch_add(1);
  auto const enough = (mine / parties_ + 1) * parties_;
  return wait_until([this, enough] { return state_[0].load() >= enough; }, timeout, std::chrono::microseconds{50});
}

}  // namespace support
