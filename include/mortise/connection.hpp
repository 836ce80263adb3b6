// SPDX-License-Identifier: MIT
// One connection to one server: non-blocking, with absolute deadlines, closed for good at the first fault.
#pragma once

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <initializer_list>
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
#include <mortise/detail/server_error.hpp>
#include <mortise/detail/wake.hpp>
#include <mortise/reply.hpp>
#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// What every new connection says before anything else, so that no command ever runs in the wrong database or unnamed.
struct Login {
  std::string username{};
  std::string password{};
  int database{0};
  std::string client_name{};
  std::shared_ptr<SecureContext const> secure{};  ///< before anything is said: TLS
};

/// A connection whose set-up is done. hiredis formats nothing and blocks nowhere here: it parses, and in later versions
/// carries TLS. Any I/O or protocol error closes the connection, and a timeout leaves nothing to do with it but
/// send_and_close(): a late reply can never answer the next question.
///
/// Used by one thread at a time. Requests are gathered by append(), leave with send(), and are answered in order by
/// receive().
class Connection {
 public:
  /// Connects, encrypts, logs in, selects the database and sets the name, all by `deadline`.
  Connection(Address const& address, Login const& login, SocketLedger& ledger, TimePoint deadline, Wake* interrupt = nullptr);
  /// Over a socket that may still be connecting, and without a word said: for callers that never wait, with greet() first.
  Connection(std::string endpoint, Descriptor socket, SocketLedger& ledger);
  Connection(Connection const&) = delete;
  Connection& operator=(Connection const&) = delete;
  ~Connection() { close(); }

  std::string const& endpoint() const noexcept { return endpoint_; }
  bool closed() const noexcept { return !context_ || spent_; }
  /// Every reply that was asked for has been read.
  bool settled() const noexcept { return !closed() && unread_ == 0; }

  /// While set, the server is told ASKING before each command: it then serves what it is importing. Only when settled.
  void ask_each_time(bool asking) noexcept { asking_ = asking; }

  /// The Error an error reply means, to a request about `key`; its text is remembered for take_refusal().
  Error refusal(std::string_view text, std::string_view key = {}) {
    refusal_ = text;
    return server_error(text, endpoint_, {user_, key});
  }
  /// The last error reply that was thrown as an Error, once.
  std::string take_refusal() noexcept { return std::exchange(refusal_, {}); }

  static constexpr std::size_t usual_reply{std::size_t{1} << 16};
  /// How long one reply may be from now on: no lock needs more than the usual.
  void expect_up_to(std::size_t bytes) noexcept { longest_reply_ = bytes; }

  /// Nothing unasked for has arrived and the peer has not hung up: asks the kernel, not the server.
  bool quiet() const noexcept;

  /// Gathers one command of so many arguments; begin() first, then each argument().
  void begin(std::size_t arguments);
  void argument(std::string_view bytes);
  void argument(std::int64_t number);
  void append(std::initializer_list<std::string_view> arguments);

  /// Writes what was gathered. Throws, closed, when not all of it was taken by `deadline`. False: `interrupt` rang first
  /// (closed as well if a part had left already).
  bool send(TimePoint deadline, Wake* interrupt = nullptr);

  /// The next reply, or nothing if `interrupt` rang first.
  std::optional<Reply> receive(TimePoint deadline, Wake* interrupt = nullptr);

  /// Gathers the log-in; returns how many replies it gets. Each of them goes to check_greeting(), with how many follow it.
  std::size_t greet(Login const& login);
  /// Throws, closed, if the server refused a part that matters.
  void check_greeting(ReplyView reply, std::size_t following);

  /// The same as send() and receive() for callers that poll by themselves: they do what can be done at once.
  /// False: something is left to be written.
  bool try_send();
  std::optional<Reply> try_receive();
  bool unsent() const noexcept { return written_ < out_.size(); }
  std::size_t unread() const noexcept { return unread_; }

  /// A message nobody asked for, if one is there. Throws if the connection broke.
  std::optional<Reply> push();

  int descriptor() const noexcept { return context_ ? context_->fd : -1; }

  /// Scripts are said in full: the server knows EVAL but not EVALSHA, or this user may not use it.
  bool scripts_in_full() const noexcept { return scripts_in_full_; }
  void say_scripts_in_full() noexcept { scripts_in_full_ = true; }

  /// The next reply; an error reply is thrown as what it means.
  Reply expect(TimePoint deadline);

  /// Writes what was gathered as far as the kernel takes it at once, and hangs up in an orderly way: the server still
  /// carries out what it receives.
  void send_and_close() noexcept;

  void close() noexcept;

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { ::redisFree(context); }
  };

  Connection(Address const& address, Login const& login, SocketLedger& ledger)
      : endpoint_{address.text()}, user_{login.username}, ledger_{&ledger} {}

  void encrypt(SecureContext const& secure, Address const& address, TimePoint deadline, Wake* interrupt);
  void tell_why() noexcept;
  void log_in(Login const& login, TimePoint deadline, Wake* interrupt);
  bool write_some();
  bool wait_for(short events, TimePoint deadline, Wake* interrupt);
  void fill(bool& would_block);
  void take(std::string_view wire);
  void feed(std::string_view bytes);
  bool announces_too_much(std::string_view bytes) noexcept;
  std::optional<Reply> parsed();
  [[noreturn]] void fail(Errc errc, std::string const& what);

  std::string endpoint_;
  std::string user_;
  SocketLedger* ledger_;
  SocketLedger::Entry entry_{};
  std::unique_ptr<redisContext, Free> context_{};
  std::unique_ptr<SecureSession> secure_{};
  std::string out_{};
  std::string wire_{};      // out_ encrypted, where it is
  std::size_t written_{0};  // of what leaves
  std::size_t fed_{0};      // bytes since the last whole reply
  int header_digits_{0};    // in a line that may announce an aggregate; -1: in any other line
  std::size_t unread_{0};   // replies still to come
  bool asked_{false};       // some of what awaits a reply has left
  bool greeted_{false};     // the TLS handshake is done
  bool ready_{false};       // the set-up is done: what leaves from here on may change something
  bool scripts_in_full_{false};
  bool spent_{false};       // timed out: whatever still arrives is nobody's
  bool asking_{false};      // each command has an ASKING of its own in front, whose reply nobody wants
  std::size_t longest_reply_{usual_reply};
  std::string refusal_{};
};

// --- below: bodies

inline Connection::Connection(Address const& address, Login const& login, SocketLedger& ledger, TimePoint deadline,
                              Wake* interrupt)
    : Connection{address, login, ledger} {  // delegating: from here on the destructor runs, whatever throws
  auto socket = dial(address, deadline, interrupt);
  context_.reset(::redisConnectFd(socket.get()));
  if (!context_) throw std::bad_alloc{};
  context_->flags &= ~REDIS_BLOCK;
  entry_ = ledger_->enter(socket.release());
  try {
    if (login.secure) encrypt(*login.secure, address, deadline, interrupt);
    log_in(login, deadline, interrupt);
    ready_ = true;
  } catch (Error const& error) {  // no lock command has been sent yet: nothing is in doubt
    close();
    bool const broke = error.errc() == Errc::connection_lost;
    auto const hint = broke && !login.secure && address.path.empty() ? " (a port that speaks TLS needs rediss://)" : "";
    if (broke || error.errc() == Errc::timeout) throw Error{Errc::connect_failed, error.what() + std::string{hint}};
    throw;
  }
}

inline Connection::Connection(std::string endpoint, Descriptor socket, SocketLedger& ledger)
    : endpoint_{std::move(endpoint)}, ledger_{&ledger}, context_{::redisConnectFd(socket.get())}, ready_{true} {
  if (!context_) throw std::bad_alloc{};
  context_->flags &= ~REDIS_BLOCK;
  entry_ = ledger_->enter(socket.get());
  socket.release();
}

inline void Connection::encrypt(SecureContext const& secure, Address const& address, TimePoint deadline, Wake* interrupt) {
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
inline void Connection::tell_why() noexcept {
  try {
    secure_->drain(wire_);
    write_some();
  } catch (...) {  // then not
  }
}

inline std::size_t Connection::greet(Login const& login) {
  std::size_t replies = 1;
  if (!login.username.empty() || !login.password.empty()) {
    ++replies;
    if (login.username.empty())
      append({"AUTH", login.password});
    else
      append({"AUTH", login.username, login.password});
  }
  if (login.database != 0) {
    ++replies;
    append({"SELECT", std::to_string(login.database)});
  }
  append({"CLIENT", "SETNAME", login.client_name});
  return replies;
}

inline void Connection::check_greeting(ReplyView reply, std::size_t following) {
  if (!reply.is_error()) return;
  auto error = server_error(reply.text(), endpoint_, {user_, {}});
  // The name is a courtesy: a server on which CLIENT is forbidden or renamed does without.
  if (following == 0 && (error.errc() == Errc::no_permission || reply.text().starts_with("ERR unknown"))) return;
  close();
  throw error;
}

inline void Connection::log_in(Login const& login, TimePoint deadline, Wake* interrupt) {
  auto replies = greet(login);
  auto const interrupted = [&] { fail(Errc::connect_failed, "interrupted while connecting"); };
  if (!send(deadline, interrupt)) interrupted();
  while (replies-- > 0) {
    auto const reply = receive(deadline, interrupt);
    if (!reply) interrupted();
    check_greeting(**reply, replies);
  }
}

inline bool Connection::quiet() const noexcept {
  if (!settled()) return false;
  char byte;
  auto const got = ::recv(context_->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

inline void Connection::begin(std::size_t arguments) {
  if (asking_) {
    out_ += "*1\r\n$6\r\nASKING\r\n";
    ++unread_;
  }
  char digits[24];
  auto const end = std::to_chars(digits, digits + sizeof digits, arguments).ptr;
  out_ += '*';
  out_.append(digits, end);
  out_ += "\r\n";
  ++unread_;
}

inline void Connection::argument(std::string_view bytes) {
  char digits[24];
  auto const end = std::to_chars(digits, digits + sizeof digits, bytes.size()).ptr;
  out_ += '$';
  out_.append(digits, end);
  out_ += "\r\n";
  out_ += bytes;
  out_ += "\r\n";
}

inline void Connection::argument(std::int64_t number) {
  char digits[24];
  auto const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  argument(std::string_view{digits, static_cast<std::size_t>(end - digits)});
}

inline void Connection::append(std::initializer_list<std::string_view> arguments) {
  begin(arguments.size());
  for (auto const bytes : arguments) argument(bytes);
}

inline bool Connection::send(TimePoint deadline, Wake* interrupt) {
  if (closed()) throw Error{Errc::connection_lost, endpoint_ + ": the connection is closed"};
  while (!write_some()) {
    if (wait_for(POLLOUT, deadline, interrupt)) continue;
    if (written_ != 0) close();
    return false;
  }
  return true;
}

/// Writes what the kernel takes at once; whether that was all.
inline bool Connection::write_some() {
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

inline std::optional<Reply> Connection::receive(TimePoint deadline, Wake* interrupt) {
  if (closed()) throw Error{Errc::connection_lost, endpoint_ + ": the connection is closed"};
  bool look_first = context_->reader->len > context_->reader->pos;
  for (;;) {
    if (look_first) {
      if (auto reply = parsed()) {
        bool const wanted = !asking_ || unread_ % 2 != 0;
        if (--unread_ == 0) asked_ = false;
        if (!wanted) continue;
        return reply;
      }
    }
    if (!wait_for(POLLIN, deadline, interrupt)) return std::nullopt;
    bool would_block = false;
    fill(would_block);
    look_first = !would_block;
  }
}

inline bool Connection::try_send() {
  if (closed()) throw Error{Errc::connection_lost, endpoint_ + ": the connection is closed"};
  return write_some();
}

inline std::optional<Reply> Connection::try_receive() {
  auto reply = push();
  if (reply && --unread_ == 0) asked_ = false;
  return reply;
}

inline std::optional<Reply> Connection::push() {
  if (closed()) throw Error{Errc::connection_lost, endpoint_ + ": the connection is closed"};
  if (auto reply = parsed()) return reply;
  bool would_block = false;
  fill(would_block);
  return parsed();
}

/// A reply that has arrived whole, if there is one.
inline std::optional<Reply> Connection::parsed() {
  void* reply = nullptr;
  if (::redisReaderGetReply(context_->reader, &reply) != REDIS_OK)
    fail(Errc::connection_lost, std::string{"protocol error: "} + context_->reader->errstr);
  if (reply == nullptr) return std::nullopt;
  fed_ = 0;
  return Reply{reply};
}

inline Reply Connection::expect(TimePoint deadline) {
  auto reply = receive(deadline);
  if ((*reply)->is_error()) throw refusal((*reply)->text());
  return std::move(*reply);
}

inline void Connection::fill(bool& would_block) {
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
inline void Connection::take(std::string_view wire) {
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

inline void Connection::feed(std::string_view bytes) {
  // More than any lock ever answers: a peer that is no Redis must neither fill our memory nor make hiredis ask for it.
  fed_ += bytes.size();
  if (fed_ > longest_reply_ || announces_too_much(bytes)) fail(Errc::connection_lost, "protocol error: endless reply");
  if (::redisReaderFeed(context_->reader, bytes.data(), bytes.size()) != REDIS_OK)
    fail(Errc::connection_lost, std::string{"protocol error: "} + context_->reader->errstr);
}

/// A line that begins an aggregate of a million elements or more, also across two reads.
inline bool Connection::announces_too_much(std::string_view bytes) noexcept {
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

inline bool Connection::wait_for(short events, TimePoint deadline, Wake* interrupt) {
  for (;;) {
    switch (await_descriptor(context_->fd, events, deadline, interrupt)) {
      case Awaited::ready: return true;
      case Awaited::interrupted: return false;
      case Awaited::timed_out: fail(Errc::timeout, "no answer within the time allowed");
    }
  }
}

inline void Connection::send_and_close() noexcept {
  try {
    if (context_) write_some();
  } catch (...) {  // closed by then
  }
  close();
}

inline void Connection::close() noexcept {
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

inline void Connection::fail(Errc errc, std::string const& what) {
  if (errc == Errc::timeout)
    spent_ = true;
  else
    close();
  Error error{errc, endpoint_ + ": " + what};
  throw asked_ ? std::move(error).unanswered() : error;
}

}  // namespace mortise::inline v1::detail
