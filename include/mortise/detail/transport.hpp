// SPDX-License-Identifier: MIT
// The bytes of one connection: a socket that is never waited for without a deadline, TLS where it is asked for, and a parser.
#pragma once

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <mortise/detail/dial.hpp>
#include <mortise/detail/secure.hpp>
#include <mortise/detail/wake.hpp>
#include <mortise/reply.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// Closed for good at the first I/O or protocol error. hiredis parses here; it formats nothing and blocks nowhere.
class Transport {
 public:
  static constexpr std::size_t usual_reply{std::size_t{1} << 16};

  Transport(Transport const&) = delete;
  Transport& operator=(Transport const&) = delete;

  std::string const& endpoint() const noexcept { return endpoint_; }
  int descriptor() const noexcept { return context_ ? context_->fd : -1; }
  bool closed() const noexcept { return !context_ || spent_; }
  /// Something of what was gathered has not been taken by the kernel.
  bool unsent() const noexcept { return !out_.empty() || !wire_.empty(); }
  /// How long one reply may be from now on: no lock needs more than the usual.
  void expect_up_to(std::size_t bytes) noexcept { longest_reply_ = bytes; }
  void close() noexcept;

 protected:
  Transport(std::string endpoint, SocketLedger& ledger) : endpoint_{std::move(endpoint)}, ledger_{&ledger} {}
  ~Transport() { close(); }

  /// Takes a socket over, which may still be connecting.
  void open(Descriptor socket);
  void encrypt(SecureContext const& secure, Address const& address, TimePoint deadline, Wake* interrupt);
  /// Writes what the kernel takes at once; whether that was all.
  bool write_some();
  bool partly_written() const noexcept { return written_ != 0; }
  /// False: `interrupt` rang first. Throws when the deadline passes, and nothing that comes later is heard.
  bool wait_for(short events, TimePoint deadline, Wake* interrupt);
  /// Reads what is there, once.
  void fill(bool& would_block);
  bool unparsed() const noexcept { return context_->reader->len > context_->reader->pos; }
  std::optional<Reply> parsed();
  /// Nothing has arrived and the peer has not hung up: asks the kernel, not the server.
  bool silent() const noexcept;
  [[noreturn]] void fail(Errc errc, std::string const& what);
  void throw_if_closed() const {
    if (closed()) throw Error{Errc::connection_lost, endpoint_ + ": the connection is closed"};
  }

  std::string out_{};   // what is gathered
  bool ready_{false};   // the set-up is done: what leaves from here on may change something
  bool asked_{false};   // some of what awaits a reply has left

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { ::redisFree(context); }
  };

  void tell_why() noexcept;
  void take(std::string_view wire);
  void feed(std::string_view bytes);
  bool announces_too_much(std::string_view bytes) noexcept;

  std::string endpoint_;
  SocketLedger* ledger_;
  SocketLedger::Entry entry_{};
  std::unique_ptr<redisContext, Free> context_{};
  std::unique_ptr<SecureSession> secure_{};
  std::string wire_{};      // out_ encrypted, where it is
  std::size_t written_{0};  // of what leaves
  std::size_t fed_{0};      // bytes since the last whole reply
  std::size_t longest_reply_{usual_reply};
  int header_digits_{0};  // in a line that may announce an aggregate; -1: in any other line
  bool greeted_{false};   // the TLS handshake is done
  bool spent_{false};     // timed out: whatever still arrives is nobody's
};

// --- below: bodies

inline void Transport::open(Descriptor socket) {
  context_.reset(::redisConnectFd(socket.get()));
  if (!context_) throw std::bad_alloc{};
  context_->flags &= ~REDIS_BLOCK;
  entry_ = ledger_->enter(socket.release());  // the context's from here on
}

inline void Transport::encrypt(SecureContext const& secure, Address const& address, TimePoint deadline, Wake* interrupt) {
  secure_ = secure.session(address);
  auto const wait = [&](short events) {
    switch (await_descriptor(context_->fd, events, deadline, interrupt)) {
      case Awaited::ready: return;
      case Awaited::interrupted: fail(Errc::connect_failed, "interrupted while connecting");
      case Awaited::timed_out: fail(Errc::timeout, "no end of the TLS handshake within the time allowed: does the server speak TLS on this port?");
    }
  };
  for (bool done = false; !done;) {
    try {
      done = secure_->shake_hands();
    } catch (Error const&) {
      tell_why();
      throw;
    }
    secure_->drain(wire_);
    while (!write_some()) wait(POLLOUT);
    bool nothing = true;
    while (!done && nothing) {
      wait(POLLIN);
      nothing = false;
      fill(nothing);
    }
  }
  greeted_ = true;
}

/// What the peer is to know of a handshake that failed, as far as the kernel takes it.
inline void Transport::tell_why() noexcept {
  try {
    secure_->drain(wire_);
    write_some();
  } catch (...) {  // then not
  }
}

inline bool Transport::write_some() {
  if (secure_ && !out_.empty()) {
    secure_->write(out_);
    secure_->drain(wire_);
    out_.clear();
  }
  auto& leaving = secure_ ? wire_ : out_;
  while (written_ < leaving.size()) {
    auto const count = ::send(context_->fd, leaving.data() + written_, leaving.size() - written_, MSG_NOSIGNAL);
    if (count >= 0) {
      asked_ = ready_;
      written_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN) {  // the last: still connecting
      return false;
    } else if (errno != EINTR) {
      auto const reason = errno;
      if (bool nothing = false; secure_) fill(nothing);  // the peer may have said why
      fail(Errc::connection_lost, std::generic_category().message(reason));
    }
  }
  leaving.clear();
  written_ = 0;
  return true;
}

inline void Transport::fill(bool& would_block) {
  std::array<char, 4096> bytes;
  auto const count = ::recv(context_->fd, bytes.data(), bytes.size(), 0);
  if (count > 0) {
    take({bytes.data(), static_cast<std::size_t>(count)});
  } else if (count == 0) {
    bool const greeting = secure_ && !greeted_;
    fail(Errc::connection_lost, greeting ? "the server closed the connection in the TLS handshake: does it speak TLS on this port?"
                                         : "the server closed the connection");
  } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
    would_block = true;
  } else {
    fail(Errc::connection_lost, std::generic_category().message(errno));
  }
}

/// What the socket gave, decrypted where it is encrypted.
inline void Transport::take(std::string_view wire) {
  if (!secure_) return feed(wire);
  try {
    secure_->take(wire);
    if (!greeted_) return;  // the handshake's
    std::array<char, 4096> plain;
    while (auto const count = secure_->read(plain)) feed({plain.data(), count});
    secure_->drain(wire_);
  } catch (Error const& error) {
    bool const asked = asked_;
    close();
    throw asked ? Error{error}.unanswered() : error;
  }
}

inline void Transport::feed(std::string_view bytes) {
  // More than any lock ever answers: a peer that is no Redis must neither fill our memory nor make hiredis ask for it.
  fed_ += bytes.size();
  if (fed_ > longest_reply_ || announces_too_much(bytes)) fail(Errc::connection_lost, "protocol error: endless reply");
  if (::redisReaderFeed(context_->reader, bytes.data(), bytes.size()) != REDIS_OK)
    fail(Errc::connection_lost, std::string{"protocol error: "} + context_->reader->errstr);
}

/// A line that begins an aggregate of a million elements or more, also across two reads.
inline bool Transport::announces_too_much(std::string_view bytes) noexcept {
  for (char const c : bytes) {
    if (c == '\n')
      header_digits_ = 0;
    else if (header_digits_ == 0 && (c == '*' || c == '%' || c == '~' || c == '>'))
      header_digits_ = 1;
    else if (header_digits_ > 0 && c >= '0' && c <= '9')
      ++header_digits_;
    else
      header_digits_ = -1;
    if (header_digits_ > 7) return true;
  }
  return false;
}

inline bool Transport::wait_for(short events, TimePoint deadline, Wake* interrupt) {
  for (;;) {
    switch (await_descriptor(context_->fd, events, deadline, interrupt)) {
      case Awaited::ready: return true;
      case Awaited::interrupted: return false;
      case Awaited::timed_out: fail(Errc::timeout, "no answer within the time allowed");
    }
  }
}

/// A reply that has arrived whole, if there is one.
inline std::optional<Reply> Transport::parsed() {
  void* reply = nullptr;
  if (::redisReaderGetReply(context_->reader, &reply) != REDIS_OK)
    fail(Errc::connection_lost, std::string{"protocol error: "} + context_->reader->errstr);
  if (reply == nullptr) return std::nullopt;
  fed_ = 0;
  return Reply{reply};
}

inline bool Transport::silent() const noexcept {
  if (closed()) return false;
  char byte;
  auto const got = ::recv(context_->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

inline void Transport::close() noexcept {
  if (!context_) return;
  // shutdown, not close alone: a forked child may hold the descriptor too, and the server must see us go all the same.
  ::shutdown(context_->fd, SHUT_RDWR);
  ledger_->leave(entry_);
  context_.reset();
  secure_.reset();
  out_.clear();
  wire_.clear();
  written_ = 0;
}

inline void Transport::fail(Errc errc, std::string const& what) {
  if (errc == Errc::timeout)
    spent_ = true;
  else
    close();
  Error error{errc, endpoint_ + ": " + what};
  throw asked_ ? std::move(error).unanswered() : error;
}

}  // namespace mortise::inline v1::detail
