// SPDX-License-Identifier: MIT
// From an address to a connected socket by a deadline, and the ledger by which a forked child finds what it inherited.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <mortise/detail/wake.hpp>
#include <mortise/error.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// Where a server listens: a socket path, or host and port.
struct Address {
  std::string host{};
  std::string path{};
  int port{0};

  std::string text() const {
    if (!path.empty()) return "unix:" + path;
    auto const bracketed = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return bracketed + ":" + std::to_string(port);
  }
};

enum class Awaited : std::uint8_t { ready, interrupted, timed_out };

/// Polls one descriptor until `deadline`, whatever signals arrive; a ring of `interrupt` ends it.
inline Awaited await_descriptor(int descriptor, short events, TimePoint deadline, Wake* interrupt) noexcept {
  pollfd watched[2] = {{descriptor, events, 0}, {interrupt == nullptr ? -1 : interrupt->descriptor(), POLLIN, 0}};
  for (;;) {
    auto const now = deadline == never ? TimePoint{} : Clock::now();
    auto const count = ::poll(watched, interrupt == nullptr ? 1 : 2, poll_timeout(deadline, now));
    if (count > 0) return watched[0].revents != 0 ? Awaited::ready : Awaited::interrupted;
    if (deadline != never && Clock::now() >= deadline) return Awaited::timed_out;
  }
}

/// The sockets of one core. A forked child closes the copies it inherited, unread and without a word to the server. Lock-free,
/// because the fork may come at any moment; chunks are only ever added. A socket is known by its inode too: a child that closed
/// everything and opened files of its own must not lose one of those that got the number.
class SocketLedger {
  struct Slot {
    std::atomic<int> socket{free_slot};
    std::atomic<ino_t> inode{0};
  };
  struct Chunk {
    std::array<Slot, 32> slots{};
    std::atomic<Chunk*> next{nullptr};
  };

 public:
  using Entry = Slot*;

  SocketLedger() = default;
  SocketLedger(SocketLedger const&) = delete;
  SocketLedger& operator=(SocketLedger const&) = delete;
  ~SocketLedger() {
    for (auto* chunk = first_.next.load(); chunk != nullptr;) delete std::exchange(chunk, chunk->next.load());
  }

  Entry enter(int socket) {
    for (auto* chunk = &first_;;) {
      for (auto& slot : chunk->slots) {
        int expected = free_slot;
        if (!slot.socket.compare_exchange_strong(expected, socket, std::memory_order_acq_rel)) continue;
        slot.inode.store(socket_inode(socket), std::memory_order_release);
        return &slot;
      }
      auto* next = chunk->next.load(std::memory_order_acquire);
      if (next == nullptr) {
        auto fresh = std::make_unique<Chunk>();
        if (chunk->next.compare_exchange_strong(next, fresh.get(), std::memory_order_acq_rel)) next = fresh.release();
      }
      chunk = next;
    }
  }

  void leave(Entry entry) noexcept {
    if (entry == nullptr) return;
    entry->inode.store(0, std::memory_order_relaxed);
    entry->socket.store(free_slot, std::memory_order_release);
  }

  /// In a forked child only.
  void close_inherited() noexcept {
    for (auto* chunk = &first_; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire))
      for (auto& slot : chunk->slots) {
        auto const inode = slot.inode.exchange(0, std::memory_order_acq_rel);
        int const socket = slot.socket.exchange(free_slot, std::memory_order_acq_rel);
        if (inode != 0 && socket_inode(socket) == inode) ::close(socket);
      }
  }

 private:
  static constexpr int free_slot = -1;

  /// 0: not a socket, or none that is open.
  static ino_t socket_inode(int descriptor) noexcept {
    struct stat about {};
    return ::fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode) ? about.st_ino : 0;
  }

  Chunk first_{};
};

namespace dialing {

inline Descriptor open_socket(int family) noexcept {
#if defined(SOCK_NONBLOCK) && defined(SOCK_CLOEXEC)
  return Descriptor{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
#else
  Descriptor socket{::socket(family, SOCK_STREAM, 0)};
  if (socket) {
    ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  }
  return socket;
#endif
}

/// Connects to one socket address; 0 or the reason.
inline int connect_by(int socket, sockaddr const* to, socklen_t size, TimePoint deadline, Wake* interrupt) noexcept {
  for (;;) {
    if (::connect(socket, to, size) == 0 || errno == EISCONN) return 0;
    if (errno == EINPROGRESS || errno == EALREADY || errno == EINTR) {
      auto const awaited = await_descriptor(socket, POLLOUT, deadline, interrupt);
      if (awaited == Awaited::interrupted) return ECANCELED;
      if (awaited == Awaited::timed_out) return ETIMEDOUT;
      int error = 0;
      socklen_t length = sizeof error;
      if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
      return error;
    }
    if (errno != EAGAIN) return errno;
    // A unix socket with a full backlog cannot be polled for room: look again a little later.
    auto const again = std::min(deadline, after(Clock::now(), milliseconds{5}));
    if (await_descriptor(-1, 0, again, interrupt) == Awaited::interrupted) return ECANCELED;
    if (Clock::now() >= deadline) return ETIMEDOUT;
  }
}

/// No delay for small writes, and a silent peer is found in about half a minute instead of the kernel's hours.
inline void tune(int socket) noexcept {
  auto const set = [socket](int level, int name, int value) { ::setsockopt(socket, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
#endif
}

[[noreturn]] inline void failed(Address const& address, int reason) {
  if (reason == ETIMEDOUT) throw Error{Errc::connect_failed, address.text() + ": nothing within the time allowed"};
  throw Error{Errc::connect_failed, address.text() + ": " + std::generic_category().message(reason)};
}

inline Descriptor dial_path(Address const& address, TimePoint deadline, Wake* interrupt) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (address.path.size() >= sizeof to.sun_path) failed(address, ENAMETOOLONG);
  std::memcpy(to.sun_path, address.path.data(), address.path.size());
  auto socket = open_socket(AF_UNIX);
  if (!socket) failed(address, errno);
  if (int const reason = connect_by(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to, deadline, interrupt)) failed(address, reason);
  return socket;
}

inline std::unique_ptr<addrinfo, void (*)(addrinfo*)> look_up(Address const& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  if (int const error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &raw); error != 0)
    throw Error{Errc::connect_failed, address.text() + ": the name does not resolve: " + ::gai_strerror(error)};
  return {raw, ::freeaddrinfo};
}

/// All addresses of a name in turn, each with its share of the time, so that a dead first one leaves time for the others.
inline Descriptor dial_host(Address const& address, TimePoint deadline, Wake* interrupt) {
  auto const list = look_up(address);
  int left = 0;
  for (auto const* one = list.get(); one != nullptr; one = one->ai_next) ++left;
  int reason = ETIMEDOUT;
  for (auto const* one = list.get(); one != nullptr; one = one->ai_next, --left) {
    auto const now = Clock::now();
    if (now >= deadline) failed(address, ETIMEDOUT);
    auto const share = deadline == never ? never : now + (deadline - now) / left;
    auto socket = open_socket(one->ai_family);
    if (!socket) {
      reason = errno;
      continue;
    }
    reason = connect_by(socket.get(), one->ai_addr, one->ai_addrlen, share, interrupt);
    if (reason == 0) {
      tune(socket.get());
      return socket;
    }
    if (reason == ECANCELED) break;
  }
  failed(address, reason);
}

/// One address of a server as the system takes it.
struct Resolved {
  sockaddr_storage to{};
  socklen_t size{};
};

/// All addresses behind a name, in the system's order; for a socket path that path. Blocks in the system's resolver.
inline std::vector<Resolved> resolve(Address const& address) {
  std::vector<Resolved> found;
  if (!address.path.empty()) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (address.path.size() >= sizeof to.sun_path) failed(address, ENAMETOOLONG);
    std::memcpy(to.sun_path, address.path.data(), address.path.size());
    std::memcpy(&found.emplace_back().to, &to, sizeof to);
    found.back().size = sizeof to;
    return found;
  }
  auto const list = look_up(address);
  for (auto const* one = list.get(); one != nullptr; one = one->ai_next) {
    std::memcpy(&found.emplace_back().to, one->ai_addr, one->ai_addrlen);
    found.back().size = one->ai_addrlen;
  }
  return found;
}

/// A socket on its way to that address: it is writable when it has arrived, or not, which the first write then says.
inline Descriptor begin_to(Address const& address, Resolved const& target) {
  auto socket = open_socket(target.to.ss_family);
  if (!socket) failed(address, errno);
  if (address.path.empty()) tune(socket.get());
  if (::connect(socket.get(), reinterpret_cast<sockaddr const*>(&target.to), target.size) != 0 && errno != EINPROGRESS && errno != EINTR)
    failed(address, errno);
  return socket;
}

}  // namespace dialing

/// A connected, non-blocking socket. Name resolution is the system's and blocks: it stands outside the deadline.
inline Descriptor dial(Address const& address, TimePoint deadline, Wake* interrupt = nullptr) {
  return address.path.empty() ? dialing::dial_host(address, deadline, interrupt) : dialing::dial_path(address, deadline, interrupt);
}

}  // namespace mortise::inline v1::detail
