// SPDX-License-Identifier: MIT
// Which process this is, for the price of reading one byte of memory, and objects that a forked child replaces by its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

namespace mortise::inline v1::detail {

/// A page that the kernel zeroes in every child of a fork, however it was forked: one read tells parent from child, where
/// getpid() would be a system call for each lock.
inline std::atomic<pid_t>* fork_marker() noexcept {
  static std::atomic<pid_t>* const marker = []() -> std::atomic<pid_t>* {
#if defined(__linux__) && defined(MADV_WIPEONFORK)
    auto const size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
      if (::madvise(page, size, MADV_WIPEONFORK) == 0) return new (page) std::atomic<pid_t>{0};
      ::munmap(page, size);
    }
#endif
    return nullptr;
  }();
  return marker;
}

/// The process id; cheap enough to be asked before every use of something that must not cross a fork.
inline pid_t process_id() noexcept {
  auto* const marker = fork_marker();
  if (marker == nullptr) return ::getpid();
  auto pid = marker->load(std::memory_order_relaxed);
  if (pid == 0) {
    pid = ::getpid();
    marker->store(pid, std::memory_order_relaxed);
  }
  return pid;
}

/// Owns a T of this process. In a forked child the inherited T is left alone for ever (its mutexes may be locked, its
/// threads do not exist) and a fresh one is made at the first use. No lock of its own: one could be inherited locked.
template <class T>
class PerProcess {
 public:
  /// Told the T that a forked child inherited, or nullptr: of that only what is safe in a child may be touched.
  using Factory = std::function<std::shared_ptr<T>(T* inherited)>;

  explicit PerProcess(Factory factory) : factory_{std::move(factory)}, current_{new Slot{factory_(nullptr), process_id()}} {}
  PerProcess(PerProcess const&) = delete;
  PerProcess& operator=(PerProcess const&) = delete;
  ~PerProcess() {
    auto* const slot = current_.load(std::memory_order_acquire);
    if (slot->pid == process_id()) delete slot;
  }

  std::shared_ptr<T> const& get() {
    auto* slot = current_.load(std::memory_order_acquire);
    if (slot->pid == process_id()) [[likely]] return slot->value;
    auto fresh = std::make_unique<Slot>(Slot{factory_(slot->value.get()), process_id()});
    if (current_.compare_exchange_strong(slot, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->value;
    return slot->value;
  }

  /// The T of this process if there is one already: never makes one.
  std::shared_ptr<T> peek() const noexcept {
    auto* const slot = current_.load(std::memory_order_acquire);
    return slot->pid == process_id() ? slot->value : nullptr;
  }

 private:
  struct Slot {
    std::shared_ptr<T> value;
    pid_t pid;
  };

  Factory factory_;
  std::atomic<Slot*> current_;
};

/// Forgets a reference that was taken before a fork, without ever running what its end would run.
template <class T>
void leak(std::shared_ptr<T>&& inherited) noexcept {
  if (!inherited) return;
  alignas(std::shared_ptr<T>) unsigned char grave[sizeof(std::shared_ptr<T>)];
  new (grave) std::shared_ptr<T>{std::move(inherited)};
}

}  // namespace mortise::inline v1::detail
