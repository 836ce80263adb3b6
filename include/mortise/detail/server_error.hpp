// SPDX-License-Identifier: MIT
// What an error reply of the server means: its class, whether to try again, and what a person can do about it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <mortise/detail/missing_right.hpp>
#include <mortise/error.hpp>

namespace mortise::inline v1::detail {

struct ServerErrorClass {
  std::string_view code;  ///< the word the server uses
  Errc errc;
  bool permanent;         ///< stays until somebody changes the server
  std::string_view advice;  ///< of a missing right: see missing_right()
};

/// The replies that locks meet. Sources: redis.io (command and ACL documentation), server.c and acl.c of Redis 6.2 to 8.
inline constexpr std::array<ServerErrorClass, 20> server_errors{{
    {"NOAUTH", Errc::auth_failed, true, "the server wants a password: give one in the URI or in ClientOptions"},
    {"WRONGPASS", Errc::auth_failed, true, "user name or password is wrong, or the user is disabled"},
    {"NOPERM", Errc::no_permission, true, {}},
    {"WRONGTYPE", Errc::wrong_type, true, "the key of this lock, or one of its companions, holds something that is no lock: choose another name"},
    {"OOM", Errc::server_refused, false, "the server's memory is full: raise maxmemory or free some"},
    {"MISCONF", Errc::server_refused, false, "the server cannot save its data and refuses writes: mend its disk or its persistence settings"},
    {"NOREPLICAS", Errc::server_refused, false, "too few replicas are in reach for min-replicas-to-write"},
    {"LOADING", Errc::server_refused, false, "the server is reading its data: it answers when it is done"},
    {"BUSY", Errc::server_refused, false, "a script keeps the server busy: SCRIPT KILL ends it"},
    {"READONLY", Errc::server_refused, false, "this server is a replica: connect to its primary"},
    {"MASTERDOWN", Errc::server_refused, false, "this replica has lost its primary"},
    {"CLUSTERDOWN", Errc::server_refused, false, "the cluster does not serve this slot"},
    {"TRYAGAIN", Errc::server_refused, false, "the slot of this lock is being moved"},
    {"MOVED", Errc::server_refused, true, "another node of this cluster has the slot: redis+cluster:// finds it"},
    {"ASK", Errc::server_refused, true, "another node of this cluster has the slot: redis+cluster:// finds it"},
    {"CROSSSLOT", Errc::server_refused, true, "the keys of this lock lie in several slots: a name with '}' needs a {tag} in a cluster"},
    {"UNBLOCKED", Errc::server_refused, false, "the server ended the wait"},
    {"DENIED", Errc::server_refused, true, "the server is in protected mode: set a password or bind addresses"},
    {"KIND", Errc::server_refused, true, "all who use one name have to agree on what it is: choose another name, or the same number of permits"},
    {"FENCE", Errc::server_refused, true, "the fence counter of this lock has reached 2^53 - 1: delete it once nothing depends on older fences"},
}};

/// Replies that say it in words instead of by a code.
inline constexpr std::array<ServerErrorClass, 8> server_error_phrases{{
    {"max number of clients reached", Errc::server_refused, false, "raise maxclients or close connections"},
    {"invalid password", Errc::auth_failed, true, "the password is wrong"},
    {"without any password configured", Errc::auth_failed, true, "the server has no password set: leave it out"},
    {"The user executing the script can't", Errc::no_permission, true, {}},
    {"ACL failure in script", Errc::no_permission, true, {}},
    {"non local key in a cluster node", Errc::server_refused, false, "the slot of this lock is being moved"},
    {"cluster support disabled", Errc::server_refused, true, "the server is no cluster: connect with redis://"},
    {"DB index is out of range", Errc::invalid_option, true, "the server has fewer databases: see its 'databases' setting"},
}};

/// Whether `text` holds `code` as a word of its own. Before Redis 7 the code of an error inside a script stands in the
/// middle of the message.
constexpr bool has_code(std::string_view text, std::string_view code) noexcept {
  constexpr auto is_letter = [](char c) { return c >= 'A' && c <= 'Z'; };
  bool const in_script = text.starts_with("ERR Error running script");
  for (auto at = text.find(code); at != std::string_view::npos; at = text.find(code, at + 1)) {
    auto const end = at + code.size();
    if ((at == 0 || text[at - 1] == '-' || (in_script && text[at - 1] == ' ')) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

/// The error reply `text` of `endpoint` as an Error. Of who asked for what it speaks only where a right is missing.
inline Error server_error(std::string_view text, std::string_view endpoint, Asker const& asker = {}) {
  // An unknown command is answered with its arguments, and among those may be a token or a password.
  auto const shown = text.substr(0, std::min(text.find(", with args beginning with"), text.find_first_of("\r\n")));
  auto const make = [&](ServerErrorClass const& kind) {
    auto const advice = kind.errc == Errc::no_permission ? missing_right(shown, asker) : std::string{kind.advice};
    Error error{kind.errc, std::string{endpoint} + ": " + std::string{shown} + " (" + advice + ")"};
    return kind.permanent ? std::move(error).permanent() : error;
  };
  for (auto const& kind : server_error_phrases)
    if (text.find(kind.code) != std::string_view::npos) return make(kind);
  for (auto const& kind : server_errors)
    if (has_code(text, kind.code)) return make(kind);
  return Error{Errc::server_refused, std::string{endpoint} + ": " + std::string{shown}}.permanent();
}

}  // namespace mortise::inline v1::detail
