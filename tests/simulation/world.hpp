// SPDX-License-Identifier: MIT
// Simulated time and simulated threads: one real thread runs them all, one at a time, in an order that the seed decides.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

#include "random.hpp"

namespace simulation {

/// Nanoseconds: true ones, or of a process's own clock.
using Nanos = std::int64_t;
inline constexpr Nanos microsecond = 1000, millisecond = 1'000'000, second = 1'000'000'000;
inline constexpr Nanos forever = std::numeric_limits<Nanos>::max();

struct Fiber;

/// A process of the host: threads, clocks of its own, and a life that ends or stands still.
struct Process {
  int id{0};
  double rate{1.0};        ///< of its steady clock against true time
  Nanos clock_base{0};     ///< what that said at true time 0
  Nanos wall_ahead{0};     ///< of its wall clock against true time; may be set at any time
  bool paused{false};
  bool dead{false};
  unsigned pauses{0};
  std::vector<Fiber*> parked{};  ///< to run once it is no longer paused

  Nanos local(Nanos true_time) const noexcept { return clock_base + static_cast<Nanos>(static_cast<double>(true_time) * rate); }
  /// The first true moment at which the own clock has reached `local_time`.
  Nanos true_of(Nanos local_time) const noexcept;
};

/// A thread of a process.
struct Fiber {
  enum class State : std::uint8_t { ready, running, blocked, finished };

  ucontext_t context{};  ///< to begin with; from then on it is left and entered by jumps, which cost no system call
  jmp_buf here{};
  void* stack{nullptr};
  std::function<void()> body{};
  Process* process{nullptr};
  State state{State::ready};
  bool timed_out{false};
  std::uint64_t ticket{0};          ///< of the sleep under way
  void const* waits_for{nullptr};   ///< mutex or condition variable
  std::uint64_t number{0};
  void* exceptions[2]{};            ///< what the C++ runtime keeps for each thread
};

class World {
 public:
  explicit World(std::uint64_t seed);
  World(World const&) = delete;
  World& operator=(World const&) = delete;
  ~World();

  /// The world whose history runs now, if any.
  static World* current() noexcept { return current_; }

  Random& random() noexcept { return random_; }
  Nanos now() const noexcept { return now_; }
  /// A little time passes while code runs.
  void pass(Nanos time) noexcept { now_ += time; }

  /// Told what servers do, if anybody listens.
  std::function<void(std::string const&)> listener{};

  Process& add_process();
  std::deque<std::unique_ptr<Process>> const& processes() const noexcept { return processes_; }
  void pause(Process& process, Nanos for_true_time);
  /// Its threads stop for ever, or until afterlife().
  void kill(Process& process) noexcept { process.dead = true; }
  /// The threads of dead processes run on, without a network, so that what they own is freed.
  void afterlife();
  bool in_afterlife() const noexcept { return afterlife_; }

  Fiber& spawn(Process& process, std::function<void()> body);
  void at(Nanos when, std::function<void()> what);

  /// Runs until `done`, or until the moment `limit`, or until nothing is left to happen. False: not done.
  bool run(Nanos limit, std::function<bool()> const& done);

  // --- for the thread that runs
  Fiber* running() const noexcept { return running_; }
  /// Whose clocks are read: of the running thread's process, or of that which is looked at.
  Process* process() const noexcept { return looked_at_ != nullptr ? looked_at_ : running_ != nullptr ? running_->process : nullptr; }
  /// Until it is woken or the moment has come. False: the moment has come.
  bool block(Nanos until);
  void wake(Fiber& fiber);
  void wake_all(void const* waits_for, std::size_t most);
  void sleep(Nanos local_time);

  /// Asks something in the place of a process, from outside: its clocks are read, nothing else.
  template <class Ask>
  auto as(Process& process, Ask&& ask) {
    struct Back {
      World& world;
      ~Back() { world.looked_at_ = nullptr; }
    } const back{*this};
    looked_at_ = &process;
    return ask();
  }

  std::size_t unfinished() const noexcept;
  /// Who they are, in words.
  std::string describe_unfinished() const;
  std::uint64_t events() const noexcept { return events_; }
  /// Of everything that happened so far: two runs of one seed have the same.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  struct Event {
    Nanos at;
    std::uint64_t order;
    Fiber* fiber;          // to be run, or whose sleep ends
    std::uint64_t ticket;  // of that sleep; 0: it is ready
    std::function<void()> what;
  };
  struct Later {
    bool operator()(Event const& a, Event const& b) const noexcept { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  void push(Event event);
  void make_ready(Fiber& fiber);
  void run_fiber(Fiber& fiber);
  void switch_in(Fiber& fiber);
  void switch_out(Fiber& fiber);
  static void begin_fiber();

  static World* current_;

  Random random_;
  Nanos now_{0};
  std::uint64_t events_{0};
  std::uint64_t tickets_{0};
  std::vector<Event> queue_{};
  std::deque<std::unique_ptr<Process>> processes_{};
  std::deque<std::unique_ptr<Fiber>> fibers_{};
  jmp_buf outside_{};
  Fiber* running_{nullptr};
  Process* looked_at_{nullptr};
  bool afterlife_{false};
  std::size_t waiting_{0};  // for mutexes and condition variables
  std::uint64_t fingerprint_{0};
};

}  // namespace simulation
