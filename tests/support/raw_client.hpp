// SPDX-License-Identifier: MIT
// A blocking client that knows nothing of locks: the foreigner in the tests.
#pragma once

#include "support/answer.hpp"
#include "support/sockets.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace support {

/// One connection to a Redis server. hiredis parses; the bytes go by our own socket, so a dead peer is an
/// exception (std::runtime_error) and never SIGPIPE. Movable; for one thread at a time.
class RawClient {
public:
  using Words = std::vector<std::string>;

  /// Connects to 127.0.0.1:`port`; `timeout` bounds each later wait as well.
  explicit RawClient(std::uint16_t port, Milliseconds timeout = Milliseconds{10'000});
  /// Connects to a unix socket.
  explicit RawClient(std::string const& socket_path, Milliseconds timeout = Milliseconds{10'000});

  /// Sends one command and returns its answer. An error reply is an answer too.
  Answer command(Words const& words);
  /// Sends without reading: the answers come in order from receive().
  void send(Words const& words);
  /// Sends bytes as they are.
  void send_bytes(std::string_view bytes);
  /// The next answer. Throws when none comes in time or the connection ends.
  Answer receive();
  /// The next answer if it comes within `timeout`.
  std::optional<Answer> receive_within(Milliseconds timeout);

  /// SET key value NX PX ttl; true when it was set.
  bool set_nx_px(std::string const& key, std::string const& value, std::int64_t ttl_ms);
  /// Deletes the key if it holds `value`, by a script; true when it did.
  bool compare_and_delete(std::string const& key, std::string const& value);

  /// The peer has closed or reset the connection and nothing is left to read.
  bool closed_by_peer() const;
  void close() { socket_.reset(); }
  /// Closes with RST.
  void reset() { close_with_reset(socket_); }
  int descriptor() const { return socket_.get(); }

private:
  RawClient(Descriptor socket, Milliseconds timeout);
  std::optional<Answer> parsed();

  Descriptor socket_;
  Milliseconds timeout_;
  std::unique_ptr<redisReader, void (*)(redisReader*)> reader_;
};

/// The bytes of a command on the wire.
std::string wire_format(std::vector<std::string> const& words);

}  // namespace support
