// SPDX-License-Identifier: MIT
// The replaced operator new does what it is told.
#include "failing_new.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "support/catch.hpp"

namespace {

thread_local std::int64_t left = -1;  // allocations that still succeed; negative: all
thread_local bool for_good = false;
thread_local bool spared = false;
std::atomic<int> others_fail{0};
thread_local std::int64_t left_to_stand = -1;
std::atomic<bool> stands{false};

void* allocate(std::size_t size, std::size_t alignment) {
  if (left_to_stand >= 0 && left_to_stand-- == 0) {
    stands = true;
    while (stands) std::this_thread::yield();
  }
  if (left == 0) {
    if (!for_good) left = -2;
    throw std::bad_alloc{};
  }
  if (left > 0) --left;
  if (others_fail.load(std::memory_order_relaxed) != 0 && !spared) throw std::bad_alloc{};
  auto const rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  auto* const memory = alignment <= alignof(std::max_align_t) ? std::malloc(rounded) : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}

void* allocate_or_null(std::size_t size) noexcept {
  try {
    return allocate(size, alignof(std::max_align_t));
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
}

}  // namespace

// All of them: a sanitizer has its own where one is missing, and memory would go back to another allocator.
void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, static_cast<std::size_t>(alignment)); }
void* operator new(std::size_t size, std::nothrow_t const&) noexcept { return allocate_or_null(size); }
void* operator new[](std::size_t size, std::nothrow_t const&) noexcept { return allocate_or_null(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace faults {

NthAllocationFails::NthAllocationFails(std::int64_t n) noexcept { left = n; }
NthAllocationFails::~NthAllocationFails() { left = -1; }
bool NthAllocationFails::happened() const noexcept { return left == -2; }

AllocationsFailAfter::AllocationsFailAfter(std::int64_t n) noexcept {
  left = n;
  for_good = true;
}
AllocationsFailAfter::~AllocationsFailAfter() {
  left = -1;
  for_good = false;
}

OtherThreadsFail::OtherThreadsFail() noexcept {
  spared = true;
  ++others_fail;
}
OtherThreadsFail::~OtherThreadsFail() {
  --others_fail;
  spared = false;
}

NthAllocationStands::NthAllocationStands(std::int64_t n) noexcept { left_to_stand = n; }
NthAllocationStands::~NthAllocationStands() { left_to_stand = -1; }
bool NthAllocationStands::somebody_stands() noexcept { return stands; }
void NthAllocationStands::let_go() noexcept { stands = false; }

}  // namespace faults

namespace {

/// Whether an allocation fails here and now; one that no optimizer leaves out.
bool fails() {
  try {
    ::operator delete(::operator new(40));
    return false;
  } catch (std::bad_alloc const&) {
    return true;
  }
}

}  // namespace

TEST_CASE("the n-th allocation of this thread fails, once") {
  faults::NthAllocationFails const failing{2};
  bool const seen[5] = {fails(), fails(), fails(), fails(), fails()};
  bool const happened = failing.happened();
  CHECK_FALSE(seen[0]);
  CHECK_FALSE(seen[1]);
  CHECK(seen[2]);
  CHECK_FALSE(seen[3]);
  CHECK_FALSE(seen[4]);
  CHECK(happened);
}

TEST_CASE("all allocations of this thread fail from the n-th on") {
  bool seen[4];
  {
    faults::AllocationsFailAfter const failing{1};
    for (bool& one : seen) one = fails();
  }
  CHECK_FALSE(seen[0]);
  CHECK(seen[1]);
  CHECK(seen[2]);
  CHECK(seen[3]);
  CHECK_FALSE(fails());
}

TEST_CASE("allocations of other threads fail, and of this one do not") {
  std::atomic<int> step{0};
  bool other = false;
  std::thread thread{[&] {
    while (step == 0) std::this_thread::yield();
    other = fails();
    step = 2;
  }};
  bool here = true;
  {
    faults::OtherThreadsFail const failing;
    here = fails();
    step = 1;
    while (step != 2) std::this_thread::yield();
  }
  thread.join();
  CHECK(other);
  CHECK_FALSE(here);
  CHECK_FALSE(fails());
}

TEST_CASE("the n-th allocation of a thread stands still until it is let go, once") {
  std::atomic<int> passed{0};
  std::thread thread{[&] {
    faults::NthAllocationStands const standing{1};
    for (int i = 0; i < 4; ++i)
      if (!fails()) ++passed;
  }};
  while (!faults::NthAllocationStands::somebody_stands()) std::this_thread::yield();
  int const before = passed;
  faults::NthAllocationStands::let_go();
  thread.join();
  CHECK(before == 1);
  CHECK(passed == 4);
}
