// SPDX-License-Identifier: MIT
// The smallest stranger: no server listens where it asks for a lock, and it is told so in words.
#include <mortise/mortise.hpp>
#if defined(WITH_TLS)
#include <mortise/tls.hpp>
#endif

#include <iostream>
#include <string>

std::string name_of_the_lock();  // in second.cpp

int main() {
#if defined(WITH_TLS)
  mortise::Client redis{"rediss://127.0.0.1:1", {.tls = mortise::tls()}};
#else
  mortise::Client redis{"redis://127.0.0.1:1"};
#endif
  mortise::Lock lock{redis, name_of_the_lock()};
  try {
    auto lease = lock.try_acquire();
    std::cerr << "a lock " << (lease ? "granted" : "refused") << " where there is no server\n";
    return 1;
  } catch (mortise::Error const& error) {
    std::cout << error.what() << '\n';
    return error.errc() == mortise::Errc::connect_failed ? 0 : 1;
  }
}
