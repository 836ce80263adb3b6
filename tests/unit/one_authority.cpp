// SPDX-License-Identifier: MIT
// A backend of several authorities: what needs one does not compile over it, and says why. Compiled by one_authority.cmake.
#include <memory>

#include <mortise/mortise.hpp>

class Majority {
 private:
  friend mortise::detail::Access;
  std::shared_ptr<mortise::detail::CoreHandle> handle_;
};

using Lock = mortise::Lock<Majority>;
using RecursiveLock = mortise::RecursiveLock<Majority>;

void allowed(Majority& backend) {
  Lock const lock{backend, "name"};
  RecursiveLock const again{backend, "name"};
  mortise::LockSet const set{backend, {"a", "b"}};
  mortise::Leader const leader{backend, "name"};
}

#ifdef REFUSED
void refused(Majority& backend) { REFUSED; }
#endif
