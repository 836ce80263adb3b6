// SPDX-License-Identifier: MIT
// Child processes: how they end, freeze and talk, and that none is left.
#include "support/catch.hpp"
#include "support/processes.hpp"
#include "support/resources.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

using support::Barrier;
using support::Channel;
using support::ChildProcess;
using support::ExitStatus;
using support::Program;
using support::SharedCounters;
using support::wait_until;
using namespace std::chrono_literals;

TEST_CASE("a forked function ends with its result", "[child_process]") {
  ChildProcess child{[] { return 7; }};
  CHECK(child.wait() == ExitStatus::exited(7));
  CHECK_FALSE(child.alive());
}

TEST_CASE("an exception or a failed requirement in a child is an exit code", "[child_process]") {
  ChildProcess throws{[]() -> int { throw std::runtime_error{"on purpose"}; }};
  CHECK(throws.wait() == ExitStatus::exited(ChildProcess::threw));
}

TEST_CASE("only an orderly end runs what atexit has registered", "[child_process]") {
  SharedCounters counter{1};
  static SharedCounters* seen = nullptr;
  seen = &counter;
  auto const body = [] {
    std::atexit([] { (*seen)[0] += 1; });
    return 0;
  };
  CHECK(ChildProcess{body}.wait() == ExitStatus::exited(0));
  CHECK(counter[0] == 0);
  CHECK(ChildProcess(body, ChildProcess::Ending::orderly).wait() == ExitStatus::exited(0));
  CHECK(counter[0] == 1);
}

TEST_CASE("a killed child tells its signal", "[child_process]") {
  ChildProcess child{[](Channel& parent) { return parent.read_line() ? 0 : 1; }};
  CHECK(child.alive());
  child.freeze();
  child.kill();
  CHECK(child.wait() == ExitStatus::killed(SIGKILL));
}

TEST_CASE("a frozen child does nothing until it is thawed", "[child_process]") {
  SharedCounters counter{1};
  ChildProcess child{[&counter] {
    for (;;)
      counter[0] += 1;
    return 0;
  }};
  REQUIRE(wait_until([&] { return counter[0] > 0; }));
  child.freeze();
  auto const frozen_at = counter[0].load();
  std::this_thread::sleep_for(20ms);
  CHECK(counter[0] == frozen_at);
  child.thaw();
  CHECK(wait_until([&] { return counter[0] > frozen_at; }));
}

TEST_CASE("lines go both ways", "[child_process]") {
  ChildProcess child{[](Channel& parent) {
    while (auto const line = parent.read_line())
      parent.send_line("got " + *line);
    return parent.ended() ? 0 : 1;
  }};
  child.send_line("one");
  child.send_line("two");
  CHECK(child.read_line() == "got one");
  CHECK(child.read_line() == "got two");
  CHECK_FALSE(child.read_line(10ms));
  CHECK_FALSE(child.channel().ended());
  child.channel().close_writing();
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK_FALSE(child.read_line());
  CHECK(child.channel().ended());
}

TEST_CASE("a program is executed with its arguments, environment and streams", "[child_process]") {
  ChildProcess child{Program{.path = "sh",
                             .arguments = {"-c", "read word; echo $word-$1-$KIT; echo oops >&2; exit 3", "sh", "arg"},
                             .environment = {{"KIT", "env"}},
                             .with_errors = true}};
  child.send_line("in");
  CHECK(child.read_line() == "in-arg-env");
  CHECK(child.channel().read_all() == "oops\n");
  CHECK(child.wait() == ExitStatus::exited(3));
  CHECK_THROWS_WITH(ChildProcess(Program{.path = "no-such-program"}), support::contains("no-such-program"));
}

TEST_CASE("a program starts with default dispositions, nothing blocked and nothing inherited", "[child_process]") {
  auto const before = std::signal(SIGPIPE, SIG_IGN);
  auto const* script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/$$/fd | wc -l";
  ChildProcess child{Program{.path = "sh", .arguments = {"-c", script}}};
  std::signal(SIGPIPE, before);
  CHECK_THAT(child.channel().read_all(), support::matches("SigBlk:\\s0+\nSigIgn:\\s0+\n[0-4]\n"));
}

TEST_CASE("a child does not outlive the process that forked it, from whichever thread", "[child_process]") {
  bool const in_thread = GENERATE(false, true);
  ChildProcess parent{[in_thread](Channel& test) {
    std::optional<ChildProcess> grandchild;
    auto const fork = [&] {
      grandchild.emplace([](Channel& up) { return up.read_line(1h) ? 0 : 1; });
    };
    if (in_thread)
      std::thread{fork}.join();
    else
      fork();
    test.send_line(std::to_string(grandchild->pid()) + (grandchild->alive() ? " alive" : " dead"));
    test.read_line();
    return 0;
  }};
  auto const line = parent.read_line();
  REQUIRE(line);
  CHECK_THAT(*line, support::ends_with(" alive"));
  auto const pid = static_cast<pid_t>(std::stol(*line));
  parent.kill();
  CHECK(wait_until([pid] { return support::process_gone(pid); }));
}

TEST_CASE("the destructor reaps, frozen or not", "[child_process]") {
  pid_t pid = 0;
  {
    ChildProcess child{[](Channel& parent) { return parent.read_line() ? 0 : 1; }};
    pid = child.pid();
    child.freeze();
  }
  CHECK(::kill(pid, 0) != 0);
  CHECK(errno == ESRCH);
}

TEST_CASE("a barrier holds processes back until all have come, again and again", "[shared_memory]") {
  constexpr int parties = 3;
  constexpr int rounds = 20;
  Barrier barrier{parties};
  SharedCounters arrived{rounds};
  std::vector<ChildProcess> children;
  for (int party = 0; party < parties; ++party)
    children.emplace_back([&] {
      for (std::size_t round = 0; round < rounds; ++round) {
        arrived[round] += 1;
        if (!barrier.arrive_and_wait() || arrived[round] != parties)
          return 1;
      }
      return 0;
    });
  for (auto& child : children)
    CHECK(child.wait() == ExitStatus::exited(0));
  CHECK_FALSE(barrier.arrive_and_wait(1ms));
}

TEST_CASE("waiting ends at the timeout with a last look", "[wait_until]") {
  int looks = 0;
  CHECK_FALSE(wait_until([&] { return ++looks < 0; }, 5ms));
  CHECK(looks >= 1);
  CHECK(wait_until([] { return true; }, 0ms));
}
