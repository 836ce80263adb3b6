// SPDX-License-Identifier: MIT
// A proxy in front of a Redis server that does to the connections what networks and dying peers do.
#pragma once

#include "support/sockets.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace support {

/// Which way a message goes: to the server, or back to the client.
enum class Direction { request, reply };

/// How a connection is cut: an orderly end of stream, or a reset.
enum class Cut { fin, reset };

class ProxyLoop;

/// Listens on a free port of 127.0.0.1 and forwards whole RESP messages, on a thread of its own. All switches act at
/// once, on present and on later connections, and may be thrown by any thread (not in a forked child, where the proxy
/// does not run). Faults are those of TCP: nothing is ever lost in the middle of a stream, so a connection that lost a
/// message stays mute in that direction.
class Proxy {
public:
  /// Tells by a request and its reply whether a rule is meant; runs on the proxy's thread.
  using Predicate = std::function<bool(std::string const& request, std::string const& reply)>;
  using Rewrite = std::function<std::string(Direction, std::string)>;
  static constexpr std::int64_t always = std::numeric_limits<std::int64_t>::max();

  /// In front of 127.0.0.1:`server_port`.
  explicit Proxy(std::uint16_t server_port);
  /// In front of a unix socket.
  explicit Proxy(std::string const& server_socket);
  Proxy(Proxy const&) = delete;
  Proxy& operator=(Proxy const&) = delete;
  /// Cuts all connections.
  ~Proxy();

  std::uint16_t port() const;
  std::string uri() const { return "redis://127.0.0.1:" + std::to_string(port()); }
  /// Later connections go to another server.
  void forward_to(std::uint16_t server_port);

  /// Messages that arrive from now on are delivered so much later.
  void delay(Direction direction, Milliseconds by);
  /// One byte per interval; zero: off.
  void trickle(Direction direction, Milliseconds interval);
  /// Keeps everything, ends of streams included, until resume(): a network that stalls.
  void hold(Direction direction);
  void resume(Direction direction);
  /// Accepts and takes everything, passes on nothing, not even an end of stream: a firewall that forgot the flow.
  /// Connections that lost something stay mute when it is switched off; server sides without a client end then.
  void black_hole(bool on);
  /// Refuses new connections (nobody listens); present ones go on.
  void refuse(bool on);
  /// Lets new connections hang before they are established: the listener's backlog is full.
  void full_backlog(bool on);

  /// The next `count` replies that match never arrive, nor does anything after them on their connections.
  void swallow_replies(std::int64_t count = always, Predicate matches = any());
  void stop_swallowing();
  /// The next `count` requests that match are forwarded and answered by the server; in place of the reply the client
  /// gets the end of its connection.
  void cut_instead_of_reply(Predicate matches = any(), std::int64_t count = 1, Cut how = Cut::fin);
  /// The next `count` replies that match are replaced by these bytes.
  void replace_replies(std::string bytes, std::int64_t count = 1, Predicate matches = any());
  /// Every message passes through this function, on the proxy's thread; an empty result passes nothing on.
  void rewrite(Rewrite hook);

  /// Cuts all present connections, on both sides.
  void cut_all(Cut how = Cut::fin);
  /// Ends one direction of all present connections: its receiver reads an end of stream.
  void half_close(Direction direction);

  std::int64_t connections_ever() const;
  std::int64_t connections() const;
  /// What has arrived at the proxy, passed on or not.
  std::int64_t bytes(Direction direction) const;
  std::int64_t messages(Direction direction) const;
  /// Keeps the messages that arrive from now on; recorded() returns them.
  void record(bool on = true);
  std::vector<std::string> recorded(Direction direction) const;
  void clear_record();

  static Predicate any();
  /// Matches a request that has `part` in its bytes, e.g. a command's name as it is sent or a key.
  static Predicate request_has(std::string part);

private:
  std::unique_ptr<ProxyLoop> loop_;
};

}  // namespace support
