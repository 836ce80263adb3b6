// SPDX-License-Identifier: MIT
// The checksum by which a cluster spreads its keys: CRC-16 of the XMODEM protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mortise::inline v1::detail {

/// The remainders of all bytes: polynomial x^16 + x^12 + x^5 + 1, highest bit first.
inline constexpr auto crc16_table = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    auto remainder = static_cast<std::uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      bool const carries = (remainder & 0x8000) != 0;
      remainder = static_cast<std::uint16_t>(remainder << 1);
      if (carries) remainder ^= 0x1021;
    }
    table[byte] = remainder;
  }
  return table;
}();

constexpr std::uint16_t crc16(std::string_view bytes) noexcept {
  std::uint16_t sum = 0;
  for (char const c : bytes) {
    auto const index = ((sum >> 8) ^ static_cast<unsigned char>(c)) & 0xFF;
    sum = static_cast<std::uint16_t>((sum << 8) ^ crc16_table[static_cast<std::size_t>(index)]);
  }
  return sum;
}

}  // namespace mortise::inline v1::detail
