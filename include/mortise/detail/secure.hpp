// SPDX-License-Identifier: MIT
// What a Connection knows of encryption: a machine that turns bytes into other bytes and does no I/O of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <mortise/detail/dial.hpp>

namespace mortise::inline v1 {

struct TlsOptions;

namespace detail {

/// The encryption of one connection. Whatever it cannot accept it throws as an Error that names the server; the connection
/// is then over.
class SecureSession {
 public:
  virtual ~SecureSession() = default;

  /// Goes on with the handshake as far as the bytes allow; true when it is done.
  virtual bool shake_hands() = 0;

  /// Takes bytes from the socket.
  virtual void take(std::string_view wire) = 0;
  /// What they say, piece by piece; 0 when more has to arrive. Throws Errc::connection_lost at the peer's farewell.
  virtual std::size_t read(std::span<char> plain) = 0;

  /// Takes what is to be said.
  virtual void write(std::string_view plain) = 0;
  /// Adds what has to go into the socket to `wire`.
  virtual void drain(std::string& wire) = 0;
};

/// Where sessions come from; shared by all connections of a core.
class SecureContext {
 public:
  virtual ~SecureContext() = default;
  virtual std::unique_ptr<SecureSession> session(Address const& server) const = 0;
  /// The same anew, for a forked child: in this one a thread of the parent may hold a lock.
  virtual std::shared_ptr<SecureContext const> anew() const = 0;
};

/// The first member of TlsOptions, by which code that does not know that type finds the way into <mortise/tls.hpp>: what a
/// Client is does not depend on whether a file includes that header.
struct SecureHook {
  std::shared_ptr<SecureContext const> (*make)(TlsOptions const&);
};

/// The context that these options ask for. Throws Errc::invalid_option. Reads the files the options name.
inline std::shared_ptr<SecureContext const> make_secure(TlsOptions const& options) {
  // An object of standard layout and its first member have one address; <mortise/tls.hpp> asserts that it is one.
  return static_cast<SecureHook const*>(static_cast<void const*>(&options))->make(options);
}

}  // namespace detail
}  // namespace mortise::inline v1
