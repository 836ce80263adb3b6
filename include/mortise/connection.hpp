// SPDX-License-Identifier: MIT
// One connection to one server: requests, and their replies in order.
#pragma once

#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>

#include <mortise/detail/server_error.hpp>
#include <mortise/detail/transport.hpp>

namespace mortise::inline v1::detail {

/// What every new connection says before anything else, so that no command ever runs in the wrong database or unnamed.
struct Login {
  std::string username{};
  std::string password{};
  int database{0};
  std::string client_name{};
  std::shared_ptr<SecureContext const> secure{};  ///< before anything is said: TLS
};

/// A connection whose set-up is done. Any I/O or protocol error closes it, and a timeout leaves nothing to do with it but
/// send_and_close(): a late reply can never answer the next question.
///
/// Used by one thread at a time. Requests are gathered by append(), leave with send(), and are answered in order by
/// receive().
class Connection : private Transport {
 public:
  /// Connects, encrypts, logs in, selects the database and sets the name, all by `deadline`.
  Connection(Address const& address, Login const& login, SocketLedger& ledger, TimePoint deadline, Wake* interrupt = nullptr);
  /// Over a socket that may still be connecting, and without a word said: for callers that never wait, with greet() first.
  Connection(std::string endpoint, Descriptor socket, SocketLedger& ledger);

  using Transport::close, Transport::closed, Transport::descriptor, Transport::endpoint, Transport::expect_up_to, Transport::unsent,
      Transport::usual_reply;
  /// Every reply that was asked for has been read.
  bool settled() const noexcept { return !closed() && unread_ == 0; }

  /// While set, the server is told ASKING before each command: it then serves what it is importing. Only when settled.
  void ask_each_time(bool asking) noexcept { asking_ = asking; }

  /// The Error an error reply means, to a request about `key`; its text is remembered for take_refusal().
  Error refusal(std::string_view text, std::string_view key = {}) {
    refusal_ = text;
    return server_error(text, endpoint(), {user_, key});
  }
  /// The last error reply that was thrown as an Error, once.
  std::string take_refusal() noexcept { return std::exchange(refusal_, {}); }

  /// Nothing unasked for has arrived and the peer has not hung up: asks the kernel, not the server.
  bool quiet() const noexcept { return settled() && silent(); }

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
  std::size_t unread() const noexcept { return unread_; }

  /// A message nobody asked for, if one is there. Throws if the connection broke.
  std::optional<Reply> push();

  /// Scripts are said in full: the server knows EVAL but not EVALSHA, or this user may not use it.
  bool scripts_in_full() const noexcept { return scripts_in_full_; }
  void say_scripts_in_full() noexcept { scripts_in_full_ = true; }

  /// The next reply; an error reply is thrown as what it means.
  Reply expect(TimePoint deadline);

  /// Writes what was gathered as far as the kernel takes it at once, and hangs up in an orderly way: the server still
  /// carries out what it receives.
  void send_and_close() noexcept;

 private:
  void log_in(Login const& login, TimePoint deadline, Wake* interrupt);

  std::string user_{};
  std::size_t unread_{0};  // replies still to come
  bool scripts_in_full_{false};
  bool asking_{false};     // each command has an ASKING of its own in front, whose reply nobody wants
  std::string refusal_{};
};

// --- below: bodies

inline Connection::Connection(Address const& address, Login const& login, SocketLedger& ledger, TimePoint deadline,
                              Wake* interrupt)
    : Transport{address.text(), ledger}, user_{login.username} {
  open(dial(address, deadline, interrupt));
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

inline Connection::Connection(std::string endpoint, Descriptor socket, SocketLedger& ledger) : Transport{std::move(endpoint), ledger} {
  open(std::move(socket));
  ready_ = true;
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
  auto error = server_error(reply.text(), endpoint(), {user_, {}});
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
  throw_if_closed();
  while (!write_some()) {
    if (wait_for(POLLOUT, deadline, interrupt)) continue;
    if (partly_written()) close();
    return false;
  }
  return true;
}

inline std::optional<Reply> Connection::receive(TimePoint deadline, Wake* interrupt) {
  throw_if_closed();
  bool look_first = unparsed();
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
  throw_if_closed();
  return write_some();
}

inline std::optional<Reply> Connection::try_receive() {
  auto reply = push();
  if (reply && --unread_ == 0) asked_ = false;
  return reply;
}

inline std::optional<Reply> Connection::push() {
  throw_if_closed();
  if (auto reply = parsed()) return reply;
  bool would_block = false;
  fill(would_block);
  return parsed();
}

inline Reply Connection::expect(TimePoint deadline) {
  auto reply = receive(deadline);
  if ((*reply)->is_error()) throw refusal((*reply)->text());
  return std::move(*reply);
}

inline void Connection::send_and_close() noexcept {
  try {
    if (descriptor() >= 0) write_some();
  } catch (...) {  // closed by then
  }
  close();
}

}  // namespace mortise::inline v1::detail
