// SPDX-License-Identifier: MIT
// SHA-1 against published vectors and, around the block borders, against sha1sum of coreutils.
#include <string>

#include <mortise/detail/sha1.hpp>

#include "support/catch.hpp"

using mortise::detail::sha1_hex;

TEST_CASE("SHA-1 agrees with the vectors of FIPS 180 and RFC 3174") {
  CHECK(sha1_hex("") == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK(sha1_hex("abc") == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") == "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  CHECK(sha1_hex("The quick brown fox jumps over the lazy dog") == "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12");
  CHECK(sha1_hex(std::string(1'000'000, 'a')) == "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST_CASE("SHA-1 pads texts of every length around a block's end") {
  struct Vector {
    std::size_t length;
    char const* digest;
  };
  auto const& [length, digest] = GENERATE(values<Vector>({
      {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
      {56, "901305367c259952f4e7af8323f480d59f81335b"},
      {57, "025ecbd5d70f8fb3c5457cd96bab13fda305dc59"},
      {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
      {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
      {65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},
      {119, "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"},
      {120, "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"},
      {128, "150fa3fbdc899bd0b8f95a9fb6027f564d953762"},
  }));
  CAPTURE(length);
  CHECK(sha1_hex(std::string(length, 'x')) == digest);
}

TEST_CASE("SHA-1 takes any bytes, NUL among them") {
  CHECK(sha1_hex(std::string("a\0b", 3)) == "4a3dec2d1f8245280855c42db0ee4239f917fdb8");
  CHECK(sha1_hex("\xff\xfe\x80") == "c0898e5b8b4f129798f4495c472cf60befecc483");
}
