// SPDX-License-Identifier: MIT
// Threads of the kit take no signals, so that those of a test hit the code under test.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <thread>
#include <utility>

namespace support {

/// A thread with all signals blocked.
template <class Body>
std::thread quiet_thread(Body&& body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread made{std::forward<Body>(body)};
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace support
