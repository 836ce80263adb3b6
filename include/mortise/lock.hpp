// SPDX-License-Identifier: MIT
// The Lock: a mutex that lives in a backend, told by its name.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/client.hpp>
#include <mortise/gate.hpp>
#include <mortise/lease.hpp>
#include <mortise/taking.hpp>

namespace mortise::inline v1 {

/// An exclusive lock on a name. Shareable between threads like std::mutex; neither copied nor moved. It must not be used
/// after its backend's destruction has begun, but for what is inside a call then: that ends with Errc::closed.
///
/// Two faces: the acquire family returns a Lease; the lock family keeps it inside, so that std::lock_guard,
/// std::unique_lock and std::scoped_lock work. Such a guard cannot tell that the lease was lost: ask lease().held() or
/// lease().lost() inside.
///
/// On the wire: an uncontended acquire and its release are one round trip each. A wait is two round trips and no polling:
/// the release of the holder before hands the lock over, first come first served.
template <class B = Client>
class Lock {
 public:
  /// `name`: any bytes, 1 to 512, exactly the key in Redis. Sends nothing. Throws Errc::invalid_option.
  Lock(B& backend, std::string name, LockOptions options = {})
    requires Backend<B>
      : taking_{backend, detail::LockKeys{name}, std::move(options)},
        gate_{[](detail::Gate*) { return std::make_shared<detail::Gate>(); }} {}
  Lock(Lock const&) = delete;
  Lock& operator=(Lock const&) = delete;

  /// The key in Redis.
  std::string const& name() const noexcept { return taking_.name(); }

  /// One try, one round trip, within the command timeout. Nothing: somebody else holds it. Throws Error if nobody answers.
  [[nodiscard]] std::optional<Lease> try_acquire() { return taking_.once(); }
  /// Waits its turn for as long as the server answers. Throws Error when it is out of reach for ClientOptions::retry_for at
  /// a stretch, or refuses for good.
  [[nodiscard]] Lease acquire() { return taking_.in_turn(); }
  /// The same until `cancel` is requested: then nothing, and no trace at the server.
  [[nodiscard]] std::optional<Lease> acquire(std::stop_token cancel) { return taking_.in_turn(std::move(cancel)); }
  /// Waits its turn for at most `timeout`, 50 ms more at the outside; zero or less is one try. Nothing: it was not its turn
  /// by then. Throws Error if the server was out of reach or refused.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Lease> acquire_for(std::chrono::duration<Rep, Period> timeout) {
    return taking_.within(detail::to_milliseconds(timeout));
  }
  /// The same by a moment of any clock, looked at once, at the call.
  template <class C, class D>
  [[nodiscard]] std::optional<Lease> acquire_until(std::chrono::time_point<C, D> deadline) {
    return taking_.within(detail::time_left(deadline));
  }

  /// acquire(), with the lease kept inside. A second lock() by its holder throws
  /// std::system_error(resource_deadlock_would_occur).
  void lock() { locked(detail::never, [this] { return taking_.in_turn(); }); }
  /// try_acquire(), with the lease kept inside; false also while another thread is inside by this Lock.
  [[nodiscard]] bool try_lock() {
    auto const gate = gate_.get();
    return gate->try_enter() && keep(*gate, [this] { return try_acquire(); });
  }
  /// acquire_for(), with the lease kept inside.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> timeout) {
    return lock_within(detail::to_milliseconds(timeout));
  }
  /// acquire_until(), with the lease kept inside.
  template <class C, class D>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<C, D> deadline) {
    return lock_within(detail::time_left(deadline));
  }
  /// Releases; a failure goes to the observer, and the lease then ends by itself. Does nothing for a thread that does not
  /// hold the lock.
  void unlock() noexcept {
    auto const gate = gate_.get();
    if (!gate->entered()) return;
    gate->lease.reset();
    gate->leave();
  }

  /// The lease of the lock() in force. Throws Errc::not_held to a thread that does not hold the lock.
  Lease const& lease() const {
    auto const gate = gate_.get();
    if (!gate->entered()) throw Error{Errc::not_held, "this thread does not hold " + detail::printable(name())};
    return *gate->lease;
  }
  /// The fence of that lease. Throws as lease() does.
  Fence fence() const { return lease().fence(); }

 private:
  friend detail::Access;

  bool lock_within(milliseconds timeout) {
    if (timeout <= milliseconds::zero()) return try_lock();
    auto const deadline = detail::after(Clock::now(), timeout);
    // At the last moment, too, it stays a wait that ends at its deadline: a try would have the whole command timeout.
    return locked(deadline, [&] { return taking_.within(std::max(detail::remaining(deadline, Clock::now()), milliseconds{1})); });
  }

  template <class Acquire>
  bool locked(TimePoint deadline, Acquire&& acquire) {
    auto const gate = gate_.get();
    return gate->enter(deadline) && keep(*gate, acquire);
  }

  /// Inside the gate: stays there with a lease, and leaves it without.
  template <class Acquire>
  static bool keep(detail::Gate& gate, Acquire&& acquire) {
    try {
      gate.lease = acquire();
    } catch (...) {
      gate.leave();
      throw;
    }
    if (gate.lease) return true;
    gate.leave();
    return false;
  }

  detail::Taking taking_;
  mutable detail::PerProcess<detail::Gate> gate_;
};

template <class B>
Lock(B&, std::string, LockOptions) -> Lock<B>;
template <class B>
Lock(B&, std::string) -> Lock<B>;

}  // namespace mortise::inline v1
