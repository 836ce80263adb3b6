// SPDX-License-Identifier: MIT
// SHA-1 of a script's text, because EVALSHA names a script by it. Nothing here is secret: do not use it for anything else.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mortise::inline v1::detail {

/// SHA-1 in 40 lower-case hexadecimal digits, as EVALSHA wants it. Source: FIPS 180-4.
inline std::string sha1_hex(std::string_view text) {
  std::string padded{text};
  padded += '\x80';
  padded.append((56 + 64 - padded.size() % 64) % 64, '\0');
  auto const bits = std::uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift & 0xFF);

  std::array<std::uint32_t, 5> hash{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (std::size_t block = 0; block < padded.size(); block += 64) {
    std::array<std::uint32_t, 80> word{};
    for (std::size_t i = 0; i < 64; ++i)
      word[i / 4] = word[i / 4] << 8 | static_cast<unsigned char>(padded[block + i]);
    for (std::size_t i = 16; i < 80; ++i)
      word[i] = std::rotl(word[i - 3] ^ word[i - 8] ^ word[i - 14] ^ word[i - 16], 1);

    auto [a, b, c, d, e] = hash;
    for (std::size_t i = 0; i < 80; ++i) {
      auto const [mixed, constant] =
          i < 20   ? std::array{(b & c) | (~b & d), std::uint32_t{0x5A827999}}
          : i < 40 ? std::array{b ^ c ^ d, std::uint32_t{0x6ED9EBA1}}
          : i < 60 ? std::array{(b & c) | (b & d) | (c & d), std::uint32_t{0x8F1BBCDC}}
                   : std::array{b ^ c ^ d, std::uint32_t{0xCA62C1D6}};
      auto const next = std::rotl(a, 5) + mixed + e + constant + word[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
  }

  std::string hex;
  hex.reserve(40);
  for (auto const part : hash)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[part >> shift & 0xF];
  return hex;
}

}  // namespace mortise::inline v1::detail
