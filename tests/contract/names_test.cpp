// SPDX-License-Identifier: MIT
// Names: any bytes, 1 to 512 of them; what differs by a byte is another lock.
#include <numeric>
#include <set>
#include <vector>

#include "stores.hpp"

using mortise::Errc;
using mortise::Lease;
using mortise::Lock;

namespace {

std::string every_byte() {
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  return all;
}

/// No two alike, and each pair close enough to be taken for one by something that is not careful.
std::vector<std::string> awkward_names() {
  using namespace std::string_literals;
  return {
      "a",           "A",          " a",           "a ",         "a\0"s,          "\0a"s,           "\0"s,      "\0\0"s,
      "\r\n",        "\n",         "$3\r\nfoo",    "*1\r\n",     "\"",            "'a'",            "\\",       "%s%n",
      "naïve",       "nai\xcc\x88ve", "Straße",    "鍵",         "🔒",            "\xff\xfe",       "\x80",     "{}",
      "{a}",         "{a",         "a}",           "}a{",        "{{a}}",         "{a}{b}",         "a{b}c",    "{}a",
      "{a}:",        "a:~fence:",  "~fence",       ":~fenc",     "{a}:~fence ",   "h:1",            "h:",       "*",
      "KEYS[1]",     "a b c",      "\t",           "../a",       "lock:invoice:42", std::string(512, 'x'), std::string(511, 'x'),
      every_byte(),  every_byte() + every_byte(),
  };
}

}  // namespace

TEMPLATE_TEST_CASE("any bytes are a name, and names that differ in any way are different locks", "", InRedis, InMemory, InQuorum) {
  TestType store;
  auto const names = awkward_names();
  REQUIRE(std::set(names.begin(), names.end()).size() == names.size());
  std::vector<Lease> held;
  for (auto const& name : names) {
    INFO("a name of " << name.size() << " bytes: " << name);
    Lock lock{store.backend(), name};
    CHECK(lock.name() == name);
    auto lease = lock.try_acquire();
    REQUIRE(lease);
    CHECK(lease->name() == name);
    CHECK(store.exists(name));
    CHECK_FALSE(Lock{store.other(), name}.try_acquire());
    held.push_back(*std::move(lease));
  }
  for (auto& lease : held) {
    CHECK(lease.confirm());
    CHECK(lease.release());
  }
}

TEMPLATE_TEST_CASE("a lock is handed over under any name", "", InRedis, InMemory, InQuorum) {
  TestType store;
  for (auto const& name : {every_byte(), std::string{"{"}, std::string{"a }{ b"}, std::string(512, '{')}) {
    auto first = Lock{store.backend(), name}.acquire();
    support::Waiting second{[&] { return Lock{store.other(), name}.acquire(); }};
    REQUIRE(second.asleep());
    CHECK(first.release());
    CHECK(second.get().fence() > first.fence());
  }
}

TEMPLATE_TEST_CASE("no lock is nameless, longer than 512 bytes, or called like a key beside a lock", "", InRedis, InMemory, InQuorum) {
  TestType store;
  auto const refused = [&](std::string const& name) {
    return errc_of([&] { Lock{store.backend(), name}; }) == Errc::invalid_option;
  };
  CHECK(refused(""));
  CHECK(refused(std::string(513, 'x')));
  for (auto const* const suffix : {":~fence", ":~wake", ":~wait"}) {
    CHECK(refused(suffix));
    CHECK(refused(std::string{"{a}"} + suffix));
    CHECK(refused(std::string{"a:"} + suffix));
  }
}
