// SPDX-License-Identifier: MIT
// Which process this is, for the price of reading one byte of memory, and objects that a forked child replaces by its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace mortise::inline v1::detail {

/// A page that the kernel zeroes in every child of a fork, however it was forked: one read tells parent from child, where
/// getpid() would be a system call for each lock.
inline std::atomic<std::uint64_t>* fork_marker() noexcept {
#if defined(__linux__) && defined(MADV_WIPEONFORK)
  using Marker = std::atomic<std::uint64_t>;
  static constinit Marker none{0};                    // this system has no such page
  static constinit std::atomic<Marker*> made{nullptr};  // no lock: a child could inherit it locked
  auto* marker = made.load(std::memory_order_acquire);
  if (marker == nullptr) [[unlikely]] {
    auto const size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool const wiped = page != MAP_FAILED && ::madvise(page, size, MADV_WIPEONFORK) == 0;
    auto* const fresh = wiped ? new (page) Marker{0} : &none;
    bool const first = made.compare_exchange_strong(marker, fresh, std::memory_order_acq_rel, std::memory_order_acquire);
    if (first) marker = fresh;
    if (page != MAP_FAILED && (!first || !wiped)) ::munmap(page, size);
  }
  return marker == &none ? nullptr : marker;
#else
  return nullptr;
#endif
}

/// A number that differs from those of all processes this one descends from: what was made under another one was inherited
/// by a fork. Not the process id: a grandchild may get that of a dead grandparent, and a child in a PID namespace of its own
/// its parent's. Cheap enough to be asked before every use of something that must not cross a fork.
inline std::uint64_t process_generation() noexcept {
  static std::atomic<std::uint64_t> last{0};  // not zeroed by a fork: a child counts on from its parent's
  auto* const marker = fork_marker();
  if (marker == nullptr) return static_cast<std::uint64_t>(::getpid());
  auto generation = marker->load(std::memory_order_acquire);
  if (generation == 0) [[unlikely]] {
    auto const next = last.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (marker->compare_exchange_strong(generation, next, std::memory_order_acq_rel)) return next;
  }
  return generation;
}

/// What a child inherited and never uses or frees: kept within reach, so that a tool that looks for leaks is silent.
inline void bury(void* inherited) noexcept {
  struct Grave {
    void* inherited;
    Grave* next;
  };
  static std::atomic<Grave*> last{nullptr};
  auto* const grave = new (std::nothrow) Grave{inherited, last.load(std::memory_order_relaxed)};
  while (grave != nullptr && !last.compare_exchange_weak(grave->next, grave, std::memory_order_acq_rel)) {
  }
}

/// Owns a T of this process. In a forked child the inherited T is left alone for ever (its mutexes may be locked, its
/// threads do not exist) and a fresh one is made at the first use. No lock of its own: one could be inherited locked.
template <class T>
class PerProcess {
 public:
  /// Told the T that a forked child inherited, or nullptr: of that only what is safe in a child may be touched.
  using Factory = std::function<std::shared_ptr<T>(T* inherited)>;

  explicit PerProcess(Factory factory) : factory_{std::move(factory)}, current_{new Slot{factory_(nullptr), process_generation()}} {}
  PerProcess(PerProcess const&) = delete;
  PerProcess& operator=(PerProcess const&) = delete;
  ~PerProcess() {
    auto* const slot = current_.load(std::memory_order_acquire);
    if (slot->generation == process_generation())
      delete slot;
    else
      bury(slot);
  }

  std::shared_ptr<T> const& get() {
    auto* slot = current_.load(std::memory_order_acquire);
    if (slot->generation == process_generation()) [[likely]] return slot->value;
    auto fresh = std::make_unique<Slot>(Slot{factory_(slot->value.get()), process_generation()});
    auto* const inherited = slot;
    if (!current_.compare_exchange_strong(slot, fresh.get(), std::memory_order_acq_rel)) return slot->value;
    bury(inherited);
    return fresh.release()->value;
  }

  /// The T of this process if there is one already: never makes one.
  std::shared_ptr<T> peek() const noexcept {
    auto* const slot = current_.load(std::memory_order_acquire);
    return slot->generation == process_generation() ? slot->value : nullptr;
  }

 private:
  struct Slot {
    std::shared_ptr<T> value;
    std::uint64_t generation;
  };

  Factory factory_;
  std::atomic<Slot*> current_;
};

/// Forgets a reference that was taken before a fork, without ever running what its end would run.
template <class T>
void leak(std::shared_ptr<T>&& inherited) noexcept {
  if (!inherited) return;
  bury(inherited.get());
  alignas(std::shared_ptr<T>) unsigned char grave[sizeof(std::shared_ptr<T>)];
  new (grave) std::shared_ptr<T>{std::move(inherited)};
}

}  // namespace mortise::inline v1::detail
