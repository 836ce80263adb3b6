// SPDX-License-Identifier: MIT
// The shared file with the offset, and the environment that preloads the shim.
#include "support/clock_shim.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace support {

namespace {

constexpr auto* file_name = "offset";

std::string with_before(std::string const& variable, char separator, std::string const& added) {
  auto const* const before = std::getenv(variable.c_str());
  return before != nullptr && *before != '\0' ? std::string{before} + separator + added : added;
}

}  // namespace

ClockShim::ClockShim() {
  auto const path = folder_.path() / file_name;
  Descriptor const file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!file || ::ftruncate(file.get(), sizeof(std::int64_t)) != 0)
    throw_errno("cannot make " + path.native());
  void* const memory = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    throw_errno("mmap");
  offset_ = new (memory) std::atomic<std::int64_t>{0};
}

ClockShim::~ClockShim() {
  ::munmap(offset_, sizeof *offset_);
}

Environment ClockShim::environment() const {
  return {{"LD_PRELOAD", with_before("LD_PRELOAD", ':', MORTISE_CLOCK_SHIM_LIBRARY)},
          {"MORTISE_CLOCK_SHIM", (folder_.path() / file_name).native()},
          // The preloaded library stands before the runtime of a program built with AddressSanitizer, and may.
          {"ASAN_OPTIONS", with_before("ASAN_OPTIONS", ':', "verify_asan_link_order=0")}};
}

}  // namespace support
