// SPDX-License-Identifier: MIT
// Loopback sockets for the test kit: free ports, listening, connecting and whole writes, all with absolute deadlines.
#pragma once

#include "support/descriptor.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace support {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// Throws std::system_error of `errno`, `what` in front.
[[noreturn]] void throw_errno(std::string const& what);

/// Waits until `fd` has one of poll's `events` (or an error or hang-up); false at the deadline. Signals do not matter.
bool wait_ready(int fd, short events, Clock::time_point deadline);

/// A port on which a listener can be opened now. Below the range of outgoing ports, so no client takes it by chance
/// and nobody connects to himself; `port + 10000` (the bus of a cluster node) is below it as well.
std::uint16_t free_port();

/// Listens on 127.0.0.1:`port`, not blocking. Throws std::system_error when the port is taken.
Descriptor listen_tcp(std::uint16_t port, int backlog = 128);

/// Listens on a free port and tells it in `port`.
Descriptor listen_on_free_port(std::uint16_t& port, int backlog = 128);

/// Connected, not blocking, without Nagle's delay. Throws std::system_error (ETIMEDOUT at the deadline).
Descriptor connect_tcp(std::uint16_t port, Clock::time_point deadline);

/// The same to a unix socket.
Descriptor connect_unix(std::string const& path, Clock::time_point deadline);

/// Writes all of it and never raises SIGPIPE. Throws std::system_error.
void send_all(int fd, std::string_view bytes, Clock::time_point deadline);

/// Appends what can be read before the deadline to `buffer`: at least one byte, or none at end of stream. Throws
/// std::system_error, ETIMEDOUT at the deadline.
std::size_t receive_some(int fd, std::string& buffer, Clock::time_point deadline);

/// Closes with a RST instead of a FIN.
void close_with_reset(Descriptor& socket);

}  // namespace support
