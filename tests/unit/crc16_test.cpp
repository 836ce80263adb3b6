// SPDX-License-Identifier: MIT
// The cluster's checksum and slots, against known values.
#include <string>

#include <mortise/detail/crc16.hpp>
#include <mortise/key.hpp>

#include "support/catch.hpp"

using mortise::detail::key_slot;

TEST_CASE("CRC-16 gives the check values of its specification") {
  STATIC_REQUIRE(mortise::detail::crc16("") == 0);
  STATIC_REQUIRE(mortise::detail::crc16("123456789") == 0x31C3);
  CHECK(mortise::detail::crc16("\xff\xff") == 0x1D0F);
  CHECK(mortise::detail::crc16(std::string(1, '\0')) == 0);
}

TEST_CASE("a key's slot is that of its first tag that is not empty, or else of the whole key") {
  CHECK(key_slot("foo") == 12182);
  CHECK(key_slot("bar") == 5061);
  CHECK(key_slot("{user1000}.following") == key_slot("user1000"));
  CHECK(key_slot("foo{}{bar}") != key_slot("bar"));
  CHECK(key_slot("foo{{bar}}zap") == key_slot("{bar"));
  CHECK(key_slot("foo{bar}{zap}") == key_slot("bar"));
  CHECK(key_slot("{foo") != key_slot("foo"));
}

TEST_CASE("all keys of a lock that a cluster can have are in its slot") {
  for (std::string const name : {"lock", "{tag}lock", "a{b", "{", "x{y}z{w}", "}{a}"}) {
    CAPTURE(name);
    mortise::detail::LockKeys const keys{name};
    REQUIRE(keys.same_slot);
    for (auto const& key : {keys.lock, keys.fence, keys.wake, keys.wait}) CHECK(key_slot(key) == keys.slot);
  }
}
