// SPDX-License-Identifier: MIT
#include "world.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <cxxabi.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>

namespace simulation {
namespace {

constexpr std::size_t stack_size = std::size_t{128} << 10;
constexpr std::size_t page = 4096;

std::vector<void*>& spare_stacks() {
  static std::vector<void*> stacks;
  return stacks;
}

void* take_stack() {
  auto& spare = spare_stacks();
  if (!spare.empty()) {
    auto* const stack = spare.back();
    spare.pop_back();
    return stack;
  }
  auto* const stack = ::mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) std::abort();
  ::mprotect(stack, page, PROT_NONE);  // who overflows it crashes
  return stack;
}

}  // namespace

World* World::current_ = nullptr;

Nanos Process::true_of(Nanos local_time) const noexcept {
  auto guess = static_cast<Nanos>(std::ceil(static_cast<double>(local_time - clock_base) / rate));
  while (local(guess) < local_time) ++guess;
  return guess;
}

World::World(std::uint64_t seed) : random_{seed} {
  __libc_single_threaded = 0;  // the C++ library leaves out what only threads need, and does not see ours
  current_ = this;
}

World::~World() {
  for (auto const& fiber : fibers_)
    if (fiber->stack != nullptr) spare_stacks().push_back(fiber->stack);
  current_ = nullptr;
}

Process& World::add_process() {
  auto& process = *processes_.emplace_back(std::make_unique<Process>());
  process.id = static_cast<int>(processes_.size()) - 1;
  return process;
}

void World::pause(Process& process, Nanos for_true_time) {
  if (process.paused || process.dead) return;
  process.paused = true;
  ++process.pauses;
  at(now_ + for_true_time, [this, &process] {
    process.paused = false;
    for (auto* const fiber : std::exchange(process.parked, {})) push({now_, 0, fiber, 0, {}});
  });
}

void World::afterlife() {
  afterlife_ = true;
  for (auto const& process : processes_)
    for (auto* const fiber : std::exchange(process->parked, {})) push({now_, 0, fiber, 0, {}});
}

Fiber& World::spawn(Process& process, std::function<void()> body) {
  auto& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
  fiber.number = fibers_.size();
  fiber.process = &process;
  fiber.body = std::move(body);
  push({now_ + random_.between(100, 20'000), 0, &fiber, 0, {}});
  return fiber;
}

void World::at(Nanos when, std::function<void()> what) { push({std::max(when, now_), 0, nullptr, 0, std::move(what)}); }

void World::push(Event event) {
  event.order = ++events_;
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), Later{});
}

bool World::run(Nanos limit, std::function<bool()> const& done) {
  while (!done()) {
    if (queue_.empty() || queue_.front().at > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    std::pop_heap(queue_.begin(), queue_.end(), Later{});
    auto event = std::move(queue_.back());
    queue_.pop_back();
    now_ = std::max(now_, event.at);
    fingerprint_ = (fingerprint_ ^ static_cast<std::uint64_t>(now_) ^ event.order << 32) * 0xBF58476D1CE4E5B9 + 1;
    if (event.fiber == nullptr) {
      event.what();
    } else if (event.ticket != 0) {  // a sleep is over, unless it ended before
      if (event.fiber->state != Fiber::State::blocked || event.fiber->ticket != event.ticket) continue;
      event.fiber->timed_out = true;
      make_ready(*event.fiber);
    } else {
      run_fiber(*event.fiber);
    }
  }
  return true;
}

void World::make_ready(Fiber& fiber) {
  fiber.state = Fiber::State::ready;
  push({now_ + random_.between(200, 15'000), 0, &fiber, 0, {}});  // the scheduler of a machine is not at hand at once
}

void World::wake(Fiber& fiber) {
  if (fiber.state != Fiber::State::blocked) return;
  fiber.timed_out = false;
  make_ready(fiber);
}

void World::wake_all(void const* waits_for, std::size_t most) {
  if (waiting_ == 0) return;
  for (auto const& fiber : fibers_) {
    if (most == 0) return;
    if (fiber->state != Fiber::State::blocked || fiber->waits_for != waits_for) continue;
    wake(*fiber);
    --most;
  }
}

bool World::block(Nanos until) {
  auto& fiber = *running_;
  fiber.state = Fiber::State::blocked;
  fiber.timed_out = false;
  fiber.ticket = ++tickets_;
  if (until != forever) push({std::max(until, now_), 0, &fiber, fiber.ticket, {}});
  bool const counted = fiber.waits_for != nullptr;
  if (counted) ++waiting_;
  switch_out(fiber);
  if (counted) --waiting_;
  return !fiber.timed_out;
}

void World::sleep(Nanos local_time) {
  auto& process = *running_->process;
  auto const until = process.true_of(process.local(now_) + local_time);
  while (now_ < until && !(process.dead && afterlife_)) block(until);
}

std::size_t World::unfinished() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(fibers_.begin(), fibers_.end(), [](auto const& fiber) { return fiber->state != Fiber::State::finished; }));
}

std::string World::describe_unfinished() const {
  std::string text;
  for (auto const& fiber : fibers_)
    if (fiber->state != Fiber::State::finished)
      text += (text.empty() ? "thread " : ", thread ") + std::to_string(fiber->number) + " of process " + std::to_string(fiber->process->id) +
              (fiber->state == Fiber::State::ready         ? " is not run"
               : fiber->waits_for != nullptr ? " waits for another"
                                             : " sleeps");
  return text;
}

void World::run_fiber(Fiber& fiber) {
  auto& process = *fiber.process;
  if (process.paused || (process.dead && !afterlife_)) {
    process.parked.push_back(&fiber);
    return;
  }
  fiber.state = Fiber::State::running;
  running_ = &fiber;
  void* kept[2];
  std::memcpy(kept, abi::__cxa_get_globals(), sizeof kept);
  std::memcpy(abi::__cxa_get_globals(), fiber.exceptions, sizeof kept);
  switch_in(fiber);
  std::memcpy(fiber.exceptions, abi::__cxa_get_globals(), sizeof kept);
  std::memcpy(abi::__cxa_get_globals(), kept, sizeof kept);
  running_ = nullptr;
  if (fiber.state == Fiber::State::finished) {
    spare_stacks().push_back(std::exchange(fiber.stack, nullptr));
    wake_all(&fiber, std::size_t(-1));  // whoever joins it
  }
}

// Apart from everything else: whoever calls setjmp() must not keep anything in registers across it.
[[gnu::noinline]] void World::switch_in(Fiber& fiber) {
  if (::_setjmp(outside_) != 0) return;
  if (fiber.stack != nullptr) ::_longjmp(fiber.here, 1);
  fiber.stack = take_stack();
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = static_cast<char*>(fiber.stack) + page;
  fiber.context.uc_stack.ss_size = stack_size - page;
  ::makecontext(&fiber.context, &World::begin_fiber, 0);
  ::setcontext(&fiber.context);
}

[[gnu::noinline]] void World::switch_out(Fiber& fiber) {
  if (::_setjmp(fiber.here) == 0) ::_longjmp(outside_, 1);
}

void World::begin_fiber() {
  auto& world = *current_;
  auto& fiber = *world.running_;
  fiber.body();
  fiber.body = nullptr;
  fiber.state = Fiber::State::finished;
  ::_longjmp(world.outside_, 1);
}

}  // namespace simulation
