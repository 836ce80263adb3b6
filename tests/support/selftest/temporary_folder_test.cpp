// SPDX-License-Identifier: MIT
// Fresh folders: their own, gone with their owner, left alone by forked children.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

namespace fs = std::filesystem;
using support::TemporaryFolder;

TEST_CASE("a folder is fresh and goes away with all that is in it", "[temporary_folder]") {
  fs::path path;
  {
    TemporaryFolder one;
    TemporaryFolder two;
    path = one.path();
    CHECK(path != two.path());
    CHECK(fs::is_empty(path));
    fs::create_directory(path / "deep");
    std::ofstream{path / "deep" / "file"} << "text";
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a forked child does not remove its parent's folder", "[temporary_folder]") {
  std::optional<TemporaryFolder> folder{std::in_place};
  support::ChildProcess child{[&folder] {
    folder.reset();
    return 0;
  }};
  CHECK(child.wait() == support::ExitStatus::exited(0));
  CHECK(fs::exists(folder->path()));
}

TEST_CASE("the folder of a killed process is removed by another that makes one later", "[temporary_folder]") {
  TemporaryFolder alive;
  auto const long_ago = fs::file_time_type::clock::now() - std::chrono::hours{1};
  fs::last_write_time(alive.path(), long_ago);
  support::ChildProcess killed{[long_ago](support::Channel& parent) {
    TemporaryFolder folder;
    fs::last_write_time(folder.path(), long_ago);
    parent.send_line(folder.path().native());
    return parent.read_line() ? 0 : 1;
  }};
  auto const path = killed.read_line();
  REQUIRE(path);
  killed.kill();
  CHECK(fs::exists(*path));

  support::ChildProcess later{support::Program{.path = "/proc/self/exe", .arguments = {"a folder is fresh*"}}};
  CHECK(later.wait() == support::ExitStatus::exited(0));
  CHECK_FALSE(fs::exists(*path));
  CHECK(fs::exists(alive.path()));
}
