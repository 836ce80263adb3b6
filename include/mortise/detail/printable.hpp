// SPDX-License-Identifier: MIT
// Bytes that users chose, made fit for a message: escaped, so that no log line can be forged, and shortened.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mortise::inline v1::detail {

/// Printable ASCII as it is; quotes, backslashes and every other byte as an escape.
inline std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (char const c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      auto const byte = static_cast<unsigned char>(c);
      result += "\\x";
      result += "0123456789abcdef"[byte >> 4];
      result += "0123456789abcdef"[byte & 0xF];
    }
  }
  return result;
}

/// The text in quotes, escaped; of a long one the beginning, the end (there a key has its suffix) and the length.
inline std::string printable(std::string_view text) {
  constexpr std::size_t head = 40;
  constexpr std::size_t tail = 16;
  if (text.size() <= head + tail) return '"' + escaped(text) + '"';
  return '"' + escaped(text.substr(0, head)) + "..." + escaped(text.substr(text.size() - tail)) + "\" (" +
         std::to_string(text.size()) + " bytes)";
}

}  // namespace mortise::inline v1::detail
