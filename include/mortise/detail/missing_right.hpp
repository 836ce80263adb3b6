// SPDX-License-Identifier: MIT
// Which right an ACL user lacks, from the refusal's text, and the line that grants it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <mortise/detail/printable.hpp>
#include <mortise/key.hpp>

namespace mortise::inline v1::detail {

/// What the scripts of a Lock call, and what those of SharedLock, Semaphore and acquire_all call besides. docs/deployment.md
/// has the whole list of rights.
inline constexpr std::string_view lock_rights = "+time +get +set +exists +pttl +pexpire +del +lpop +rpush +lrem";
inline constexpr std::string_view room_rights = "+pexpireat +zadd +zcard +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore";
inline constexpr std::string_view together_rights = "+lindex";

/// Who asked, and for which lock or key (nothing: for none, or for one that is not at hand).
struct Asker {
  std::string_view user{};
  std::string_view key{};
};

/// A word as redis-cli takes it.
inline std::string shell_word(std::string_view text) {
  auto const plain = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '\\'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), plain) ? std::string{text} : printable(text);
}

/// The pattern that matches this key alone.
inline std::string key_pattern(std::string_view key) {
  std::string pattern = "~";
  for (char const c : key) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// The command in "… to run the 'evalsha' command …", or nothing.
constexpr std::string_view refused_command(std::string_view text) noexcept {
  constexpr std::string_view before = "to run the '";
  auto const at = text.find(before);
  if (at == std::string_view::npos) return {};
  auto const name = text.substr(at + before.size());
  return name.substr(0, std::min(name.find('\''), name.size()));
}

/// What to do about a refusal for want of a right. The texts are those of acl.c in Redis 6.2 to 8 and Valkey 7.2 to 9, inside
/// scripts too, where Redis 7.0 names no command.
inline std::string missing_right(std::string_view text, Asker const& asker) {
  auto const user = shell_word(asker.user.empty() ? "default" : asker.user);
  auto const grant = [&](std::string const& rights) { return "grant it: ACL SETUSER " + user + ' ' + rights; };
  if (auto const command = refused_command(text); !command.empty()) {
    bool const runs_scripts = command == "eval" || command == "evalsha";
    return grant(runs_scripts ? "+eval +evalsha" : '+' + shell_word(command));
  }
  if (text.find("channel") != std::string_view::npos) return grant("&__redis__:invalidate");
  if (text.find("access") == std::string_view::npos)
    return grant(std::string{lock_rights} + " (SharedLock, Semaphore: and " + std::string{room_rights} + "; acquire_all: and " +
                 std::string{together_rights} + ')');
  if (asker.key.empty()) return "grant its keys: ACL SETUSER " + user + " ~<pattern of the keys>";
  return grant(shell_word(key_pattern(asker.key)) + ' ' + shell_word(key_pattern(sibling(asker.key, ":")) + '*'));
}

}  // namespace mortise::inline v1::detail
