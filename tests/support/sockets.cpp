// SPDX-License-Identifier: MIT
// Loopback sockets: the system calls.
#include "support/sockets.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

namespace support {

namespace {

constexpr std::uint16_t first_port = 11000;
constexpr std::uint16_t last_port = 20999;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

template <class Address>
sockaddr const* generic(Address const& address) {
  return reinterpret_cast<sockaddr const*>(&address);
}

Descriptor new_socket(int family) {
  Descriptor made{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!made)
    throw_errno("socket");
  return made;
}

void set_option(Descriptor const& socket, int level, int option) {
  int const on = 1;
  ::setsockopt(socket.get(), level, option, &on, sizeof on);
}

void finish_connect(Descriptor const& socket, Clock::time_point deadline) {
  if (errno != EINPROGRESS && errno != EAGAIN && errno != EINTR)
    throw_errno("connect");
  if (!wait_ready(socket.get(), POLLOUT, deadline)) {
    errno = ETIMEDOUT;
    throw_errno("connect");
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    errno = error;
    throw_errno("connect");
  }
}

}  // namespace

void Descriptor::reset(int fd) noexcept {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = fd;
}

void throw_errno(std::string const& what) {
  throw std::system_error{errno, std::generic_category(), what};
}

bool wait_ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    auto const left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    pollfd entry{fd, events, 0};
    int const timeout = static_cast<int>(std::clamp<Milliseconds::rep>(left.count(), 0, 60'000));
    int const ready = ::poll(&entry, 1, timeout);
    if (ready > 0)
      return true;
    if (ready < 0 && errno != EINTR)
      throw_errno("poll");
    if (Clock::now() >= deadline)
      return false;
  }
}

std::uint16_t free_port() {
  thread_local std::random_device random;
  for (int attempt = 0; attempt < 200; ++attempt) {
    auto const port = std::uniform_int_distribution<unsigned>{first_port, last_port}(random);
    try {
      listen_tcp(static_cast<std::uint16_t>(port));
      return static_cast<std::uint16_t>(port);
    } catch (std::system_error const&) {
    }
  }
  throw std::runtime_error{"no free port on 127.0.0.1"};
}

Descriptor listen_tcp(std::uint16_t port, int backlog) {
  auto socket = new_socket(AF_INET);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  auto const address = loopback(port);
  if (::bind(socket.get(), generic(address), sizeof address) != 0)
    throw_errno("bind");
  if (::listen(socket.get(), backlog) != 0)
    throw_errno("listen");
  return socket;
}

Descriptor listen_on_free_port(std::uint16_t& port, int backlog) {
  for (int attempt = 0;; ++attempt) {
    port = free_port();
    try {
      return listen_tcp(port, backlog);
    } catch (std::system_error const&) {
      if (attempt == 50)
        throw;
    }
  }
}

Descriptor connect_tcp(std::uint16_t port, Clock::time_point deadline) {
  auto socket = new_socket(AF_INET);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  auto const address = loopback(port);
  if (::connect(socket.get(), generic(address), sizeof address) != 0)
    finish_connect(socket, deadline);
  return socket;
}

Descriptor connect_unix(std::string const& path, Clock::time_point deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw std::invalid_argument{"too long for a unix socket: " + path};
  std::memcpy(address.sun_path, path.data(), path.size());
  auto socket = new_socket(AF_UNIX);
  // A full backlog answers EAGAIN here and cannot be waited for, so it is tried again.
  while (::connect(socket.get(), generic(address), sizeof address) != 0) {
    if ((errno != EAGAIN && errno != EINTR) || Clock::now() >= deadline)
      throw_errno("connect to " + path);
    ::usleep(1000);
  }
  return socket;
}

void send_all(int fd, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    auto const sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(fd, POLLOUT, deadline)) {
        errno = ETIMEDOUT;
        throw_errno("send");
      }
    } else if (errno != EINTR) {
      throw_errno("send");
    }
  }
}

std::size_t receive_some(int fd, std::string& buffer, Clock::time_point deadline) {
  char chunk[16384];
  for (;;) {
    auto const got = ::recv(fd, chunk, sizeof chunk, 0);
    if (got >= 0) {
      buffer.append(chunk, static_cast<std::size_t>(got));
      return static_cast<std::size_t>(got);
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      throw_errno("recv");
    if (!wait_ready(fd, POLLIN, deadline)) {
      errno = ETIMEDOUT;
      throw_errno("recv");
    }
  }
}

void close_with_reset(Descriptor& socket) {
  linger const now{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  // Disconnecting resets even when a forked child has a copy of the socket.
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  ::connect(socket.get(), &nowhere, sizeof nowhere);
  socket.reset();
}

}  // namespace support
