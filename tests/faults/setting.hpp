// SPDX-License-Identifier: MIT
// What most fault tests begin with: a server, a proxy in front of it, and names for what goes over the wire.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mortise/mortise.hpp>

#include "support/fake_server.hpp"
#include "support/instrumented.hpp"
#include "support/outcome.hpp"
#include "support/processes.hpp"
#include "support/proxy.hpp"
#include "support/redis_server.hpp"
#include "support/resp_frame.hpp"

namespace faults {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// What a command of the library asks for.
enum class Asks { acquire, claim, keep, release, nudge, pop, other };

/// Told by the shape of a command: the words of a request as the server gets them.
inline Asks asks(std::vector<std::string> const& words) {
  if (words.empty()) return Asks::other;
  if (words[0] == "BLPOP") return Asks::pop;
  if (words[0] != "EVALSHA" && words[0] != "EVAL") return Asks::other;
  switch (words.size()) {
    case 9: return Asks::keep;
    case 12: return words[7].empty() ? Asks::nudge : Asks::release;
    case 13: return words[12].starts_with('*') ? Asks::claim : Asks::acquire;
    default: return Asks::other;
  }
}

inline Asks asks(std::string const& frame) { return asks(support::words_of(frame)); }

/// For the rules of a proxy: the replies to such requests.
inline support::Proxy::Predicate reply_to(Asks what) {
  return [what](std::string const& request, std::string const&) { return asks(request) == what; };
}

/// How many of the recorded requests ask for `what`, those with `part` in them only.
inline std::int64_t count(support::Proxy const& proxy, Asks what, std::string_view part = {}) {
  std::int64_t found = 0;
  for (auto const& request : proxy.recorded(support::Direction::request))
    if (asks(request) == what && request.find(part) != std::string::npos) ++found;
  return found;
}

/// The server's view of a lock: its key's value, empty if there is none.
inline std::string owner(support::RedisServer& server, std::string const& name) {
  auto const answer = server.command({"GET", name});
  return answer.is_nil() ? std::string{} : answer.text;
}

inline bool is_free(support::RedisServer& server, std::string const& name) { return owner(server, name).empty(); }

/// A server and a proxy in front of it. What a test looks at it reads past the proxy.
struct Setting {
  explicit Setting(support::ServerOptions options = {}) : server{std::move(options)} {}

  support::RedisServer server;
  support::Proxy proxy{server.port()};
};

using support::error_of;
using support::instrumented;
using support::time_of;

/// A number that a longer run may set: the environment variable MORTISE_FAULTS_<what>, or `usual`.
inline std::int64_t amount(std::string const& what, std::int64_t usual) {
  auto const* const set = std::getenv(("MORTISE_FAULTS_" + what).c_str());
  return set != nullptr && *set != '\0' ? std::atoll(set) : usual;
}

}  // namespace faults
