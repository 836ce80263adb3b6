// SPDX-License-Identifier: MIT
// Lines of text between a test and its child process.
#pragma once

#include "support/sockets.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace support {

/// One end of a pair of connected streams. Writing to an ended peer throws std::system_error and never raises SIGPIPE.
class Channel {
public:
  Channel() = default;
  explicit Channel(Descriptor stream) : stream_{std::move(stream)} {}

  /// Two connected ends.
  static std::pair<Channel, Channel> pair();

  /// Sends the text and a line end.
  void send_line(std::string_view line);
  /// The next line without its end (what stands before the end of the stream counts as one). Empty at the timeout, and
  /// when the peer has ended: ended() tells which.
  std::optional<std::string> read_line(Milliseconds timeout = Milliseconds{30'000});
  /// All until the peer ends or the timeout.
  std::string read_all(Milliseconds timeout = Milliseconds{30'000});
  /// The end of the stream has been read.
  bool ended() const { return ended_; }
  /// The peer reads an end of stream; reading here goes on.
  void close_writing();
  int descriptor() const { return stream_.get(); }
  void close() { stream_.reset(); }

private:
  bool fill(Clock::time_point deadline);

  Descriptor stream_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace support
