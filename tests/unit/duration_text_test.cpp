// SPDX-License-Identifier: MIT
// Durations as text: every unit, rounded up, and each way of writing them wrongly.
#include <limits>
#include <string>

#include <mortise/detail/duration_text.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using mortise::milliseconds;
using mortise::detail::parse_duration;
using support::contains;

namespace {

long long parsed(std::string const& text) { return parse_duration(text).count(); }

}  // namespace

TEST_CASE("every unit is understood") {
  CHECK(parsed("250ms") == 250);
  CHECK(parsed("2s") == 2000);
  CHECK(parsed("1m") == 60'000);
  CHECK(parsed("3h") == 3 * 3'600'000);
  CHECK(parsed("7d") == 7 * 86'400'000);
  CHECK(parsed("5000us") == 5);
  CHECK(parsed("5000000ns") == 5);
  CHECK(parsed("007s") == 7000);
}

TEST_CASE("decimals are exact and what is left of a millisecond counts as a whole one") {
  CHECK(parsed("1.5s") == 1500);
  CHECK(parsed("0.1s") == 100);
  CHECK(parsed("0.003s") == 3);
  CHECK(parsed("0.0030000000000000000000000000000000001s") == 4);
  CHECK(parsed("0.4ms") == 1);
  CHECK(parsed("1.01ms") == 2);
  CHECK(parsed("1.00ms") == 1);
  CHECK(parsed("1ns") == 1);
  CHECK(parsed("1000000ns") == 1);
  CHECK(parsed("1000001ns") == 2);
  CHECK(parsed("999.9us") == 1);
  CHECK(parsed("1000.0us") == 1);
  CHECK(parsed("1000.5us") == 2);
  CHECK(parsed("0.5m") == 30'000);
  CHECK(parsed("1.25h") == 4'500'000);
  CHECK(parsed("0.5d") == 43'200'000);
}

TEST_CASE("only what says zero is zero") {
  for (std::string const unit : {"ns", "us", "ms", "s", "m", "h", "d"}) {
    CHECK(parsed("0" + unit) == 0);
    CHECK(parsed("0.000" + unit) == 0);
    CHECK(parsed("0." + std::string(60, '0') + "1" + unit) == 1);
  }
}

TEST_CASE("every number of tenths and hundredths of a second comes out as written") {
  for (int hundredths = 0; hundredths < 1000; ++hundredths) {
    auto const fraction = std::to_string(100 + hundredths % 100).substr(1);
    CHECK(parsed(std::to_string(hundredths / 100) + '.' + fraction + 's') == hundredths * 10);
  }
}

TEST_CASE("the longest duration fits, one more is refused instead of wrapping") {
  CHECK(parsed("9223372036854775807ms") == std::numeric_limits<milliseconds::rep>::max());
  CHECK(parsed("9223372036854775.807s") == std::numeric_limits<milliseconds::rep>::max());
  for (std::string const text : {"9223372036854775808ms", "9223372036854775807.1ms", "9223372036854775.8071s", "9223372036854776s",
                                 "106751991168d", "99999999999999999999999999ns", "18446744073709551615h"})
    CHECK_THAT(refusal([&] { (void)parse_duration(text); }), contains("is too long"));
}

TEST_CASE("a bare number has no unit and is refused with the rule") {
  for (std::string const text : {"5", "250", "0", "1.5"})
    CHECK_THAT(refusal([&] { (void)parse_duration(text); }), contains("has no unit: write one of ns us ms s m h d"));
}

TEST_CASE("what is no duration is refused, and shown") {
  CHECK_THAT(refusal([] { (void)parse_duration("-1s"); }), contains(R"("-1s": must not be negative)"));
  CHECK_THAT(refusal([] { (void)parse_duration(""); }), contains("must be a number with a unit"));
  for (std::string const text : {"s", ".5s", "+1s", " 1s", "inf", "1.s", "1..5s", "1 s", "1s ", "1sec", "1S", "1e3s", "0x10s", "1m30s", "1,5s"})
    CHECK_THAT(refusal([&] { (void)parse_duration(text); }), contains("duration \"" + text + "\": "));
  CHECK_THAT(refusal([] { (void)parse_duration("1\n", "--ttl"); }), contains(R"(--ttl "1\x0a": unknown unit)"));
}
