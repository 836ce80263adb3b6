// SPDX-License-Identifier: MIT
// Servers that play nodes of a cluster or Sentinels and say what a test wants.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mortise/mortise.hpp>

#include "support/catch.hpp"
#include "support/fake_server.hpp"
#include "support/outcome.hpp"
#include "support/wait_until.hpp"

namespace topology {

using namespace std::chrono_literals;
using mortise::Client;
using mortise::ClientOptions;
using mortise::Clock;
using mortise::Errc;
using mortise::Error;
using mortise::Event;
using mortise::Lease;
using mortise::Lock;
using mortise::milliseconds;
using support::contains;
using support::error_of;
using support::FakeReply;
using support::FakeServer;
using support::soon;
using support::time_of;
using support::wait_until;
using Words = FakeServer::Words;

/// What the library asks for, told by the shape of the command.
enum class Asks { acquire, keep, release, pop, slots, other };

inline Asks asks(Words const& words) {
  if (words.at(0) == "BLPOP") return Asks::pop;
  if (words[0] == "CLUSTER") return Asks::slots;
  if (words[0] != "EVALSHA" && words[0] != "EVAL") return Asks::other;
  return words.size() == 9 ? Asks::keep : words.size() == 12 ? Asks::release : Asks::acquire;
}

inline std::string refused(std::string const& text) { return "-" + text + "\r\n"; }
inline std::string array(std::vector<std::string> const& items) {
  auto bytes = "*" + std::to_string(items.size()) + "\r\n";
  for (auto const& item : items) bytes += item;
  return bytes;
}
inline std::string busy() { return array({support::number(0), support::number(60'000), support::number(1'000'000)}); }
inline std::string granted() {
  static std::atomic<std::int64_t> fence{0};
  return array({support::number(1), support::number(++fence), support::number(1'000'000)});
}

/// One range of a slot map.
inline std::string slot_range(int first, int last, std::string const& host, int port) {
  return array({support::number(first), support::number(last), array({support::bulk(host), support::number(port), support::bulk("id")})});
}

/// A node that grants, keeps and releases whatever it is asked, unless a test has given it another answer.
class FakeNode {
 public:
  /// The raw answer to a request; nothing: the usual one.
  using Answers = std::function<std::optional<FakeReply>(Words const&)>;

  FakeNode() : server_{[this](Words const& words) { return answer(words); }} {}

  void answers(Answers answers) {
    std::lock_guard const guard{mutex_};
    answers_ = std::move(answers);
  }
  /// Answers every question about a lock with this error.
  void refuses(std::string const& text) {
    answers([text](Words const& words) -> std::optional<FakeReply> {
      if (asks(words) == Asks::slots || asks(words) == Asks::other) return std::nullopt;
      return FakeReply{.bytes = refused(text)};
    });
  }
  /// What CLUSTER SLOTS says.
  void maps(std::vector<std::string> const& ranges) {
    std::lock_guard const guard{mutex_};
    map_ = array(ranges);
  }

  int port() const { return server_.port(); }
  std::string host_and_port() const { return "127.0.0.1:" + std::to_string(port()); }
  std::vector<Words> requests() const { return server_.requests(); }
  std::int64_t connections_ever() const { return server_.connections_ever(); }
  std::int64_t count(Asks what) const {
    std::int64_t found = 0;
    for (auto const& words : requests()) found += asks(words) == what ? 1 : 0;
    return found;
  }

 private:
  FakeReply answer(Words const& words) {
    Answers special;
    std::string map;
    {
      std::lock_guard const guard{mutex_};
      special = answers_;
      map = map_;
    }
    if (special)
      if (auto reply = special(words)) return *reply;
    if (words[0] == "ROLE") return {.bytes = array({support::bulk("master"), support::number(0), array({})})};
    switch (asks(words)) {
      case Asks::acquire: return {.bytes = granted()};
      case Asks::keep: return {.bytes = support::number(1)};
      case Asks::release: return {.bytes = array({support::number(1), support::number(-2)})};
      case Asks::pop: return {.bytes = "*-1\r\n"};
      case Asks::slots: return {.bytes = map};
      case Asks::other: break;
    }
    return {.bytes = support::simple("OK")};
  }

  std::mutex mutex_{};
  Answers answers_{};
  std::string map_{array({})};
  FakeServer server_;
};

/// Two nodes, of which the first serves all slots, as both say.
struct FakeCluster {
  FakeNode first{};
  FakeNode second{};

  FakeCluster() { all_slots_at(first); }
  void all_slots_at(FakeNode const& owner) {
    for (auto* const node : {&first, &second}) node->maps({slot_range(0, 16383, "127.0.0.1", owner.port())});
  }
  std::string uri() const { return "redis+cluster://" + first.host_and_port(); }
};

/// A Sentinel that names whom it is told to name.
class FakeSentinel {
 public:
  explicit FakeSentinel(int port, std::string host = "127.0.0.1") : port_{port}, host_{std::move(host)} {}

  /// 0: it does not know the service. -1: it does not answer.
  void names(int port) { port_ = port; }
  std::string host_and_port() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  std::vector<Words> requests() const { return server_.requests(); }

 private:
  FakeReply answer(Words const& words) const {
    int const port = port_;
    if (port < 0) return {.bytes = {}, .delay = support::Milliseconds{60'000}};
    if (words[0] != "SENTINEL") return {.bytes = support::simple("OK")};
    if (words.at(1) != "GET-MASTER-ADDR-BY-NAME") return {.bytes = array({})};
    if (port == 0) return {.bytes = "*-1\r\n"};
    return {.bytes = array({support::bulk(host_), support::bulk(std::to_string(port))})};
  }

  std::atomic<int> port_;
  std::string host_;
  FakeServer server_{[this](Words const& words) { return answer(words); }};
};

template <class... Sentinels>
std::string sentinel_uri(Sentinels const&... sentinels) {
  std::string uri;
  ((uri += (uri.empty() ? "redis+sentinel://" : ",") + sentinels.host_and_port()), ...);
  return uri + "/group";
}

}  // namespace topology
