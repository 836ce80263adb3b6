// SPDX-License-Identifier: MIT
// Key names: every lock has its own four keys, in one cluster slot.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <mortise/key.hpp>

#include "refusal.hpp"
#include "support/catch.hpp"

using mortise::detail::guard_key;
using mortise::detail::Hold;
using mortise::detail::LockKeys;
using support::contains;

namespace {

/// CRC16 as in the Redis Cluster specification (XMODEM).
std::uint16_t crc16(std::string_view text) {
  unsigned crc = 0;
  for (char const c : text) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? crc << 1 ^ 0x1021U : crc << 1;
    crc &= 0xFFFFU;
  }
  return static_cast<std::uint16_t>(crc);
}

/// A key's slot, written after the specification's own C code.
unsigned slot(std::string_view key) {
  std::size_t open = 0;
  while (open < key.size() && key[open] != '{') ++open;
  if (open == key.size()) return crc16(key) & 0x3FFFU;
  std::size_t close = open + 1;
  while (close < key.size() && key[close] != '}') ++close;
  if (close == key.size() || close == open + 1) return crc16(key) & 0x3FFFU;
  return crc16(key.substr(open + 1, close - open - 1)) & 0x3FFFU;
}

std::vector<std::string> siblings(LockKeys const& keys) {
  LockKeys const room{keys.lock, Hold::reader};
  return {keys.fence, keys.wake, keys.wait, room.queue, room.alive, room.turn("host:1#0")};
}

std::optional<LockKeys> allowed(std::string const& name) {
  try {
    return LockKeys{name};
  } catch (mortise::Error const&) {
    return std::nullopt;
  }
}

/// All names of 1 to `longest` bytes over the alphabet, in order of length.
std::vector<std::string> all_names(std::string_view alphabet, std::size_t longest) {
  std::vector<std::string> names;
  for (char const c : alphabet) names.emplace_back(1, c);
  for (std::size_t i = 0; i < names.size() && names[i].size() < longest; ++i)
    for (char const c : alphabet) names.push_back(names[i] + c);
  return names;
}

/// Names made to collide: what a naive rule would call the siblings of another name, whole, cut and lengthened.
void add_near_misses(std::set<std::string>& names, std::string const& name) {
  for (std::string const middle : {":", "::", "}:", "}::"})
    for (std::string const suffix : {"~fence", "~wake", "~wait", "~guard", "~fenc", "~fencex", "fence"})
      for (std::string const open : {"", "{"}) names.insert(open + name + middle + suffix);
  for (auto const& derived : {'{' + name + '}', '{' + name, name + '}', '{' + name + "}:", name + "::", "{{" + name + "}}"})
    names.insert(derived);
}

}  // namespace

TEST_CASE("the slot function of this test is the one of Redis") {
  CHECK(crc16("123456789") == 0x31C3);
  CHECK(slot("foo") == 12182);
  CHECK(slot("{user1000}.following") == slot("{user1000}.followers"));
  CHECK(slot("foo{}{bar}") == (crc16("foo{}{bar}") & 0x3FFFU));
  CHECK(slot("foo{{bar}}zap") == (crc16("{bar") & 0x3FFFU));
}

TEST_CASE("a name with a tag gets a double colon, any other is wrapped to become a tag") {
  struct Row {
    std::string name, fence;
    bool same_slot;
  };
  auto const row = GENERATE(values<Row>({
      {"lock:invoice:42", "{lock:invoice:42}:~fence", true},
      {"a{7}", "a{7}::~fence", true},
      {"{x}", "{x}::~fence", true},
      {"x{a}{b}", "x{a}{b}::~fence", true},
      {"{x", "{{x}:~fence", true},
      {"{{x}", "{{x}::~fence", true},
      {"a}b", "{a}b}:~fence", false},
      {"}{", "{}{}:~fence", false},
      {"{}x", "{{}x}:~fence", false},
      {"{}{x}", "{{}{x}}:~fence", false},
  }));
  CAPTURE(row.name);
  LockKeys const keys{row.name};
  CHECK(keys.lock == row.name);
  CHECK(keys.fence == row.fence);
  CHECK(keys.same_slot == row.same_slot);
  auto const stem = row.fence.substr(0, row.fence.size() - 5);
  CHECK(keys.wake == stem + "wake");
  CHECK(keys.wait == stem + "wait");
  CHECK(guard_key(row.name) == stem + "guard");
  CHECK(keys.turn("host:1#0") == keys.wake);
  LockKeys const room{row.name, Hold::permit, 3};
  CHECK(room.fence == row.fence);
  CHECK(room.queue == stem + "queue");
  CHECK(room.alive == stem + "alive");
  CHECK(room.turn("host:1#0") == stem.substr(0, stem.size() - 1) + "host:1#0:~turn");
  CHECK(room.same_slot == row.same_slot);
}

TEST_CASE("no two locks share a key, no sibling is an allowed name, and the slots agree") {
  std::set<std::string> names;
  for (auto const& name : all_names("{}:~ax", 5)) names.insert(name);
  for (auto const& name : all_names("{}:~a\xff", 3)) add_near_misses(names, name);
  for (auto const& name : all_names("{}:~a", 2))  // the siblings of siblings
    for (auto const& key : siblings(LockKeys{name})) add_near_misses(names, key);

  std::map<std::string, std::string> owner;
  std::size_t locks = 0, shared = 0, nameable = 0, astray = 0;
  for (auto const& name : names) {
    auto const keys = allowed(name);
    if (!keys) continue;
    ++locks;
    auto all = siblings(*keys);
    all.push_back(guard_key(name));
    for (auto const& key : all) {
      nameable += allowed(key).has_value();
      astray += keys->same_slot && slot(key) != slot(name);
    }
    all.push_back(keys->lock);
    for (auto const& key : all) {
      auto const [known, fresh] = owner.emplace(key, name);
      if (!fresh) UNSCOPED_INFO("shared: " << key << " of " << name << " and " << known->second);
      shared += !fresh;
    }
  }
  CHECK(locks > 15'000);
  CHECK(shared == 0);
  CHECK(nameable == 0);
  CHECK(astray == 0);
}

TEST_CASE("a sibling is no allowed name, and has no sibling") {
  for (std::string const name : {"x", "a{7}", "a}b"}) {
    for (auto const& key : siblings(LockKeys{name})) {
      CHECK_THAT(refusal([&] { LockKeys{key}; }), contains("reserved"));
      CHECK_THAT(refusal([&] { (void)guard_key(key); }), contains("reserved"));
    }
    CHECK_THAT(refusal([&] { LockKeys{guard_key(name)}; }), contains("reserved"));
  }
}

TEST_CASE("any bytes make a name, and names that differ behind a NUL differ") {
  using namespace std::string_literals;
  for (auto const& name : {"a b"s, "100%"s, "%s%n"s, "x\0y"s, "\xf0\x9f\x94\x92"s, "\r\n"s, "\0"s}) {
    LockKeys const keys{name};
    CHECK(keys.lock == name);
    CHECK(keys.fence == '{' + name + "}:~fence");
    CHECK(keys.same_slot);
  }
  CHECK(LockKeys{"x\0y"s}.fence != LockKeys{"x\0z"s}.fence);
}

TEST_CASE("an empty name and one of more than 512 bytes are refused") {
  CHECK_THAT(refusal([] { LockKeys{""}; }), contains("lock name is empty"));
  CHECK(LockKeys{std::string(512, 'x')}.lock.size() == 512);
  auto const text = refusal([] { LockKeys{std::string(513, 'x')}; });
  CHECK_THAT(text, contains("513 bytes") && contains("at most 512"));
  CHECK(text.size() < 200);
}

TEST_CASE("each reserved ending is refused, and named") {
  for (std::string const ending : {":~fence", ":~wake", ":~wait", ":~guard"})
    for (std::string const stem : {"", "x", "{x}", "{x}:"})
      CHECK_THAT(refusal([&] { LockKeys{stem + ending}; }), contains("ends in " + ending) && contains('"' + stem + ending + '"'));
  CHECK(LockKeys{"x:~fences"}.lock == "x:~fences");
  CHECK(LockKeys{"x~fence"}.lock == "x~fence");
  CHECK(LockKeys{":~FENCE"}.lock == ":~FENCE");
}

TEST_CASE("a refused name is printed escaped") {
  auto const text = refusal([] { LockKeys{"a\nb\xff:~wake"}; });
  CHECK_THAT(text, contains(R"("a\x0ab\xff:~wake")"));
}

TEST_CASE("a guarded key may be longer than a lock's name, but not empty") {
  CHECK(guard_key(std::string(2000, 'x')).size() == 2000 + 2 + 7);
  CHECK_THAT(refusal([] { (void)guard_key(""); }), contains("key is empty"));
}
