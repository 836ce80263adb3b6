// SPDX-License-Identifier: MIT
// The places in which the contract is proved, with one face: a backend, time that passes, and an outsider's hand.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <mortise/mortise.hpp>
#include <mortise/testing/memory_backend.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/redis_server.hpp"
#include "support/waiting.hpp"

using mortise::milliseconds;
using support::errc_of;

/// Locks in a private server, by a Client over its unix socket. Time passes by itself.
class InRedis {
 public:
  using Backend = mortise::Client;

  static constexpr milliseconds ttl{1000};   ///< long enough for renewals on a busy machine
  static constexpr milliseconds brief{150};  ///< for leases that are to end
  static constexpr milliseconds step{20};    ///< of time, while something is waited for

  Backend& backend() { return *backend_; }
  /// Another way to the same locks, as another process has it.
  Backend& other() { return other_; }
  /// The backend goes away, with everybody who waits in it.
  void close() { backend_.reset(); }

  /// Time passes, a little more than that.
  void let_pass(milliseconds time) { std::this_thread::sleep_for(time + milliseconds{10}); }

  /// As somebody with redis-cli might.
  void erase(std::string const& name) { server_.command({"DEL", name}); }
  void occupy(std::string const& name, milliseconds time) {
    server_.command({"SET", name, "foreign", "PX", std::to_string(time.count())});
  }
  bool exists(std::string const& name) { return server_.command({"EXISTS", name}).integer == 1; }

 private:
  support::RedisServer server_{};
  std::unique_ptr<Backend> backend_{std::make_unique<Backend>(server_.unix_uri())};
  Backend other_{server_.uri()};
};

/// Locks at three private servers, by a Quorum.
class InQuorum {
 public:
  using Backend = mortise::Quorum;

  static constexpr milliseconds ttl{1000};
  static constexpr milliseconds brief{150};
  static constexpr milliseconds step{20};

  Backend& backend() { return *backend_; }
  Backend& other() { return other_; }
  void close() { backend_.reset(); }

  void let_pass(milliseconds time) { std::this_thread::sleep_for(time + milliseconds{10}); }

  void erase(std::string const& name) {
    for (auto& server : servers_) server.command({"DEL", name});
  }
  void occupy(std::string const& name, milliseconds time) {
    for (auto& server : servers_) server.command({"SET", name, "foreign", "PX", std::to_string(time.count())});
  }
  bool exists(std::string const& name) {
    return std::count_if(servers_.begin(), servers_.end(), [&](auto& server) { return server.command({"EXISTS", name}).integer == 1; }) >= 2;
  }

 private:
  std::vector<std::string> uris() const {
    std::vector<std::string> all;
    for (auto const& server : servers_) all.push_back(server.uri());
    return all;
  }

  std::deque<support::RedisServer> servers_{3};
  // The servers are new, and so is everything: nothing can have been forgotten.
  std::unique_ptr<Backend> backend_{std::make_unique<Backend>(uris(), mortise::QuorumOptions{.node_timeout = milliseconds{500}, .quarantine = milliseconds{1}})};
  Backend other_{uris(), mortise::QuorumOptions{.node_timeout = milliseconds{500}, .quarantine = milliseconds{1}}};
};

/// Locks in this process. Time passes when it is told to.
class InMemory {
 public:
  using Backend = mortise::testing::MemoryBackend;

  static constexpr milliseconds ttl{10'000};
  static constexpr milliseconds brief{150};
  static constexpr milliseconds step{250};

  Backend& backend() { return *backend_; }
  Backend& other() { return *backend_; }  // there is no other: its store is its own
  void close() { backend_.reset(); }

  void let_pass(milliseconds time) { backend_->advance(time); }

  void erase(std::string const& name) { backend_->erase(name); }
  void occupy(std::string const& name, milliseconds time) { backend_->occupy(name, time); }
  bool exists(std::string const& name) { return backend_->holder(name).has_value(); }

 private:
  std::unique_ptr<Backend> backend_{std::make_unique<Backend>()};
};

/// Whether a wait with a deadline has begun. Where its time is real it may be over already when a busy machine comes to look.
template <class Store, class Result>
bool has_begun(Store&, support::Waiting<Result>& waiting) {
  return waiting.asleep() || (!std::is_same_v<Store, InMemory> && waiting.over());
}

/// Lets time pass in steps until `predicate` holds. At each step threads get a moment of real time to do their part.
template <class Store, class Predicate>
bool comes_true(Store& store, Predicate&& predicate, milliseconds within = Store::step * 2000) {
  for (milliseconds passed{0}; passed <= within; passed += Store::step) {
    if (support::wait_until(predicate, milliseconds{20})) return true;
    store.let_pass(Store::step);
  }
  return predicate();
}
