// SPDX-License-Identifier: MIT
#include "seen.hpp"

#include <iostream>

Seen seen_by_second();

int main() {
  if (seen_here() == seen_by_second()) return 0;
  std::cerr << "two files of one program see different classes\n";
  return 1;
}
