// SPDX-License-Identifier: MIT
// A private server, and what the tests of locks ask it.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mortise/mortise.hpp>

#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "support/outcome.hpp"
#include "support/redis_server.hpp"
#include "support/wait_until.hpp"

using namespace std::chrono_literals;
using mortise::Client;
using mortise::Clock;
using mortise::Errc;
using mortise::Error;
using mortise::Fence;
using mortise::Lease;
using mortise::Lock;
using mortise::milliseconds;
using support::contains;
using support::errc_of;
using support::error_of;
using support::instrumented;
using support::soon;
using support::time_of;
using support::wait_until;

struct LockServer : support::RedisServer {
  using RedisServer::RedisServer;

  /// The value of a string key, if there is one.
  std::optional<std::string> get(std::string const& key) {
    auto const answer = command({"GET", key});
    return answer.is_nil() ? std::nullopt : std::optional{answer.text};
  }
  void set(std::string const& key, std::string const& value) { command({"SET", key, value}); }
  bool exists(std::string const& key) { return command({"EXISTS", key}).integer == 1; }
  std::int64_t pttl(std::string const& key) { return command({"PTTL", key}).integer; }

  /// Clients that are blocked in a BLPOP.
  std::int64_t blocked() {
    return std::ranges::count_if(client_list(), [](auto const& client) { return client.at("flags").find('b') != std::string::npos; });
  }
  /// So many are blocked, soon.
  [[nodiscard]] bool has_blocked(std::int64_t count) {
    return wait_until([&] { return blocked() == count; });
  }

  /// What clients have sent, as calls of commands: without what scripts call, and without the fixture's own questions.
  std::int64_t calls_by_clients() {
    std::int64_t calls = 0;
    for (auto const& [name, count] : commandstats())
      for (std::string_view const command : {"evalsha", "eval", "blpop", "wait", "ping", "auth", "select", "hello"})
        if (name == command) calls += count;
    return calls;
  }
};

inline std::string fence_key(std::string const& name) { return "{" + name + "}:~fence"; }
inline std::string wake_key(std::string const& name) { return "{" + name + "}:~wake"; }
inline std::string wait_key(std::string const& name) { return "{" + name + "}:~wait"; }
