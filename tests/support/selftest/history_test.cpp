// SPDX-License-Identifier: MIT
// The history log: processes write it together, and what a killed one wrote stays.
#include "support/catch.hpp"
#include "support/history.hpp"
#include "support/processes.hpp"
#include "support/temporary_folder.hpp"

#include <map>
#include <stdexcept>
#include <unistd.h>

using support::Happening;
using support::HistoryLog;

TEST_CASE("forked processes write one log and no record is lost", "[history]") {
  constexpr int processes = 3;
  constexpr int each = 2000;
  HistoryLog log{processes * each};
  std::vector<support::ChildProcess> children;
  for (int number = 0; number < processes; ++number)
    children.emplace_back([&log] {
      for (std::uint64_t fence = 0; fence < each; ++fence)
        log.add(Happening::belief_begin, 7, fence);
      return 0;
    });
  std::map<pid_t, std::uint64_t> next;
  for (auto& child : children)
    REQUIRE(child.wait() == support::ExitStatus::exited(0));
  auto const records = log.records();
  CHECK(records.size() == processes * each);
  bool in_order = true;
  for (auto const& record : records)
    in_order = in_order && record.name == 7 && record.fence == next[record.process]++ && record.at > 0;
  CHECK(in_order);
}

TEST_CASE("a log in a file is shared by whoever opens it", "[history]") {
  support::TemporaryFolder folder;
  auto const path = folder.path() / "history";
  HistoryLog log{path, 10};
  HistoryLog{path, 10}.add(Happening::call_begin, 1, 0, 99);
  log.add_about(42, Happening::process_killed);
  auto const records = log.records();
  REQUIRE(records.size() == 2);
  CHECK(records[0].process == ::getpid());
  CHECK(records[0].until == 99);
  CHECK(records[1].process == 42);
  CHECK(log.count(Happening::call_begin) == 1);
  CHECK(log.count(Happening::belief_begin) == 0);
}

TEST_CASE("what a killed process wrote stays, and a log that is too small says so", "[history]") {
  HistoryLog log{100};
  support::ChildProcess child{[&log](support::Channel& parent) {
    log.add(Happening::belief_begin, 1, 1);
    parent.send_line("written");
    return parent.read_line() ? 0 : 1;
  }};
  CHECK(child.read_line() == "written");
  child.kill();
  CHECK(log.records().size() == 1);
  for (int number = 0; number < 100; ++number)
    log.add(Happening::call_begin);
  CHECK_THROWS_AS(log.records(), std::length_error);
  CHECK_THROWS_AS(log.count(Happening::call_begin), std::length_error);
}
