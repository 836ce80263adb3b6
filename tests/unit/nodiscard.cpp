// SPDX-License-Identifier: MIT
// Answers dropped on the floor. Compiled by nodiscard.cmake, which wants a warning for each line that says so, and no other.
#include <mortise/mortise.hpp>

using namespace std::chrono_literals;

void drops_answers(mortise::Client& client, mortise::Lock<>& lock, mortise::Lease& lease, mortise::FenceGate& gate) {
  lock.try_acquire();                                      // warns
  lock.acquire();                                          // warns
  lock.acquire(std::stop_token{});                         // warns
  lock.acquire_for(1s);                                    // warns
  lock.acquire_until(std::chrono::steady_clock::now());    // warns
  lock.try_lock();                                         // warns
  lock.try_lock_for(1s);                                   // warns
  lock.try_lock_until(std::chrono::system_clock::now());   // warns
  gate.admit(mortise::Fence{1});                           // warns
  mortise::fenced_set(client, "key", "value", {1});        // warns
  lease.confirm();
  lease.extend();
  lease.extend(1s);
  lease.release();
  lock.lock();
  lock.unlock();
}
