// SPDX-License-Identifier: MIT
// The one include for Catch2, version 2.13 (single header) or 3, so that the same tests compile with both.
#pragma once

// Write TEST_CASE, TEMPLATE_TEST_CASE, SECTION, GENERATE, REQUIRE, CHECK, REQUIRE_THROWS_AS, ... as usual and nothing
// version-specific: `Approx` unqualified, and the string matchers of namespace support below, e.g.
//   CHECK_THAT(text, contains("busy") && !ends_with("\n"));   CHECK_THROWS_MATCHES(call(), Error, message_is("busy"));
// A range or number generator is written `GENERATE(range(1, 5))` or `GENERATE(values({1, 2}))`: both have them.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Catch::Approx;
#endif

namespace support {

/// The text has `part` somewhere in it.
inline auto contains(std::string const& part) {
#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

/// The text begins with `part`.
inline auto starts_with(std::string const& part) {
  return Catch::Matchers::StartsWith(part);
}

/// The text ends with `part`.
inline auto ends_with(std::string const& part) {
  return Catch::Matchers::EndsWith(part);
}

/// The text matches the regular expression from its first to its last character.
inline auto matches(std::string const& pattern) {
  return Catch::Matchers::Matches(pattern);
}

/// The exception's `what()` is exactly `text`.
inline auto message_is(std::string const& text) {
  return Catch::Matchers::Message(text);
}

}  // namespace support
