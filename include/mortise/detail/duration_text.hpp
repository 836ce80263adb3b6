// SPDX-License-Identifier: MIT
// Durations as people write them in a URI or on a command line: 250ms, 0.5s, 1m.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include <mortise/detail/printable.hpp>
#include <mortise/options.hpp>

namespace mortise::inline v1::detail {

struct DurationUnit {
  std::string_view name;
  std::uint64_t times;  // so many milliseconds are one …
  std::uint64_t per;    // … or so many of it are one millisecond
};

inline constexpr std::array<DurationUnit, 7> duration_units{{
    {"ns", 1, 1'000'000},
    {"us", 1, 1000},
    {"ms", 1, 1},
    {"s", 1000, 1},
    {"m", 60'000, 1},
    {"h", 3'600'000, 1},
    {"d", 86'400'000, 1},
}};

/// `0.<fraction> * times` rounded down, and whether something was cut off: exact for any number of digits.
inline std::uint64_t decimal_part(std::string_view fraction, std::uint64_t times, bool& inexact) noexcept {
  std::uint64_t part = 0;
  for (auto digit = fraction.rbegin(); digit != fraction.rend(); ++digit) {
    part += static_cast<std::uint64_t>(*digit - '0') * times;
    inexact = inexact || part % 10 != 0;
    part /= 10;
  }
  return part;
}

/// A number with its unit (ns us ms s m h d), decimals allowed, in whole milliseconds: rounded up, so never to 0 unless
/// it says 0. Throws Errc::invalid_option; `what` says in the message what the duration is for.
inline milliseconds parse_duration(std::string_view text, std::string const& what = "duration") {
  auto const refuse = [&](std::string_view rule) { invalid(what + ' ' + printable(text) + ": " + std::string{rule}); };
  constexpr std::string_view digits = "0123456789";

  auto const whole = text.substr(0, std::min(text.find_first_not_of(digits), text.size()));
  if (text.starts_with('-')) refuse("must not be negative");
  if (whole.empty()) refuse("must be a number with a unit, such as 250ms or 2s");
  auto rest = text.substr(whole.size());
  std::string_view fraction;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = rest.substr(0, std::min(rest.find_first_not_of(digits), rest.size()));
    if (fraction.empty()) refuse("a digit must follow the decimal point");
    rest.remove_prefix(fraction.size());
  }
  if (rest.empty()) refuse("has no unit: write one of ns us ms s m h d, such as 250ms or 2s");
  auto const unit = std::find_if(duration_units.begin(), duration_units.end(), [&](auto const& each) { return each.name == rest; });
  if (unit == duration_units.end()) refuse("unknown unit: must be one of ns us ms s m h d");

  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<milliseconds::rep>::max());
  std::uint64_t number = 0;
  auto const parsed = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  if (parsed.ec != std::errc{} || number > most / unit->times) refuse("is too long: does not fit 64 bits of milliseconds");

  bool inexact = number % unit->per != 0;
  auto count = number / unit->per * unit->times;
  if (unit->per == 1)
    count += decimal_part(fraction, unit->times, inexact);  // fits: count and part are below 2^63 each
  else
    inexact = inexact || fraction.find_first_not_of('0') != std::string_view::npos;
  if (inexact) ++count;
  if (count > most) refuse("is too long: does not fit 64 bits of milliseconds");
  return milliseconds{static_cast<milliseconds::rep>(count)};
}

}  // namespace mortise::inline v1::detail
