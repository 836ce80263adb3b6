// SPDX-License-Identifier: MIT
// The owner of one file descriptor.
#pragma once

#include <utility>

namespace support {

/// Owns a file descriptor and closes it; move-only.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_{fd} {}
  Descriptor(Descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other)
      reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Descriptor() { reset(); }

  /// The number, -1 when nothing is owned.
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Closes what is owned and owns `fd` instead.
  void reset(int fd = -1) noexcept;
  /// Gives the number away unclosed.
  int release() { return std::exchange(fd_, -1); }

private:
  int fd_ = -1;
};

}  // namespace support
