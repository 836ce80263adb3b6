// SPDX-License-Identifier: MIT
// The SharedLock: many readers or one writer, in the order in which they came.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/client.hpp>
#include <mortise/lease.hpp>
#include <mortise/shared_gate.hpp>
#include <mortise/taking.hpp>

namespace mortise::inline v1 {

/// A name held by one writer alone or by any number of readers, each with a lease of its own: a dead reader is out one TTL
/// after its death, whatever others do. Shareable between threads like std::shared_mutex; neither copied nor moved.
///
/// The order is that of arrival, over all clients: nobody passes whoever waits, not even a reader other readers, and readers
/// that stand behind each other enter together. So neither side starves: a writer waits for those inside and those before it.
/// A try is no exception: while somebody waits it finds the lock busy.
///
/// A writer's fence is above all earlier ones; a reader gets the fence of the last writer, the one of the state it may read.
/// A reader cannot become a writer: that would wait for itself (and two of them for each other). lock() by a thread that
/// holds the lock in any way throws; of leases, which may wander between threads, nobody can tell. A writer can go on as a
/// reader: downgrade().
///
/// Each waiting reader has a connection of its own, for readers enter together; of the waiting writers of one Client only
/// the first has. It needs one authority: over a Quorum it does not compile.
template <class B = Client>
class SharedLock {
  static_assert(!Backend<B> || detail::has_one_authority<B>,
                "mortise::SharedLock needs one authority: majorities of several nodes may let readers in beside a writer. Use Lock over a Quorum.");

 public:
  /// `name`: any bytes, 1 to 512, exactly the key in Redis. A Lock or a Semaphore cannot share it: whoever comes second is
  /// refused. Sends nothing. Throws Errc::invalid_option.
  SharedLock(B& backend, std::string name, LockOptions options = {})
    requires Backend<B>
      : writing_{backend, detail::LockKeys{name, detail::Hold::writer}, options},
        reading_{backend, detail::LockKeys{name, detail::Hold::reader}, options},
        gate_{[](detail::SharedGate*) { return std::make_shared<detail::SharedGate>(); }} {}
  SharedLock(SharedLock const&) = delete;
  SharedLock& operator=(SharedLock const&) = delete;

  /// The key in Redis.
  std::string const& name() const noexcept { return writing_.name(); }

  /// To write, as Lock::try_acquire() gets the lock.
  [[nodiscard]] std::optional<Lease> try_acquire() { return writing_.once(); }
  /// To write, as Lock::acquire() gets the lock.
  [[nodiscard]] Lease acquire() { return writing_.in_turn(); }
  /// The same until `cancel` is requested.
  [[nodiscard]] std::optional<Lease> acquire(std::stop_token cancel) { return writing_.in_turn(std::move(cancel)); }
  /// To write, as Lock::acquire_for() gets the lock.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Lease> acquire_for(std::chrono::duration<Rep, Period> timeout) {
    return writing_.within(detail::to_milliseconds(timeout));
  }
  /// To write, as Lock::acquire_until() gets the lock.
  template <class C, class D>
  [[nodiscard]] std::optional<Lease> acquire_until(std::chrono::time_point<C, D> deadline) {
    return writing_.within(detail::time_left(deadline));
  }

  /// To read, as Lock::try_acquire() gets the lock.
  [[nodiscard]] std::optional<Lease> try_acquire_shared() { return reading_.once(); }
  /// To read, as Lock::acquire() gets the lock.
  [[nodiscard]] Lease acquire_shared() { return reading_.in_turn(); }
  /// The same until `cancel` is requested.
  [[nodiscard]] std::optional<Lease> acquire_shared(std::stop_token cancel) { return reading_.in_turn(std::move(cancel)); }
  /// To read, as Lock::acquire_for() gets the lock.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Lease> acquire_shared_for(std::chrono::duration<Rep, Period> timeout) {
    return reading_.within(detail::to_milliseconds(timeout));
  }
  /// To read, as Lock::acquire_until() gets the lock.
  template <class C, class D>
  [[nodiscard]] std::optional<Lease> acquire_shared_until(std::chrono::time_point<C, D> deadline) {
    return reading_.within(detail::time_left(deadline));
  }

  /// The writer goes on as a reader, without a gap: no other writer was in between; readers that wait next come in. Same
  /// fence, same lost(), renewed as before. One round trip. Nothing: the lease had been lost. Throws Error if nobody answers,
  /// and Errc::invalid_option for what is no writer's lease of this lock; `lease` is then what it was, and the call may be
  /// repeated.
  [[nodiscard]] std::optional<Lease> downgrade(Lease&& lease) {
    check_writes(lease);
    if (!become_reader(lease)) {
      Lease const lost{std::move(lease)};
      return std::nullopt;
    }
    return std::move(lease);
  }
  /// The same for a guard: the calling thread's lock() becomes its lock_shared(). As with every guard, ask lease().held().
  [[nodiscard]] std::shared_lock<SharedLock> downgrade(std::unique_lock<SharedLock>&& guard) {
    if (guard.mutex() != this || !guard.owns_lock()) detail::invalid("downgrade of " + detail::printable(name()) + ": this guard does not hold it");
    unlock_and_lock_shared();
    guard.release();
    return std::shared_lock<SharedLock>{*this, std::adopt_lock};
  }
  /// The same without a guard. Throws Errc::not_held to a thread that does not hold the lock by lock(), and changes nothing.
  void unlock_and_lock_shared() {
    auto const gate = gate_.get();
    auto* const lease = gate->mine_alone();
    if (lease == nullptr) throw not_held();
    become_reader(*lease);
    gate->go_on_shared();
  }

  /// acquire(), with the lease kept inside. Throws std::system_error(resource_deadlock_would_occur) to a thread that holds the
  /// lock already, to write or to read.
  void lock() { enter(writing_, &detail::SharedGate::enter, detail::never); }
  /// try_acquire(), with the lease kept inside.
  [[nodiscard]] bool try_lock() { return try_enter(writing_, &detail::SharedGate::enter); }
  /// acquire_for(), with the lease kept inside. Throws as lock() does.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> timeout) {
    return enter(writing_, &detail::SharedGate::enter, by(detail::to_milliseconds(timeout)));
  }
  /// acquire_until(), with the lease kept inside. Throws as lock() does.
  template <class C, class D>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<C, D> deadline) {
    return enter(writing_, &detail::SharedGate::enter, by(detail::time_left(deadline)));
  }
  /// Releases; a failure goes to the observer, and the lease then ends by itself. Does nothing for a thread that does not
  /// hold the lock to write.
  void unlock() noexcept { gate_.get()->leave(); }

  /// acquire_shared(), with the lease kept inside, one for each thread. Throws as lock() does.
  void lock_shared() { enter(reading_, &detail::SharedGate::enter_shared, detail::never); }
  /// try_acquire_shared(), with the lease kept inside.
  [[nodiscard]] bool try_lock_shared() { return try_enter(reading_, &detail::SharedGate::enter_shared); }
  /// acquire_shared_for(), with the lease kept inside. Throws as lock() does.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> timeout) {
    return enter(reading_, &detail::SharedGate::enter_shared, by(detail::to_milliseconds(timeout)));
  }
  /// acquire_shared_until(), with the lease kept inside. Throws as lock() does.
  template <class C, class D>
  [[nodiscard]] bool try_lock_shared_until(std::chrono::time_point<C, D> deadline) {
    return enter(reading_, &detail::SharedGate::enter_shared, by(detail::time_left(deadline)));
  }
  /// Releases this thread's lease to read. Does nothing for a thread that has none.
  void unlock_shared() noexcept { gate_.get()->leave_shared(); }

  /// The calling thread's lease by lock() or lock_shared(). Throws Errc::not_held where there is none.
  Lease const& lease() const {
    if (auto const* const mine = gate_.get()->mine()) return *mine;
    throw not_held();
  }
  /// The fence of that lease. Throws as lease() does.
  Fence fence() const { return lease().fence(); }

 private:
  using Enter = bool (detail::SharedGate::*)(Lease, TimePoint);

  static TimePoint by(milliseconds timeout) noexcept { return detail::after(Clock::now(), std::max(timeout, milliseconds::zero())); }

  /// A timeout that is over already is a try, but a try by whoever is inside is refused like a wait.
  bool enter(detail::Taking const& taking, Enter way, TimePoint deadline) {
    auto const gate = gate_.get();
    gate->refuse_if_inside();
    auto const rest = detail::remaining(deadline, Clock::now());
    auto lease = deadline == detail::never ? std::optional{taking.in_turn()} : taking.within(rest);
    return lease && ((*gate).*way)(*std::move(lease), deadline);
  }
  bool try_enter(detail::Taking const& taking, Enter way) {
    auto const gate = gate_.get();
    if (gate->inside()) return false;
    auto lease = taking.once();
    return lease && ((*gate).*way)(*std::move(lease), TimePoint::min());
  }

  void check_writes(Lease const& lease) const {
    auto const& state = detail::Access::state(lease);
    if (!state || state->name() != name() || state->spec->keys.hold != detail::Hold::writer || state->downgraded.load())
      detail::invalid("downgrade of " + detail::printable(name()) + ": this lease does not hold it to write");
  }
  static bool become_reader(Lease const& lease) {
    auto const& state = detail::Access::state(lease);
    return lease.held() && state->core->downgrade(*state);
  }
  Error not_held() const { return Error{Errc::not_held, "this thread does not hold " + detail::printable(name())}; }

  detail::Taking writing_;
  detail::Taking reading_;
  mutable detail::PerProcess<detail::SharedGate> gate_;
};

template <class B>
SharedLock(B&, std::string, LockOptions) -> SharedLock<B>;
template <class B>
SharedLock(B&, std::string) -> SharedLock<B>;

}  // namespace mortise::inline v1
