// SPDX-License-Identifier: MIT
// This program's operator new: fails or stands still when it is told to, and only where.
#pragma once

#include <cstdint>

namespace faults {

/// While it lives, the allocation after the next `n` of this thread fails, and none after it.
class NthAllocationFails {
 public:
  explicit NthAllocationFails(std::int64_t n) noexcept;
  NthAllocationFails(NthAllocationFails const&) = delete;
  NthAllocationFails& operator=(NthAllocationFails const&) = delete;
  ~NthAllocationFails();

  /// Whether it has come to that.
  bool happened() const noexcept;
};

/// While it lives, the next `n` allocations of this thread succeed, and all after them fail.
class AllocationsFailAfter {
 public:
  explicit AllocationsFailAfter(std::int64_t n) noexcept;
  AllocationsFailAfter(AllocationsFailAfter const&) = delete;
  AllocationsFailAfter& operator=(AllocationsFailAfter const&) = delete;
  ~AllocationsFailAfter();
};

/// While it lives, every allocation of every other thread fails.
class OtherThreadsFail {
 public:
  OtherThreadsFail() noexcept;
  OtherThreadsFail(OtherThreadsFail const&) = delete;
  OtherThreadsFail& operator=(OtherThreadsFail const&) = delete;
  ~OtherThreadsFail();
};

/// While it lives, the allocation after the next `n` of this thread stands still until it is let go, and none after it.
class NthAllocationStands {
 public:
  explicit NthAllocationStands(std::int64_t n) noexcept;
  NthAllocationStands(NthAllocationStands const&) = delete;
  NthAllocationStands& operator=(NthAllocationStands const&) = delete;
  ~NthAllocationStands();

  /// Of any thread of this process.
  static bool somebody_stands() noexcept;
  static void let_go() noexcept;
};

}  // namespace faults
