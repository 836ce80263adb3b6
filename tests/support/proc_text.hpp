// SPDX-License-Identifier: MIT
// What stands in a file below /proc.
#pragma once

#include <fstream>
#include <string>

namespace support {

/// All of it; nothing if its process or thread has gone, though it be while it is read: then the read fails, and an iterator
/// over the stream's buffer would throw.
inline std::string proc_text(std::string const& path) {
  std::ifstream file{path};
  std::string text;
  std::getline(file, text, '\0');
  return file.bad() ? std::string{} : text;
}

}  // namespace support
