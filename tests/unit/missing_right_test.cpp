// SPDX-License-Identifier: MIT
// A missing right: found in every wording of the servers, and the line that grants it.
#include <set>
#include <sstream>
#include <string>

#include <mortise/detail/missing_right.hpp>
#include <mortise/detail/server_error.hpp>
#include <mortise/fencing.hpp>
#include <mortise/mutex_scripts.hpp>
#include <mortise/room_scripts.hpp>
#include <mortise/together_script.hpp>

#include "support/catch.hpp"

using mortise::detail::Asker;
using mortise::detail::missing_right;
using mortise::detail::server_error;
using support::contains;

namespace {

/// The commands a script calls, as rights.
void add_rights(std::set<std::string>& rights, std::string_view lua) {
  constexpr std::string_view call = "redis.call('";
  for (auto at = lua.find(call); at != std::string_view::npos; at = lua.find(call, at + 1)) {
    auto const name = lua.substr(at + call.size(), lua.find('\'', at + call.size()) - at - call.size());
    std::string right{"+"};
    for (char const c : name) right += static_cast<char>(c - 'A' + 'a');
    rights.insert(right);
  }
}

}  // namespace

TEST_CASE("the rights that are advised for scripts are those of what the scripts call, no more and no less") {
  std::set<std::string> called, advised;
  auto const advise = [&](std::string_view rights) {
    std::istringstream words{std::string{rights}};
    for (std::string word; words >> word;) advised.insert(word);
  };
  for (auto const lua : {mortise::detail::acquire_lua, mortise::detail::keep_lua, mortise::detail::release_lua}) add_rights(called, lua);
  advise(mortise::detail::lock_rights);
  CHECK(called == advised);
  add_rights(called, mortise::detail::fenced_set_lua);
  CHECK(called == advised);
  add_rights(called, mortise::detail::together_lua);
  advise(mortise::detail::together_rights);
  CHECK(called == advised);
  for (auto const lua : {mortise::detail::room_lua, mortise::detail::room_acquire_lua, mortise::detail::room_keep_lua, mortise::detail::room_release_lua})
    add_rights(called, lua);
  advise(mortise::detail::room_rights);
  CHECK(called == advised);
}

TEST_CASE("a command that may not be run is named with the line that allows it") {
  Asker const alice{.user = "alice", .key = "lock:a"};
  for (auto const* const text : {
           "NOPERM this user has no permissions to run the 'blpop' command",
           "NOPERM this user has no permissions to run the 'blpop' command or its subcommand",
           "NOPERM User alice has no permissions to run the 'blpop' command",
           "ERR ACL failure in script: User alice has no permissions to run the 'blpop' command script: 0123, on @user_script:1."})
    CHECK(missing_right(text, alice) == "grant it: ACL SETUSER alice +blpop");
  CHECK(missing_right("NOPERM this user has no permissions to run the 'client|tracking' command", alice) ==
        "grant it: ACL SETUSER alice +client|tracking");
  for (auto const* const command : {"eval", "evalsha"})
    CHECK(missing_right("NOPERM this user has no permissions to run the '" + std::string{command} + "' command", alice) ==
          "grant it: ACL SETUSER alice +eval +evalsha");
}

TEST_CASE("a command inside a script that the server does not name is one of a few") {
  auto const advised = contains("grant it: ACL SETUSER default " + std::string{mortise::detail::lock_rights} + ' ');
  CHECK_THAT(missing_right("ERR The user executing the script can't run this command or subcommand script: 0123, on @user_script:1.", {}), advised);
  CHECK_THAT(missing_right("ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -NOPERM The user executing the script "
                      "can't run this command or subcommand",
                      {}), advised);
}

TEST_CASE("keys that may not be used are named as patterns for this lock alone") {
  auto const advice = [](std::string_view key) {
    return missing_right("NOPERM No permissions to access a key", {.user = "alice", .key = key});
  };
  CHECK(advice("lock:a") == "grant it: ACL SETUSER alice ~lock:a ~{lock:a}:*");
  CHECK_THAT(advice("{tag}x"), contains(" ~{tag}x ~{tag}x::*"));
  CHECK_THAT(advice("a*b?[c]"), contains("\"~a\\\\*b\\\\?\\\\[c]\""));  // in quotes redis-cli takes two backslashes for one
  CHECK_THAT(advice("a b\n"), contains("\"~a b\\x0a\" \"~{a b\\x0a}:*\""));
  for (auto const* const text : {"NOPERM this user has no permissions to access one of the keys used as arguments",
                                 "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"})
    CHECK_THAT(missing_right(text, {.user = "alice", .key = "lock:a"}), contains("~lock:a ~{lock:a}:*"));
  CHECK_THAT(missing_right("NOPERM No permissions to access a key", {}), contains("ACL SETUSER default ~<pattern of the keys>"));
}

TEST_CASE("a channel that may not be used is the one of the invalidations") {
  CHECK(missing_right("NOPERM this user has no permissions to access one of the channels used as arguments", {}) ==
        "grant it: ACL SETUSER default &__redis__:invalidate");
}

TEST_CASE("a missing right is an error of its own that stays, with nothing of the refused arguments") {
  for (auto const* const text : {"NOPERM No permissions to access a key", "ERR ACL failure in script: No permissions to access a key",
                                 "ERR The user executing the script can't run this command or subcommand script: 0123, on @user_script:1."}) {
    auto const error = server_error(text, "host:1", {.user = "alice", .key = "lock:a"});
    CHECK(error.errc() == mortise::Errc::no_permission);
    CHECK_FALSE(error.retryable());
    CHECK_THAT(error.what(), contains("host:1") && contains("ACL SETUSER alice"));
  }
}
