// SPDX-License-Identifier: MIT
#include "seen.hpp"

Seen seen_by_second();

Seen seen_by_second() {
  return seen_here();
}
