// SPDX-License-Identifier: MIT
// A Lua script by its hash: EVALSHA, and once EVAL where the server does not know it (any more).
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <mortise/connection.hpp>
#include <mortise/detail/sha1.hpp>

namespace mortise::inline v1::detail {

/// A script's text (a literal: never built from data, so a server's cache holds a fixed few) and its name at the server.
struct Script {
  explicit Script(std::string_view lua) : text{lua}, sha{sha1_hex(lua)} {}
  std::string_view text;
  std::string sha;
};

/// How a script is named in a request.
enum class ScriptBy : std::uint8_t { hash, text };

/// Begins EVALSHA or EVAL with so many keys and arguments, which the caller gives next.
inline void begin_script(Connection& connection, Script const& script, ScriptBy by, std::size_t keys, std::size_t arguments) {
  connection.begin(3 + keys + arguments);
  if (by == ScriptBy::hash && !connection.scripts_in_full()) {
    connection.argument("EVALSHA");
    connection.argument(script.sha);
  } else {
    connection.argument("EVAL");
    connection.argument(script.text);
  }
  connection.argument(static_cast<std::int64_t>(keys));
}

/// Whether the script has to be said in full, once: the server forgot it (flushed, restarted, failed over, or dropped as least
/// recently used); or for as long as the connection lives: there is no EVALSHA, or this user may not use it.
inline bool is_unknown_script(Connection& connection, ReplyView reply) {
  if (!reply.is_error()) return false;
  auto const text = reply.text();
  if (text.starts_with("NOSCRIPT")) return true;
  bool const forbidden = text.starts_with("NOPERM") && refused_command(text) == "evalsha";
  bool const absent = text.starts_with("ERR unknown command") && text.substr(0, 32).find("EVALSHA") != std::string_view::npos;
  if (!forbidden && !absent) return false;
  connection.say_scripts_in_full();
  return true;
}

/// One script call about `key` by `append(ScriptBy)`, answered by `deadline`; said again in full where the server does not
/// know it. Throws what an error reply means.
template <class Append>
Reply call_script(Connection& connection, TimePoint deadline, std::string_view key, Append&& append) {
  append(ScriptBy::hash);
  connection.send(deadline);
  auto reply = connection.receive(deadline);
  if (is_unknown_script(connection, **reply)) {
    append(ScriptBy::text);
    connection.send(deadline);
    reply = connection.receive(deadline);
  }
  if ((*reply)->is_error()) throw connection.refusal((*reply)->text(), key);
  return std::move(*reply);
}

}  // namespace mortise::inline v1::detail
