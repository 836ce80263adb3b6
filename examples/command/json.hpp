// SPDX-License-Identifier: MIT
// Text for programs to read: a lock's name may hold any byte, JSON holds only characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace command {

/// The length of the UTF-8 sequence that `text` begins with; 0 where its first byte begins none.
inline std::size_t utf8_sequence(std::string_view text) noexcept {
  auto const at = [&](std::size_t index) { return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U; };
  auto const follows = [&](std::size_t index) { return (at(index) & 0xC0U) == 0x80U; };
  unsigned const lead = at(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead < 0xE0) return follows(1) ? 2 : 0;
  if ((lead & 0xF0U) == 0xE0) {
    bool const overlong = lead == 0xE0 && at(1) < 0xA0;
    bool const surrogate = lead == 0xED && at(1) >= 0xA0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    bool const overlong = lead == 0xF0 && at(1) < 0x90;
    bool const beyond = lead == 0xF4 && at(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

/// `text` as a JSON string. JSON knows no bytes: what is not UTF-8 becomes U+FFFD.
inline std::string json_string(std::string_view text) {
  std::string shown = "\"";
  while (!text.empty()) {
    auto const length = utf8_sequence(text);
    auto const lead = static_cast<unsigned char>(text.front());
    if (length == 0) {
      shown += "\\ufffd";
    } else if (lead < 0x20 || lead == 0x7F) {
      constexpr std::string_view digits = "0123456789abcdef";
      shown += "\\u00";
      shown += digits[lead >> 4U];
      shown += digits[lead & 15U];
    } else {
      if (lead == '"' || lead == '\\') shown += '\\';
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown + '"';
}

}  // namespace command
