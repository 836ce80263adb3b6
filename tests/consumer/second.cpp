// SPDX-License-Identifier: MIT
// The stranger's other file: it includes the library as well, and both are one program.
#include <mortise/mortise.hpp>

#include <string>

std::string name_of_the_lock() {
  static mortise::Client redis{"redis://127.0.0.1:1"};
  return mortise::Lock{redis, "lock:consumer"}.name();
}
