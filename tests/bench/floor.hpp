// SPDX-License-Identifier: MIT
// The floor: hiredis as it comes, blocking, and the library's scripts through it, so that what the server costs and what
// the library costs can be told apart.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <hiredis/hiredis.h>

#include <mortise/wire.hpp>

namespace bench {

inline constexpr std::chrono::milliseconds ttl{10'000};

/// Where the server of this run listens.
struct Endpoint {
  std::string host{};
  int port{0};
  std::string path{};  // of a unix socket; then neither host nor port
  std::string uri() const { return path.empty() ? "redis://" + host + ':' + std::to_string(port) : "unix://" + path; }
};

/// A blocking connection; an error of any kind is thrown.
class Raw {
 public:
  explicit Raw(Endpoint const& endpoint);
  void append(std::initializer_list<std::string_view> arguments);
  /// Writes what was appended.
  void flush();
  mortise::detail::Reply receive();
  mortise::detail::Reply command(std::initializer_list<std::string_view> arguments) {
    append(arguments);
    return receive();
  }

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept { ::redisFree(context); }
  };
  std::unique_ptr<redisContext, Free> context_;
};

/// The lock everybody writes first: SET NX PX, and a guarded delete.
class NaiveLock {
 public:
  NaiveLock(Endpoint const& endpoint, std::string name);
  bool acquire();
  bool release();

 private:
  Raw raw_;
  std::string name_;
  std::string sha_;
};

/// The library's own scripts, without the library.
class ScriptedLock {
 public:
  ScriptedLock(Endpoint const& endpoint, std::string const& name, std::string token);

  /// One try. The fence, or 0.
  std::uint64_t try_acquire() { return acquire(0, ""); }
  /// Waits: the claim by the popped fence, one round trip after the pop.
  std::uint64_t acquire_in_two_hops();
  /// Waits: the claim in one write with the pop.
  std::uint64_t acquire_in_one_hop();
  bool release();

 private:
  std::uint64_t acquire(std::int64_t wait, std::string_view popped);
  void append_acquire(std::chrono::milliseconds lease, std::int64_t wait, std::string_view popped);

  Raw raw_;
  mortise::detail::LockKeys keys_;
  std::string token_;
};

}  // namespace bench
