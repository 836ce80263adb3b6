// SPDX-License-Identifier: MIT
// Counting what a process uses.
#include "support/catch.hpp"
#include "support/proc_text.hpp"
#include "support/quiet_thread.hpp"
#include "support/resources.hpp"
#include "support/processes.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <thread>

TEST_CASE("open descriptors are counted and named", "[resources]") {
  auto const before = support::open_descriptors();
  {
    support::Descriptor const one{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    CHECK(support::open_descriptors() == before + 1);
    CHECK(support::descriptors().at(one.get()) == "/dev/null");
  }
  CHECK(support::wait_for_descriptors(before));
}

TEST_CASE("threads are counted, with what they block", "[resources]") {
  auto const before = support::threads_alive();
  std::atomic<bool> ended = false;
  auto thread = support::quiet_thread([&] {
    while (!ended)
      std::this_thread::yield();
  });
  CHECK(support::threads_alive() == before + 1);
  auto const all = support::threads();
  CHECK(all.size() == before + 1);
  CHECK(std::ranges::any_of(all, [](auto const& info) { return info.blocks(SIGTERM) && info.blocks(SIGUSR1); }));
  CHECK_FALSE(std::ranges::all_of(all, [](auto const& info) { return info.blocks(SIGTERM); }));
  ended = true;
  thread.join();
  CHECK(support::wait_for_threads(before));
}

TEST_CASE("processor time and memory are measured", "[resources]") {
  auto const before = support::thread_cpu_time();
  REQUIRE(support::wait_until([&] { return support::thread_cpu_time() - before > std::chrono::milliseconds{5}; },
                              support::soon, std::chrono::nanoseconds{0}));
  CHECK(support::cpu_time() >= support::thread_cpu_time());
  CHECK(support::resident_kib() > 100);
  CHECK(support::cpu_time_of(::getpid()).count() > 0);
}

TEST_CASE("a changed disposition or mask is named", "[resources]") {
  support::SignalDispositions const before;
  CHECK(before == support::SignalDispositions{});
  auto const old = std::signal(SIGPIPE, SIG_IGN);
  CHECK(before.differences({}) ==
        std::vector<std::string>{"signal " + std::to_string(SIGPIPE) + " has another disposition"});
  std::signal(SIGPIPE, old);
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  CHECK(before.differences({}) == std::vector<std::string>{"signal " + std::to_string(SIGUSR2) + " is now blocked"});
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
}

TEST_CASE("a process is gone when it has ended, reaped or not", "[resources]") {
  support::ChildProcess child{[](support::Channel& parent) { return parent.read_line() ? 0 : 1; }};
  CHECK_FALSE(support::process_gone(child.pid()));
  auto const pid = child.pid();
  child.send_line("end");
  CHECK(support::wait_until([pid] { return support::process_gone(pid); }));
  CHECK(child.wait() == support::ExitStatus::exited(0));
  CHECK(support::process_gone(pid));
}

TEST_CASE("a file below /proc that cannot be read, or no more, is empty", "[resources]") {
  CHECK_FALSE(support::proc_text("/proc/self/stat").empty());
  CHECK(support::proc_text("/proc/self/no such file").empty());
  CHECK(support::proc_text("/proc/self/mem").empty());  // opens, and the read fails: nothing is mapped there
}
