// SPDX-License-Identifier: MIT
// What is made once in a process and never destroyed, without a lock that a forked child could inherit.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace mortise::inline v1::detail {

/// Made at its first use. A static of a function would be made under a lock of the compiler's: a child that is forked while
/// another thread of its parent makes it waits for that lock for ever. Here threads that come at the same moment each make
/// one, and all of them use the first.
template <class T>
class MadeOnce {
 public:
  template <class Make>
  T const& get(Make&& make) {
    T const* made = made_.load(std::memory_order_acquire);
    if (made != nullptr) [[likely]] return *made;
    auto fresh = std::make_unique<T const>(std::forward<Make>(make)());
    if (!made_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel, std::memory_order_acquire)) return *made;
    return *fresh.release();
  }

 private:
  std::atomic<T const*> made_{nullptr};
};

}  // namespace mortise::inline v1::detail
