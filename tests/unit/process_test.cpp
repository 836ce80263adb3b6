// SPDX-License-Identifier: MIT
// Fork: a child knows that it is one, and leaves what it inherited alone.
#include <csignal>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mortise/detail/process.hpp>

#include "support/catch.hpp"
#include "support/processes.hpp"

using mortise::detail::leak;
using mortise::detail::PerProcess;
using mortise::detail::process_generation;
using support::ChildProcess;
using support::ExitStatus;

namespace {

/// Counts, in memory that all processes share, how many were made and how many ended.
struct Counted {
  Counted(support::SharedCounters& counters, int number) : ended{counters[1]}, value{number} { ++counters[0]; }
  Counted(Counted const&) = delete;
  Counted& operator=(Counted const&) = delete;
  ~Counted() { ++ended; }

  std::atomic<std::int64_t>& ended;
  int value;
};

PerProcess<Counted>::Factory counted_factory(support::SharedCounters& counters) {
  return [&counters](Counted*) { return std::make_shared<Counted>(counters, static_cast<int>(::getpid())); };
}

#if defined(__linux__)
constexpr int not_permitted = 50;

/// Runs `body` as process 1 of a new PID namespace and gives its result; not_permitted where only root may do that.
template <class Body>
int code_of_namespaced_child(Body&& body) {
  auto const outer = ::fork();
  if (outer == 0) {  // only the children of who asked are in the new namespace
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(not_permitted);
    auto const inner = ::fork();
    if (inner == 0) ::_exit(body());
    int status = -1;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
  }
  int status = -1;
  ::waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}
#endif

}  // namespace

TEST_CASE("a generation is the same within a process, and differs from those of all its ancestors") {
  auto const mine = process_generation();
  CHECK(process_generation() == mine);
  ChildProcess child{[&] {
    auto const child_s = process_generation();
    if (child_s == mine || process_generation() != child_s) return 1;
    ChildProcess grandchild{[&] { return process_generation() != child_s && process_generation() != mine ? 0 : 1; }};
    return grandchild.wait() == ExitStatus::exited(0) && process_generation() == child_s ? 0 : 2;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(process_generation() == mine);
}

#if defined(__linux__)
TEST_CASE("a fork behind the C library's back is noticed, too") {
  auto const mine = process_generation();
  auto const child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) ::_exit(process_generation() != mine ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a child with its parent's process id, in a PID namespace of its own, is another process") {
  auto const status = code_of_namespaced_child([] {
    if (::getpid() != 1) return 1;
    auto const mine = process_generation();
    PerProcess<int> object{[](int* inherited) { return std::make_shared<int>(inherited == nullptr ? 7 : 8); }};
    return code_of_namespaced_child([&] {
      if (::getpid() != 1) return 2;
      if (process_generation() == mine) return 3;
      return object.peek() == nullptr && *object.get() == 8 ? 0 : 4;
    });
  });
  CHECK((status == 0 || status == not_permitted));
}
#endif

TEST_CASE("an object is made once and ends with its owner") {
  support::SharedCounters counters{2};
  {
    PerProcess<Counted> object{counted_factory(counters)};
    CHECK(object.get()->value == ::getpid());
    CHECK(object.get() == object.get());
    CHECK(object.peek() == object.get());
    CHECK(counters[0] == 1);
    CHECK(counters[1] == 0);
  }
  CHECK(counters[1] == 1);
}

TEST_CASE("a forked child gets a fresh object, and the parent's is left untouched") {
  support::SharedCounters counters{2};
  PerProcess<Counted> object{counted_factory(counters)};
  auto const* const inherited = object.get().get();
  ChildProcess child{[&] {
    if (object.peek() != nullptr) return 1;
    if (counters[0] != 1) return 2;  // peek makes none
    auto const own = object.get();
    if (own.get() == inherited || own->value != ::getpid()) return 3;
    if (object.get() != own || object.peek() != own) return 4;
    return 0;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(counters[0] == 2);
  CHECK(counters[1] == 0);
  CHECK(object.get().get() == inherited);
  CHECK(object.get()->value == ::getpid());
}

TEST_CASE("the factory is told what a child inherited, and nothing in the first process") {
  std::vector<int const*> told;
  PerProcess<int> object{[&](int* inherited) {
    told.push_back(inherited);
    return std::make_shared<int>(static_cast<int>(told.size()));
  }};
  int const* const first = object.get().get();
  ChildProcess child{[&] {
    int const* const second = object.get().get();
    if (told != std::vector<int const*>{nullptr, first} || *object.get() != 2) return 1;
    ChildProcess grandchild{[&] {
      (void)object.get();
      return told == std::vector<int const*>{nullptr, first, second} ? 0 : 1;
    }};
    return grandchild.wait() == ExitStatus::exited(0) ? 0 : 2;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(told == std::vector<int const*>{nullptr});
}

TEST_CASE("a factory that fails in a child is asked again at the next use") {
  bool failing = false;
  PerProcess<int> object{[&](int*) {
    if (failing) throw std::runtime_error{"no"};
    return std::make_shared<int>(7);
  }};
  ChildProcess child{[&] {
    failing = true;
    try {
      (void)object.get();
      return 1;
    } catch (std::runtime_error const&) {
    }
    if (object.peek() != nullptr) return 2;
    failing = false;
    return *object.get() == 7 ? 0 : 3;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
}

TEST_CASE("a child that never uses the object ends none") {
  support::SharedCounters counters{2};
  auto object = std::make_unique<PerProcess<Counted>>(counted_factory(counters));
  ChildProcess child{[&] {
    object.reset();
    return 0;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(counters[0] == 1);
  CHECK(counters[1] == 0);
}

TEST_CASE("a child's own object ends with its owner there") {
  support::SharedCounters counters{2};
  auto object = std::make_unique<PerProcess<Counted>>(counted_factory(counters));
  ChildProcess child{[&] {
    (void)object->get();
    object.reset();
    return 0;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(counters[0] == 2);
  CHECK(counters[1] == 1);
}

TEST_CASE("a grandchild gets an object of its own") {
  support::SharedCounters counters{2};
  PerProcess<Counted> object{counted_factory(counters)};
  ChildProcess child{[&] {
    (void)object.get();
    ChildProcess grandchild{[&] { return object.peek() == nullptr && object.get()->value == ::getpid() ? 0 : 1; }};
    return grandchild.wait() == ExitStatus::exited(0) && object.get()->value == ::getpid() ? 0 : 2;
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
  CHECK(counters[0] == 3);
  CHECK(counters[1] == 0);
}

TEST_CASE("threads of a child agree on one fresh object") {
  support::SharedCounters counters{2};
  PerProcess<Counted> object{counted_factory(counters)};
  ChildProcess child{[&] {
    support::Barrier gate{4};
    std::vector<std::shared_ptr<Counted>> seen(4);
    {
      std::vector<std::jthread> threads;
      for (auto& mine : seen)
        threads.emplace_back([&] {
          if (gate.arrive_and_wait()) mine = object.get();
        });
    }
    for (auto const& each : seen)
      if (each == nullptr || each != seen.front()) return 1;
    return counters[0] - counters[1] == 2 ? 0 : 2;  // what a slower thread made has ended
  }};
  CHECK(child.wait() == ExitStatus::exited(0));
}

TEST_CASE("a leaked reference never ends its object") {
  static Counted const* kept = nullptr;  // so that a leak checker sees it
  support::SharedCounters counters{2};
  auto reference = counted_factory(counters)(nullptr);
  kept = reference.get();
  leak(std::move(reference));
  CHECK(counters[1] == 0);
  CHECK(kept->value == ::getpid());
  leak(std::shared_ptr<Counted>{});
}
