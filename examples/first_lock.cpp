// SPDX-License-Identifier: MIT
// The first example of the README as a whole program: one lock, taken in the two usual ways.

#include <cstdlib>
#include <iostream>
#include <mutex>

#include <mortise/mortise.hpp>

int main() try {
  char const* const uri = std::getenv("MORTISE_REDIS");
  mortise::Client redis{uri != nullptr ? uri : "redis://localhost:6379"};  // thread-safe; one per process is enough
  mortise::Lock invoice{redis, "lock:invoice:42"};

  // Either: if somebody else has it, somebody else does the work. That is a normal answer.
  if (auto lease = invoice.try_acquire())
    std::cout << "paying, with fence " << lease->fence().value << '\n';  // released here, and only if still ours
  else
    std::cout << "busy: somebody else pays\n";

  // Or: wait for the turn. Held and renewed for as long as the guard lives.
  {
    std::scoped_lock const held{invoice};
    std::cout << "writing, with fence " << invoice.fence().value << '\n';

    // A std guard cannot tell that the lease was lost: the program was paused for too long, or Redis is gone. Ask before
    // what cannot be undone, and let long work stop by itself (lost() is a std::stop_token).
    if (!invoice.lease().held() || invoice.lease().lost().stop_requested()) {
      std::cout << "lost: stopping\n";
      return EXIT_FAILURE;
    }
    // Between that question and the write a program can still be paused. What must never be written by two, the store
    // itself refuses: it keeps the newest fence with the row (see fenced_sqlite.cpp).
  }
  return EXIT_SUCCESS;
} catch (mortise::Error const& error) {
  std::cerr << error.what() << '\n';  // the question was not answered: no server, no right …
  return EXIT_FAILURE;
}
