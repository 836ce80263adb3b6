// SPDX-License-Identifier: MIT
// A server that answers what the test tells it to: wrong kinds, impossible lengths, half a reply.
#pragma once

#include "support/sockets.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace support {

/// The raw bytes that answer one request, and what happens around them.
struct FakeReply {
  enum class Then { go_on, close, reset };

  std::string bytes{};
  /// Before the first byte.
  Milliseconds delay{0};
  /// Between one byte and the next; zero: all at once.
  Milliseconds trickle{0};
  Then then = Then::go_on;
};

/// Listens on a free port of 127.0.0.1; each connection has a thread, which calls the script for each whole request.
class FakeServer {
public:
  using Words = std::vector<std::string>;
  /// Called by several threads at once if there are several connections.
  using Script = std::function<FakeReply(Words const& request)>;

  explicit FakeServer(Script script);
  FakeServer(FakeServer const&) = delete;
  FakeServer& operator=(FakeServer const&) = delete;
  ~FakeServer();

  std::uint16_t port() const { return port_; }
  std::string uri() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::int64_t connections_ever() const { return connections_; }
  /// All requests so far, in the order of their arrival.
  std::vector<Words> requests() const;

private:
  void listen();
  void talk(Descriptor socket);
  bool answer(Descriptor& socket, FakeReply const& reply) const;

  Script script_;
  std::uint16_t port_ = 0;
  Descriptor listener_;
  std::atomic<bool> ended_ = false;
  std::atomic<std::int64_t> connections_ = 0;
  mutable std::mutex mutex_{};
  std::vector<Words> requests_{};
  std::vector<std::thread> talkers_{};
  std::thread thread_;
};

/// Replies as they stand on the wire.
std::string bulk(std::string_view text);
std::string simple(std::string_view text);
std::string number(std::int64_t value);

}  // namespace support
