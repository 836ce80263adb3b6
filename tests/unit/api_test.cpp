// SPDX-License-Identifier: MIT
// The public names, as programs outside the repository are written against them: signatures, return types, the order of
// members, what is noexcept, what may be copied or moved. Most of it is decided when this file compiles.
#include <mortise/mortise.hpp>

#include <compare>
#include <concepts>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"

using namespace std::chrono_literals;
using mortise::Client;
using mortise::ClientOptions;
using mortise::Errc;
using mortise::Error;
using mortise::Event;
using mortise::Fence;
using mortise::FenceGate;
using mortise::FencingCounter;
using mortise::Lease;
using mortise::Lock;
using mortise::LockOptions;
using mortise::RecursiveLock;
using mortise::Semaphore;
using mortise::SharedLock;
using std::chrono::milliseconds;

namespace {

/// A function has exactly this signature, noexcept included.
template <class Signature, class Function>
constexpr bool has_signature(Function) {
  return std::is_same_v<Signature, Function>;
}

/// Of several functions of one name, one has this signature (or does not compile).
template <class Signature>
constexpr bool has_overload(Signature) {
  return true;
}

template <class Type>
constexpr bool neither_copied_nor_moved = !std::is_copy_constructible_v<Type> && !std::is_copy_assignable_v<Type> &&
                                          !std::is_move_constructible_v<Type> && !std::is_move_assignable_v<Type>;

static_assert(std::is_same_v<mortise::milliseconds, milliseconds>);

// Fence
static_assert(std::is_aggregate_v<Fence> && std::is_trivially_copyable_v<Fence> && sizeof(Fence) == 8);
static_assert(std::is_same_v<decltype(Fence::value), std::uint64_t>);
static_assert(std::three_way_comparable<Fence, std::strong_ordering>);
static_assert(Fence{} == Fence{.value = 0} && Fence{1} < Fence{2});
static_assert(!std::is_convertible_v<std::uint64_t, Fence> && !std::is_convertible_v<Fence, std::uint64_t>);

// Errc, Error
static_assert(std::is_enum_v<Errc> && !std::is_convertible_v<Errc, int>);
constexpr Errc every_errc[]{Errc::invalid_option, Errc::connect_failed, Errc::auth_failed, Errc::timeout,
                            Errc::connection_lost, Errc::in_doubt, Errc::no_permission, Errc::server_refused,
                            Errc::wrong_type, Errc::no_quorum, Errc::not_held, Errc::closed};
static_assert(std::is_base_of_v<std::system_error, Error> && std::is_copy_constructible_v<Error>);
static_assert(has_signature<Errc (Error::*)() const noexcept>(&Error::errc));
static_assert(has_signature<bool (Error::*)() const noexcept>(&Error::retryable));
static_assert(has_signature<bool (Error::*)() const noexcept>(&Error::in_doubt));
static_assert(std::is_constructible_v<Error, std::error_code> && std::is_constructible_v<Error, std::error_code, char const*>);
static_assert(std::is_constructible_v<Error, std::error_code, std::string>);
static_assert(std::is_constructible_v<Error, int, std::error_category const&, std::string>);

// Event: kind, lock name, fence, duration, endpoint, reason
static_assert(std::is_aggregate_v<Event>);
static_assert(std::is_same_v<decltype(Event::name), std::string> && std::is_same_v<decltype(Event::fence), Fence>);

// ClientOptions
static_assert(std::is_aggregate_v<ClientOptions> && std::is_copy_constructible_v<ClientOptions>);
static_assert(std::is_same_v<decltype(ClientOptions::command_timeout), milliseconds>);
static_assert(std::is_same_v<decltype(ClientOptions::connect_timeout), milliseconds>);
static_assert(std::is_same_v<decltype(ClientOptions::retry_for), milliseconds>);
static_assert(std::is_same_v<decltype(ClientOptions::client_name), std::string>);
static_assert(std::is_same_v<decltype(ClientOptions::username), std::string>);
static_assert(std::is_same_v<decltype(ClientOptions::password), std::string>);
static_assert(std::is_same_v<decltype(ClientOptions::tls), std::shared_ptr<mortise::TlsOptions>>);
static_assert(std::is_same_v<decltype(ClientOptions::replicas), int>);
static_assert(std::is_same_v<decltype(ClientOptions::replicas_timeout), milliseconds>);
static_assert(std::is_same_v<decltype(ClientOptions::observer), std::function<void(Event const&)>>);

// Client
static_assert(std::is_constructible_v<Client, std::string_view> && std::is_constructible_v<Client, std::string_view, ClientOptions>);
static_assert(std::is_constructible_v<Client, char const*> && std::is_constructible_v<Client, std::string>);
static_assert(!std::is_convertible_v<std::string_view, Client> && !std::is_convertible_v<char const*, Client>);
static_assert(!std::is_default_constructible_v<Client> && std::is_nothrow_destructible_v<Client>);

// Lease
static_assert(!std::is_default_constructible_v<Lease> && std::is_nothrow_destructible_v<Lease>);
static_assert(!std::is_copy_constructible_v<Lease> && !std::is_copy_assignable_v<Lease>);
static_assert(std::is_nothrow_move_constructible_v<Lease> && std::is_nothrow_move_assignable_v<Lease>);
static_assert(has_signature<Fence (Lease::*)() const noexcept>(&Lease::fence));
static_assert(has_signature<std::string const& (Lease::*)() const noexcept>(&Lease::name));
static_assert(has_signature<bool (Lease::*)() const noexcept>(&Lease::held));
static_assert(has_signature<milliseconds (Lease::*)() const noexcept>(&Lease::remaining));
static_assert(has_signature<std::stop_token (Lease::*)() const noexcept>(&Lease::lost));
static_assert(has_signature<bool (Lease::*)()>(&Lease::confirm));
static_assert(has_overload<bool (Lease::*)()>(&Lease::extend));
static_assert(has_overload<bool (Lease::*)(milliseconds)>(&Lease::extend));
static_assert(has_signature<bool (Lease::*)()>(&Lease::release));

// LockOptions
static_assert(std::is_aggregate_v<LockOptions>);
static_assert(std::is_same_v<decltype(LockOptions::ttl), milliseconds> && std::is_same_v<decltype(LockOptions::renew), bool>);
static_assert(std::is_same_v<decltype(LockOptions::max_hold), std::optional<milliseconds>>);
static_assert(!std::is_convertible_v<std::chrono::microseconds, milliseconds>, "0.4 ms is rounded up by the caller, in plain sight");

// Lock
using L = Lock<Client>;
static_assert(std::is_same_v<Lock<>, L>, "a Client unless something else is named");
static_assert(neither_copied_nor_moved<L> && std::is_nothrow_destructible_v<L>);
static_assert(std::is_constructible_v<L, Client&, std::string> && std::is_constructible_v<L, Client&, std::string, LockOptions>);
static_assert(std::is_constructible_v<L, Client&, char const*> && !std::is_constructible_v<L, Client const&, std::string>);
static_assert(std::is_same_v<decltype(Lock{std::declval<Client&>(), "name"}), L>);
static_assert(std::is_same_v<decltype(Lock{std::declval<Client&>(), std::string{}, {.ttl = 10s}}), L>);
static_assert(has_signature<std::string const& (L::*)() const noexcept>(&L::name));
static_assert(has_signature<std::optional<Lease> (L::*)()>(&L::try_acquire));
static_assert(has_overload<Lease (L::*)()>(&L::acquire));
static_assert(has_overload<std::optional<Lease> (L::*)(std::stop_token)>(&L::acquire));
static_assert(has_signature<void (L::*)()>(&L::lock) && has_signature<bool (L::*)()>(&L::try_lock));
static_assert(has_signature<void (L::*)() noexcept>(&L::unlock));
static_assert(has_signature<Lease const& (L::*)() const>(&L::lease) && has_signature<Fence (L::*)() const>(&L::fence));

// … and its templates: first the representation and then the period, first the clock and then its duration
using Minutes = std::chrono::duration<double, std::ratio<60>>;
using Point = std::chrono::time_point<std::chrono::system_clock, milliseconds>;
static_assert(has_signature<std::optional<Lease> (L::*)(Minutes)>(&L::acquire_for<double, std::ratio<60>>));
static_assert(has_signature<std::optional<Lease> (L::*)(Point)>(&L::acquire_until<std::chrono::system_clock, milliseconds>));
static_assert(has_signature<bool (L::*)(Minutes)>(&L::try_lock_for<double, std::ratio<60>>));
static_assert(has_signature<bool (L::*)(Point)>(&L::try_lock_until<std::chrono::system_clock, milliseconds>));

// SharedLock
using S = SharedLock<Client>;
static_assert(std::is_same_v<SharedLock<>, S> && neither_copied_nor_moved<S>);
static_assert(std::is_same_v<decltype(SharedLock{std::declval<Client&>(), "name", {.ttl = 10s}}), S>);
static_assert(has_signature<std::optional<Lease> (S::*)()>(&S::try_acquire) && has_signature<std::optional<Lease> (S::*)()>(&S::try_acquire_shared));
static_assert(has_overload<Lease (S::*)()>(&S::acquire) && has_overload<Lease (S::*)()>(&S::acquire_shared));
static_assert(has_overload<std::optional<Lease> (S::*)(std::stop_token)>(&S::acquire_shared));
static_assert(has_signature<std::optional<Lease> (S::*)(Minutes)>(&S::acquire_for<double, std::ratio<60>>));
static_assert(has_signature<std::optional<Lease> (S::*)(Minutes)>(&S::acquire_shared_for<double, std::ratio<60>>));
static_assert(has_signature<std::optional<Lease> (S::*)(Point)>(&S::acquire_shared_until<std::chrono::system_clock, milliseconds>));
static_assert(has_signature<void (S::*)()>(&S::lock_shared) && has_signature<bool (S::*)()>(&S::try_lock_shared));
static_assert(has_signature<bool (S::*)(Minutes)>(&S::try_lock_shared_for<double, std::ratio<60>>));
static_assert(has_signature<bool (S::*)(Point)>(&S::try_lock_shared_until<std::chrono::system_clock, milliseconds>));
static_assert(has_signature<void (S::*)() noexcept>(&S::unlock) && has_signature<void (S::*)() noexcept>(&S::unlock_shared));

// Semaphore, RecursiveLock
static_assert(std::is_same_v<Semaphore<>, Semaphore<Client>> && neither_copied_nor_moved<Semaphore<>>);
static_assert(std::is_same_v<decltype(Semaphore{std::declval<Client&>(), "name", 3, {.ttl = 10s}}), Semaphore<Client>>);
static_assert(std::is_constructible_v<Semaphore<>, Client&, std::string, int> && !std::is_constructible_v<Semaphore<>, Client&, std::string>);
static_assert(has_signature<std::optional<Lease> (Semaphore<>::*)()>(&Semaphore<>::try_acquire));
static_assert(std::is_same_v<RecursiveLock<>, RecursiveLock<Client>> && neither_copied_nor_moved<RecursiveLock<>>);
static_assert(has_signature<void (RecursiveLock<>::*)()>(&RecursiveLock<>::lock) && has_signature<void (RecursiveLock<>::*)() noexcept>(&RecursiveLock<>::unlock));
static_assert(has_signature<Lease const& (RecursiveLock<>::*)() const>(&RecursiveLock<>::lease));

// FencingCounter, FenceGate, fenced_set
static_assert(std::is_constructible_v<FencingCounter, Client&, std::string>);
static_assert(has_signature<Fence (FencingCounter::*)()>(&FencingCounter::next));
static_assert(has_signature<std::optional<Fence> (FencingCounter::*)()>(&FencingCounter::last));
static_assert(std::is_default_constructible_v<FenceGate> && neither_copied_nor_moved<FenceGate>);
static_assert(has_signature<bool (FenceGate::*)(Fence) noexcept>(&FenceGate::admit));
static_assert(has_signature<Fence (FenceGate::*)() const noexcept>(&FenceGate::newest));
static_assert(has_signature<bool (*)(Client&, std::string_view, std::string_view, Fence)>(&mortise::fenced_set));

/// Code that does not know its backend.
template <class Backend>
std::optional<Fence> fence_of_one_turn(Backend& backend) {
  Lock<Backend> lock{backend, "turn"};
  auto lease = lock.try_acquire();
  return lease ? std::optional{lease->fence()} : std::nullopt;
}
static_assert(std::is_same_v<decltype(fence_of_one_turn(std::declval<Client&>())), std::optional<Fence>>);

}  // namespace

TEST_CASE("the options of a client are set by name, in the order of the sketch") {
  ClientOptions const options{.command_timeout = 2s, .connect_timeout = 3s, .retry_for = 4s, .client_name = "till", .username = "u",
                              .password = "p", .tls = nullptr, .replicas = 1, .replicas_timeout = 5ms, .observer = [](Event const&) {}};
  CHECK(options.replicas_timeout == 5ms);
  ClientOptions const defaults;
  CHECK(defaults.command_timeout == 1s);
  CHECK(defaults.connect_timeout == 1s);
  CHECK(defaults.retry_for == 10s);
  CHECK(defaults.replicas == 0);
  CHECK(defaults.replicas_timeout == 100ms);
  CHECK((defaults.client_name + defaults.username + defaults.password).empty());
  CHECK_FALSE(defaults.tls);
  CHECK_FALSE(defaults.observer);
}

TEST_CASE("the options of a lock are set by name, in the order of the sketch") {
  LockOptions const options{.ttl = 5s, .renew = false, .max_hold = 1h};
  CHECK(options.max_hold == 1h);
  LockOptions const defaults;
  CHECK(defaults.ttl == 10s);
  CHECK(defaults.renew);
  CHECK_FALSE(defaults.max_hold);
}

TEST_CASE("an event is read by the names of its parts") {
  Event const event{.kind = Event::Kind::granted, .name = "n", .fence = Fence{7}, .duration = 1ms, .endpoint = "h:1", .reason = "r"};
  CHECK(event.fence == Fence{7});
}

TEST_CASE("every error code makes an error that can be caught as a standard one") {
  for (auto const errc : every_errc) {
    try {
      throw Error{make_error_code(errc), "what"};
    } catch (std::system_error const& error) {
      CHECK(dynamic_cast<Error const&>(error).errc() == errc);
    }
  }
}

TEST_CASE("constructing a client, its locks and a counter asks no server") {
  Client client{"redis://127.0.0.1:1"};
  Lock const lock{client, "lock:invoice:42"};
  Lock const other{client, std::string{"other"}, {.ttl = 1s, .renew = false}};
  FencingCounter const counter{client, "counter"};
  CHECK(lock.name() == "lock:invoice:42");
  CHECK_THROWS_AS(lock.fence(), Error);
}
