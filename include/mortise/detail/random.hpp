// SPDX-License-Identifier: MIT
// Random bits of the system generator, fetched for several owner tokens at once. There is no fallback to anything weaker.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include <mortise/detail/process.hpp>

namespace mortise::inline v1::detail {

/// One request to the system: how many bytes it gave, or -1 and errno.
inline ssize_t system_random(unsigned char* to, std::size_t size) noexcept {
#if defined(__linux__)
  return ::getrandom(to, size, 0);
#else
  auto const part = std::min<std::size_t>(size, 256);  // getentropy gives no more at a time
  return ::getentropy(to, part) == 0 ? static_cast<ssize_t>(part) : -1;
#endif
}

/// Fills all of `to` from a source that may give less than asked for or be interrupted by a signal.
/// Throws std::system_error when the source fails.
template <class Source>
void fill_random(std::span<unsigned char> to, Source&& source) {
  while (!to.empty()) {
    auto const got = source(to.data(), to.size());
    if (got > 0) {
      to = to.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      auto const why = got == 0 ? EIO : errno;
      throw std::system_error{why, std::generic_category(), "no random bytes from the system"};
    }
  }
}

/// A thread's small stock of random bytes: a system call for each token would cost more than the rest of it. Every byte
/// is handed out once and wiped; what a parent process left over is never used.
class RandomStock {
 public:
  template <std::size_t N>
  std::array<unsigned char, N> take() {
    static_assert(N <= size);
    if (size - used_ < N || filled_by_ != process_generation()) refill();
    auto const from = std::span{bytes_}.subspan(used_).template first<N>();
    std::array<unsigned char, N> result;
    std::copy(from.begin(), from.end(), result.begin());
    std::fill(from.begin(), from.end(), static_cast<unsigned char>(0));
    used_ += N;
    return result;
  }

 private:
  static constexpr std::size_t size = 512;

  void refill() {
    used_ = size;  // a failure leaves it empty
    fill_random(bytes_, system_random);
    filled_by_ = process_generation();
    used_ = 0;
  }

  std::array<unsigned char, size> bytes_{};
  std::size_t used_{size};
  std::uint64_t filled_by_{0};
};

/// The stock of the calling thread; trivially destroyed, so that static destructors may still use it.
inline RandomStock& random_stock() noexcept {
  static constinit thread_local RandomStock stock;
  return stock;
}

}  // namespace mortise::inline v1::detail
