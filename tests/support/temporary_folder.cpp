// SPDX-License-Identifier: MIT
// Making and removing the fresh folder, and removing those of owners that were killed.
#include "support/temporary_folder.hpp"

#include "support/sockets.hpp"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace support {

namespace {

namespace fs = std::filesystem;

// A unix socket's path has room for 107 bytes.
constexpr std::size_t longest_parent = 70;
constexpr std::string_view beginning = "mortise-test-";
// Between making a folder and locking it nobody may take it for abandoned.
constexpr std::chrono::minutes certainly_locked{1};

fs::path parent_folder() {
  auto parent = fs::temp_directory_path();
  return parent.native().size() > longest_parent ? fs::path{"/tmp"} : parent;
}

Descriptor locked(fs::path const& folder) {
  Descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened && ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0)
    opened.reset();
  return opened;
}

void remove_abandoned(fs::path const& parent) {
  std::error_code ignored;
  for (auto const& entry : fs::directory_iterator{parent, ignored}) {
    auto const changed = fs::last_write_time(entry.path(), ignored);
    if (!entry.path().filename().native().starts_with(beginning) || ignored ||
        fs::file_time_type::clock::now() - changed < certainly_locked)
      continue;
    if (locked(entry.path()))
      fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() : owner_{::getpid()} {
  auto const parent = parent_folder();
  [[maybe_unused]] static bool const once = (remove_abandoned(parent), true);
  auto name = (parent / beginning).native() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw_errno("cannot make " + name);
  path_ = name;
  lock_ = locked(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (owner_ == ::getpid())
    fs::remove_all(path_, ignored);
}

}  // namespace support
