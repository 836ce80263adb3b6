// SPDX-License-Identifier: MIT
// No server listens where it asks for a lock: it is told so in words, and that is success here.
#include <mortise/mortise.hpp>

#include <iostream>

int main() {
  mortise::Client redis{"redis://127.0.0.1:1"};
  mortise::Lock lock{redis, "lock:test_package"};
  try {
    static_cast<void>(lock.try_acquire());
    return 1;
  } catch (mortise::Error const& error) {
    std::cout << error.what() << '\n';
    return error.errc() == mortise::Errc::connect_failed ? 0 : 1;
  }
}
