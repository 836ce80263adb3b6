// SPDX-License-Identifier: MIT
// A fresh folder that goes away with its owner.
#pragma once

#include "support/descriptor.hpp"

#include <filesystem>

namespace support {

/// A folder of its own below the system's temporary one, short enough for a unix socket in it; removed with all that is
/// in it by the destructor of the process that made it. What killed processes left is removed by the next that makes
/// one: a living owner is known by the lock on its folder.
class TemporaryFolder {
public:
  TemporaryFolder();
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;
  ~TemporaryFolder();

  std::filesystem::path const& path() const { return path_; }

private:
  std::filesystem::path path_;
  int owner_;
  Descriptor lock_;
};

}  // namespace support
