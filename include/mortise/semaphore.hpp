// SPDX-License-Identifier: MIT
// The Semaphore: at most so many hold a name at once.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/client.hpp>
#include <mortise/lease.hpp>
#include <mortise/taking.hpp>

namespace mortise::inline v1 {

/// So many permits, each a lease of its own by the server's clock: what a dead holder had is back after one TTL, and a late
/// or second release changes nothing. First come, first served over all clients; while somebody waits, a try is busy.
/// Every permit has a fence above all earlier ones. Shareable between threads; neither copied nor moved.
///
/// All who use a name must agree on the number of permits, for as long as any is out: who does not is refused by
/// Errc::server_refused, which names both numbers.
///
/// Of the threads of one Client that wait, the first waits at the server and the others behind it, so a Client counts as one
/// in the line. It needs one authority: over a Quorum it does not compile.
template <class B = Client>
class Semaphore {
  static_assert(!Backend<B> || detail::has_one_authority<B>,
                "mortise::Semaphore needs one authority: majorities of different nodes overlap, so that too many get in. Use Lock over a Quorum.");

 public:
  /// `permits`: 1 to 2^31 - 1. Sends nothing. Throws Errc::invalid_option.
  Semaphore(B& backend, std::string name, int permits, LockOptions options = {})
    requires Backend<B>
      : taking_{backend, detail::LockKeys{name, detail::Hold::permit, checked(permits)}, std::move(options)} {}
  Semaphore(Semaphore const&) = delete;
  Semaphore& operator=(Semaphore const&) = delete;

  /// The key in Redis.
  std::string const& name() const noexcept { return taking_.name(); }
  /// How many may be out at a time.
  int permits() const noexcept { return taking_.spec()->keys.permits; }

  /// One permit, as Lock::try_acquire() gets the lock.
  [[nodiscard]] std::optional<Lease> try_acquire() { return taking_.once(); }
  /// One permit, as Lock::acquire() gets the lock.
  [[nodiscard]] Lease acquire() { return taking_.in_turn(); }
  /// The same until `cancel` is requested.
  [[nodiscard]] std::optional<Lease> acquire(std::stop_token cancel) { return taking_.in_turn(std::move(cancel)); }
  /// One permit, as Lock::acquire_for() gets the lock.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Lease> acquire_for(std::chrono::duration<Rep, Period> timeout) {
    return taking_.within(detail::to_milliseconds(timeout));
  }
  /// One permit, as Lock::acquire_until() gets the lock.
  template <class C, class D>
  [[nodiscard]] std::optional<Lease> acquire_until(std::chrono::time_point<C, D> deadline) {
    return taking_.within(detail::time_left(deadline));
  }

 private:
  static int checked(int permits) {
    if (permits <= 0) detail::invalid("permits is " + std::to_string(permits) + ": must be 1 to 2147483647");
    return permits;
  }

  detail::Taking taking_;
};

template <class B>
Semaphore(B&, std::string, int, LockOptions) -> Semaphore<B>;
template <class B>
Semaphore(B&, std::string, int) -> Semaphore<B>;

}  // namespace mortise::inline v1
