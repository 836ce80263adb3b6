// SPDX-License-Identifier: MIT
#include <mortise/lease_state.hpp>

#include "support/catch.hpp"

using mortise::TimePoint;
using mortise::detail::Standing;
using mortise::detail::Validity;

namespace {

constexpr TimePoint at(std::int64_t time) { return TimePoint{mortise::nanoseconds{time}}; }

}  // namespace

TEST_CASE("a belief lasts until its end and not at it") {
  Validity validity;
  CHECK(validity.standing() == Standing::pending);
  CHECK_FALSE(validity.held(at(1)));
  validity.begin(at(100));
  CHECK(validity.held(at(99)));
  CHECK(validity.until() == at(100));
  CHECK_FALSE(validity.held(at(100)));
  CHECK(validity.standing() == Standing::lost);
  CHECK_FALSE(validity.held(at(99)));  // not for a clock that is read late, either
}

TEST_CASE("a renewal lengthens a belief and never shortens it") {
  Validity validity;
  validity.begin(at(100));
  CHECK(validity.prolong(at(200), at(50)));
  CHECK(validity.held(at(199)));
  CHECK(validity.prolong(at(150), at(60)));
  CHECK(validity.until() == at(200));
}

TEST_CASE("a renewal that is answered after the end does not count, whether anybody has noticed the end or not") {
  Validity noticed;
  noticed.begin(at(100));
  CHECK_FALSE(noticed.held(at(100)));
  CHECK_FALSE(noticed.prolong(at(200), at(101)));
  CHECK_FALSE(noticed.held(at(101)));

  Validity unnoticed;
  unnoticed.begin(at(100));
  CHECK_FALSE(unnoticed.prolong(at(200), at(100)));
  CHECK(unnoticed.standing() == Standing::lost);
}

TEST_CASE("a belief is ended once, and says how it stood") {
  Validity validity;
  validity.begin(at(100));
  CHECK(validity.end(Standing::released) == Standing::held);
  CHECK(validity.end(Standing::lost) == Standing::released);
  CHECK(validity.standing() == Standing::released);
  CHECK_FALSE(validity.prolong(at(200), at(50)));
  CHECK(validity.until() == at(0));
}
