// SPDX-License-Identifier: MIT
// Threads that contend for one lock, whatever the lock is made of, and what is seen of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "floor.hpp"

namespace bench {

/// One thread's way to the lock. Made and connected before the run begins.
class Contender {
 public:
  virtual ~Contender() = default;
  /// Waits for the lock. A number that rises from owner to owner.
  virtual std::uint64_t acquire() = 0;
  virtual void release() = 0;
};

using MakeContender = std::function<std::unique_ptr<Contender>(std::size_t index)>;

struct Contest {
  std::size_t waiters{};
  std::chrono::microseconds work{};  ///< what an owner does meanwhile; 0: nothing
  std::chrono::milliseconds duration{};
};

struct Outcome {
  double p50{};       ///< µs from the begin of a release until the next owner, who was waiting, has the lock
  double p99{};
  double changes{};   ///< owners per second
  double commands{};  ///< on the wire per acquisition
  double unfair{};    ///< most by fewest acquisitions of one thread
  double processor{}; ///< µs of this process per acquisition
};

/// One time as the owner.
struct Turn {
  std::uint64_t number{};  ///< rises from owner to owner
  std::chrono::steady_clock::time_point asked{};
  std::chrono::steady_clock::time_point owner{};
  std::chrono::steady_clock::time_point leaving{};
};

/// What the turns that began in [from, until) show: hand-offs, owner changes and fairness. One element for each contender.
Outcome outcome_of(std::vector<std::vector<Turn>> const& turns, std::chrono::steady_clock::time_point from,
                   std::chrono::steady_clock::time_point until);

Outcome contend(Endpoint const& endpoint, Contest const& contest, MakeContender const& make);

}  // namespace bench
