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
};

/// A connection whose set-up is done. hiredis formats nothing and blocks nowhere here: it parses, and in later versions
/// carries TLS. Any I/O or protocol error closes the connection, and a timeout leaves nothing to do with it but
/// send_and_close(): a late reply can never answer the next question.
///
/// Used by one thread at a time. Requests are gathered by append(), leave with send(), and are answered in order by
/// receive().
class Connection {
 public:
  /// Connects, logs in, selects the database and sets the name, all by `deadline`.
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

  /// The Error an error reply means; its text is remembered for take_refusal().
  Error refusal(std::string_view text) {
    refusal_ = text;
    return server_error(text, endpoint_);
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

  Connection(Address const& address, SocketLedger& ledger) : endpoint_{address.text()}, ledger_{&ledger} {}

  void log_in(Login const& login, TimePoint deadline, Wake* interrupt);
  bool write_some();
  bool wait_for(short events, TimePoint deadline, Wake* interrupt);
  void fill(bool& would_block);
  bool announces_too_much(std::string_view bytes) noexcept;
  std::optional<Reply> parsed();
  [[noreturn]] void fail(Errc errc, std::string const& what);

  std::string endpoint_;
  SocketLedger* ledger_;
  SocketLedger::Entry entry_{};
  std::unique_ptr<redisContext, Free> context_{};
  std::string out_{};
  std::size_t written_{0};  // of out_
  std::size_t fed_{0};      // bytes since the last whole reply
  int header_digits_{0};    // in a line that may announce an aggregate; -1: in any other line
  std::size_t unread_{0};   // replies still to come
  bool asked_{false};       // some of what awaits a reply has left
  bool spent_{false};       // timed out: whatever still arrives is nobody's
  bool asking_{false};      // each command has an ASKING of its own in front, whose reply nobody wants
  std::size_t longest_reply_{usual_reply};
  std::string refusal_{};
};

// --- below: bodies

inline Connection::Connection(Address const& address, Login const& login, SocketLedger& ledger, TimePoint deadline,
                              Wake* interrupt)
    : Connection{address, ledger} {  // delegating: from here on the destructor runs, whatever throws
  auto socket = dial(address, deadline, interrupt);
  context_.reset(::redisConnectFd(socket.get()));
  if (!context_) throw std::bad_alloc{};
  context_->flags &= ~REDIS_BLOCK;
  entry_ = ledger_->enter(socket.release());
  try {
    log_in(login, deadline, interrupt);
  } catch (Error const& error) {  // no lock command has been sent yet: nothing is in doubt
    close();
    if (error.errc() == Errc::timeout || error.errc() == Errc::connection_lost) throw Error{Errc::connect_failed, error.what()};
    throw;
  }
}

inline Connection::Connection(std::string endpoint, Descriptor socket, SocketLedger& ledger)
    : endpoint_{std::move(endpoint)}, ledger_{&ledger}, context_{::redisConnectFd(socket.get())} {
  if (!context_) throw std::bad_alloc{};
  context_->flags &= ~REDIS_BLOCK;
  entry_ = ledger_->enter(socket.get());
  socket.release();
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
  auto error = server_error(reply.text(), endpoint_);
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
  while (written_ < out_.size()) {
    auto const count = ::send(context_->fd, out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
    if (count >= 0) {
      asked_ = true;
      written_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN) {  // the last: still connecting
      return false;
    } else if (errno != EINTR) {
      fail(Errc::connection_lost, std::generic_category().message(errno));
    }
  }
  out_.clear();
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
    // More than any lock ever answers: a peer that is no Redis must neither fill our memory nor make hiredis ask for it.
    fed_ += static_cast<std::size_t>(count);
    if (fed_ > longest_reply_ || announces_too_much({bytes.data(), static_cast<std::size_t>(count)}))
      fail(Errc::connection_lost, "protocol error: endless reply");
    if (::redisReaderFeed(context_->reader, bytes.data(), static_cast<std::size_t>(count)) != REDIS_OK)
      fail(Errc::connection_lost, std::string{"protocol error: "} + context_->reader->errstr);
  } else if (count == 0) {
    fail(Errc::connection_lost, "the server closed the connection");
  } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
    would_block = true;
  } else {
    fail(Errc::connection_lost, std::generic_category().message(errno));
  }
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
  out_.clear();
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
