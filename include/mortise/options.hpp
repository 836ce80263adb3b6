// SPDX-License-Identifier: MIT
// What can be set, its defaults, and the rules that are checked before anything is sent.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <mortise/error.hpp>
#include <mortise/observer.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1 {

struct TlsOptions;

/// How a Client talks. Every duration must be positive; milliseconds::max() means no limit.
struct ClientOptions {
  milliseconds command_timeout{1000};  ///< bounds one whole call that has no deadline of its own: connect, send, answer
  milliseconds connect_timeout{1000};  ///< bounds one attempt to connect and log in, inside the call's own time
  milliseconds retry_for{10'000};      ///< acquire() and lock(): how long an unreachable server is retried before Error
  std::string client_name{};           ///< CLIENT SETNAME, and the readable part of the owner token; default host:pid
  std::string username{};              ///< over that of the URI
  std::string password{};              ///< over that of the URI; in no message
  std::shared_ptr<TlsOptions> tls{};   ///< from <mortise/tls.hpp>, for rediss:// URIs
  int replicas{0};                     ///< a grant must be acknowledged by so many replicas (WAIT) …
  milliseconds replicas_timeout{100};  ///< … within this, or it is undone
  std::function<void(Event const&)> observer{};  ///< is told what happens, on a thread of the library: see Event
  bool tracking{false};                ///< a held key that somebody deletes or overwrites is told at once (CLIENT TRACKING)
  bool replicas_fsync{false};          ///< replicas count once they have it on disk (WAITAOF; Redis 7.2 or newer)
  std::string sentinel_username{};     ///< what the Sentinels of a redis+sentinel:// URI want, over that of the URI
  std::string sentinel_password{};     ///< the same
};

/// How a lock is held.
struct LockOptions {
  milliseconds ttl{10'000};                ///< a dead holder's lock is free after this; 3 ms to 10 years
  bool renew{true};                        ///< renewed in the background every third of the TTL, until released
  std::optional<milliseconds> max_hold{};  ///< then renewal stops, and the lease ends with its TTL
};

namespace detail {

inline constexpr milliseconds shortest_ttl{3};
inline constexpr milliseconds longest_ttl{10LL * 365 * 24 * 3600 * 1000};

[[noreturn]] inline void invalid(std::string const& what) { throw Error{Errc::invalid_option, what}; }

inline std::string text(milliseconds value) { return std::to_string(value.count()) + "ms"; }

inline milliseconds checked_positive(char const* option, milliseconds value) {
  if (value <= milliseconds::zero()) invalid(std::string{option} + " is " + text(value) + ": must be positive");
  return value;
}

/// A TTL in range. Below 3 ms the drift allowance (1 % + 2 ms) leaves nothing to hold.
inline milliseconds checked_ttl(milliseconds ttl) {
  if (ttl <= milliseconds::zero()) invalid("ttl is " + text(ttl) + ": must be positive");
  if (ttl < shortest_ttl)
    invalid("ttl is " + text(ttl) + ": must be at least " + text(shortest_ttl) + ", or the clock drift allowance of 1 % + 2ms eats it up");
  if (ttl > longest_ttl) invalid("ttl is " + text(ttl) + ": must be at most 10 years (" + text(longest_ttl) + ")");
  return ttl;
}

inline LockOptions checked(LockOptions options) {
  checked_ttl(options.ttl);
  if (options.max_hold) checked_positive("max_hold", *options.max_hold);
  return options;
}

/// What Redis takes as a connection's name: printable ASCII without spaces.
inline void check_client_name(std::string_view name) {
  if (name.size() > 128) invalid("client_name has " + std::to_string(name.size()) + " bytes: at most 128");
  for (char const c : name)
    if (c < '!' || c > '~') invalid("client_name has a space, a control character or a byte beyond ASCII: Redis refuses such names");
}

inline ClientOptions checked(ClientOptions options) {
  checked_positive("command_timeout", options.command_timeout);
  checked_positive("connect_timeout", options.connect_timeout);
  checked_positive("retry_for", options.retry_for);
  checked_positive("replicas_timeout", options.replicas_timeout);
  if (options.replicas < 0) invalid("replicas is " + std::to_string(options.replicas) + ": must not be negative");
  if (options.replicas_fsync && options.replicas == 0) invalid("replicas_fsync is on, but replicas is 0: say how many must have it on disk");
  check_client_name(options.client_name);
  return options;
}

}  // namespace detail
}  // namespace mortise::inline v1
