// SPDX-License-Identifier: MIT
// What may stand behind the '?' of a URI, and the percent-encoding of all its parts.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <mortise/detail/duration_text.hpp>
#include <mortise/detail/printable.hpp>
#include <mortise/options.hpp>

namespace mortise::inline v1::detail {

/// A part of a URI with every %XX replaced by its byte, once; a '+' stays one. `part` names it in the message.
inline std::string percent_decoded(std::string_view text, char const* part) {
  auto const digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    bool const whole = text.size() - i > 2;
    auto const high = whole ? digit(text[i + 1]) : -1;
    auto const low = whole ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      invalid(std::string{"URI: "} + part + ": two hexadecimal digits must follow a '%'; a '%' itself is written %25");
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

/// Digits and nothing else, up to `most`.
inline std::optional<std::uint32_t> uri_number(std::string_view text, std::uint32_t most) noexcept {
  std::uint32_t value = 0;
  auto const end = text.data() + text.size();
  auto const parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || value > most) return std::nullopt;
  return value;
}

/// The options of a URI: each at most once, under the names of ClientOptions, and db.
struct UriOptions {
  std::optional<int> db{};
  std::optional<std::string> client_name{};
  std::optional<milliseconds> command_timeout{}, connect_timeout{}, retry_for{};
  std::optional<int> replicas{};
  std::optional<milliseconds> replicas_timeout{};
  std::optional<std::string> sentinel_username{}, sentinel_password{};

  /// Takes `name=value&…`. Throws Errc::invalid_option.
  void take_all(std::string_view query) {
    for (;;) {
      auto const end = std::min(query.find('&'), query.size());
      auto const option = query.substr(0, end);
      auto const equals = option.find('=');
      if (equals == std::string_view::npos || equals == 0)
        invalid("URI: options: must be written name=value, with '&' between two of them");
      take(option.substr(0, equals), percent_decoded(option.substr(equals + 1), "options"));
      if (end == query.size()) return;
      query.remove_prefix(end + 1);
    }
  }

  void take_db(std::string_view value) { once(db, "db", whole_number("db", value)); }

  /// Fills the fields that still have their default values: what a program sets wins over its URI.
  void apply(ClientOptions& options) const {
    ClientOptions const defaults{};
    auto const fill = [](auto& field, auto const& untouched, auto const& given) {
      if (given && field == untouched) field = *given;
    };
    fill(options.client_name, defaults.client_name, client_name);
    fill(options.command_timeout, defaults.command_timeout, command_timeout);
    fill(options.connect_timeout, defaults.connect_timeout, connect_timeout);
    fill(options.retry_for, defaults.retry_for, retry_for);
    fill(options.replicas, defaults.replicas, replicas);
    fill(options.replicas_timeout, defaults.replicas_timeout, replicas_timeout);
    fill(options.sentinel_username, defaults.sentinel_username, sentinel_username);
    fill(options.sentinel_password, defaults.sentinel_password, sentinel_password);
  }

 private:
  void take(std::string_view name, std::string const& value) {
    if (name == "db") return take_db(value);
    if (name == "command_timeout") return once(command_timeout, name, positive(name, value));
    if (name == "connect_timeout") return once(connect_timeout, name, positive(name, value));
    if (name == "retry_for") return once(retry_for, name, positive(name, value));
    if (name == "replicas") return once(replicas, name, whole_number(name, value));
    if (name == "replicas_timeout") return once(replicas_timeout, name, positive(name, value));
    if (name == "sentinel_username") return once(sentinel_username, name, value);
    if (name == "sentinel_password") return once(sentinel_password, name, value);
    if (name == "client_name") {
      check_client_name(value);
      return once(client_name, name, value);
    }
    invalid("URI: unknown option " + printable(name) +
            ": must be db, client_name, command_timeout, connect_timeout, retry_for, replicas, replicas_timeout, "
            "sentinel_username or sentinel_password");
  }

  template <class T>
  static void once(std::optional<T>& field, std::string_view name, T const& value) {
    if (field) invalid("URI: " + std::string{name} + ": given twice");
    field = value;
  }

  static milliseconds positive(std::string_view name, std::string_view value) {
    auto const what = "URI: " + std::string{name};
    return checked_positive(what.c_str(), parse_duration(value, what));
  }

  static int whole_number(std::string_view name, std::string_view value) {
    auto const count = uri_number(value, std::numeric_limits<std::int32_t>::max());
    if (!count) invalid("URI: " + std::string{name} + ": must be a number from 0 to 2147483647");
    return static_cast<int>(*count);
  }
};

}  // namespace mortise::inline v1::detail
