// SPDX-License-Identifier: MIT
// The functions of the system that the library calls, as a simulated process sees them: the program's own definitions come
// before those of the C library. Outside of a simulated process they do what they always did.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "network.hpp"
#include "world.hpp"

namespace {

using simulation::Fiber;
using simulation::forever;
using simulation::Nanos;
using simulation::Network;
using simulation::World;

/// The world, if a simulated process is what calls.
World* world() noexcept {
  auto* const current = World::current();
  return current != nullptr && current->process() != nullptr ? current : nullptr;
}
Network& network() noexcept { return *Network::current(); }

/// What the C library has under this name.
template <class Function>
Function* real(char const* name) {
  auto* const found = ::dlsym(RTLD_NEXT, name);
  Function* function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}
#define REAL(name) (*[] { static auto* const function = real<decltype(::name)>(#name); return function; }())

int as_result(long value) noexcept {
  if (value >= 0) return static_cast<int>(value);
  errno = static_cast<int>(-value);
  return -1;
}

Nanos in_nanos(timespec const& time) noexcept { return Nanos{time.tv_sec} * simulation::second + time.tv_nsec; }

int poll_until(World& at, pollfd* polled, nfds_t count, Nanos until) {
  auto& fiber = *at.running();
  for (;;) {
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      polled[i].revents = polled[i].fd < 0 ? short{0} : network().ready(polled[i].fd, polled[i].events);
      if (polled[i].revents != 0) ++ready;
    }
    if (ready > 0 || at.now() >= until) return ready;
    for (nfds_t i = 0; i < count; ++i)
      if (polled[i].fd >= 0) network().watch(polled[i].fd, fiber);
    at.block(until);
    for (nfds_t i = 0; i < count; ++i)
      if (polled[i].fd >= 0) network().unwatch(polled[i].fd, fiber);
  }
}

/// A simulated mutex is a mark in the memory of the real one.
int& mark(pthread_mutex_t* mutex) noexcept { return *reinterpret_cast<int*>(mutex); }

void lock(World& at, pthread_mutex_t* mutex) {
  while (mark(mutex) != 0) {
    at.running()->waits_for = mutex;
    at.block(forever);
  }
  at.running()->waits_for = nullptr;
  mark(mutex) = 1;
}

void unlock(World& at, pthread_mutex_t* mutex) {
  mark(mutex) = 0;
  at.wake_all(mutex, 1);
}

int wait(World& at, pthread_cond_t* condition, pthread_mutex_t* mutex, Nanos until) {
  auto& fiber = *at.running();
  unlock(at, mutex);
  fiber.waits_for = condition;
  bool const woken = at.block(until);
  fiber.waits_for = nullptr;
  lock(at, mutex);
  return woken ? 0 : ETIMEDOUT;
}

pthread_t handle_of(Fiber& fiber) noexcept { return reinterpret_cast<pthread_t>(&fiber); }
Fiber& fiber_of(pthread_t handle) noexcept { return *reinterpret_cast<Fiber*>(handle); }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  auto* const at = world();
  if (at == nullptr) return REAL(clock_gettime)(clock, time);
  auto const& process = *at->process();
  constexpr Nanos some_day = 1'700'000'000 * simulation::second;
  auto const value = clock == CLOCK_REALTIME ? some_day + at->now() + process.wall_ahead : process.local(at->now());
  if (at->running() != nullptr) at->pass(25);
  *time = {value / simulation::second, value % simulation::second};
  return 0;
}

ssize_t getrandom(void* to, size_t size, unsigned flags) {
  auto* const at = world();
  if (at == nullptr) return REAL(getrandom)(to, size, flags);
  auto* bytes = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(at->random().next());
  return static_cast<ssize_t>(size);
}

pid_t getpid() noexcept {
  auto* const at = world();
  return at == nullptr ? REAL(getpid)() : 1000 + at->process()->id;
}

int poll(pollfd* polled, nfds_t count, int timeout) {
  auto* const at = world();
  if (at == nullptr) return REAL(poll)(polled, count, timeout);
  auto const& process = *at->process();
  auto const until = timeout < 0 ? forever : process.true_of(process.local(at->now()) + timeout * simulation::millisecond);
  return poll_until(*at, polled, count, until);
}

int ppoll(pollfd* polled, nfds_t count, timespec const* timeout, sigset_t const* signals) {
  auto* const at = world();
  if (at == nullptr) return REAL(ppoll)(polled, count, timeout, signals);
  auto const& process = *at->process();
  auto const until = timeout == nullptr ? forever : process.true_of(process.local(at->now()) + in_nanos(*timeout));
  return poll_until(*at, polled, count, until);
}

int socket(int family, int type, int protocol) noexcept {
  return world() == nullptr ? REAL(socket)(family, type, protocol) : network().open_socket();
}

int connect(int descriptor, sockaddr const* address, socklen_t size) {
  if (!Network::owns(descriptor)) return REAL(connect)(descriptor, address, size);
  sockaddr_un to{};
  std::memcpy(&to, address, std::min(sizeof to, static_cast<std::size_t>(size)));
  return as_result(network().connect(descriptor, to.sun_path));
}

ssize_t send(int descriptor, void const* bytes, size_t size, int flags) {
  if (!Network::owns(descriptor)) return REAL(send)(descriptor, bytes, size, flags);
  return as_result(network().send(descriptor, {static_cast<char const*>(bytes), size}));
}

ssize_t recv(int descriptor, void* to, size_t size, int flags) {
  if (!Network::owns(descriptor)) return REAL(recv)(descriptor, to, size, flags);
  return as_result(network().receive(descriptor, static_cast<char*>(to), size, (flags & MSG_PEEK) != 0));
}

ssize_t read(int descriptor, void* to, size_t size) {
  if (!Network::owns(descriptor)) return REAL(read)(descriptor, to, size);
  return as_result(network().read(descriptor));
}

int close(int descriptor) {
  return Network::owns(descriptor) ? as_result(network().close(descriptor)) : REAL(close)(descriptor);
}

int shutdown(int descriptor, int how) noexcept {
  if (!Network::owns(descriptor)) return REAL(shutdown)(descriptor, how);
  network().shut_down(descriptor);
  return 0;
}

int getsockopt(int descriptor, int level, int name, void* value, socklen_t* size) noexcept {
  if (!Network::owns(descriptor)) return REAL(getsockopt)(descriptor, level, name, value, size);
  int const error = network().take_error(descriptor);
  std::memcpy(value, &error, sizeof error);
  return 0;
}

int setsockopt(int descriptor, int level, int name, void const* value, socklen_t size) noexcept {
  return Network::owns(descriptor) ? 0 : REAL(setsockopt)(descriptor, level, name, value, size);
}

int fstat(int descriptor, struct stat* about) noexcept {
  if (!Network::owns(descriptor)) return REAL(fstat)(descriptor, about);
  *about = {};
  about->st_mode = network().is_socket(descriptor) ? S_IFSOCK : S_IFREG;
  about->st_ino = static_cast<ino_t>(descriptor);
  return 0;
}

int eventfd(unsigned value, int flags) noexcept { return world() == nullptr ? REAL(eventfd)(value, flags) : network().open_event(); }

int eventfd_write(int descriptor, eventfd_t value) {
  if (!Network::owns(descriptor)) return REAL(eventfd_write)(descriptor, value);
  network().ring(descriptor);
  return 0;
}

int timerfd_create(clockid_t clock, int flags) noexcept {
  return world() == nullptr ? REAL(timerfd_create)(clock, flags) : network().open_timer();
}

int timerfd_settime(int descriptor, int flags, itimerspec const* to, itimerspec* before) noexcept {
  if (!Network::owns(descriptor)) return REAL(timerfd_settime)(descriptor, flags, to, before);
  auto const local = in_nanos(to->it_value);
  auto* const at = World::current();
  network().set_timer(descriptor, local == 0 ? 0 : std::max<Nanos>(at->process()->true_of(local), 1));
  return 0;
}

pthread_t pthread_self() noexcept {
  auto* const at = World::current();
  return at == nullptr || at->running() == nullptr ? REAL(pthread_self)() : handle_of(*at->running());
}

int pthread_create(pthread_t* thread, pthread_attr_t const* attributes, void* (*body)(void*), void* argument) {
  auto* const at = world();
  if (at == nullptr) return REAL(pthread_create)(thread, attributes, body, argument);
  *thread = handle_of(at->spawn(*at->process(), [body, argument] { body(argument); }));
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  auto* const at = world();
  if (at == nullptr) return REAL(pthread_join)(thread, result);
  auto& fiber = fiber_of(thread);
  while (fiber.state != Fiber::State::finished) {
    at->running()->waits_for = &fiber;
    at->block(forever);
  }
  at->running()->waits_for = nullptr;
  return 0;
}

int pthread_detach(pthread_t thread) noexcept { return world() == nullptr ? REAL(pthread_detach)(thread) : 0; }

int pthread_setname_np(pthread_t thread, char const* name) noexcept {
  return world() == nullptr ? REAL(pthread_setname_np)(thread, name) : 0;
}

int pthread_sigmask(int how, sigset_t const* set, sigset_t* before) noexcept {
  return world() == nullptr ? REAL(pthread_sigmask)(how, set, before) : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  auto* const at = world();
  if (at == nullptr || at->running() == nullptr) return REAL(pthread_mutex_lock)(mutex);
  lock(*at, mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  auto* const at = world();
  if (at == nullptr || at->running() == nullptr) return REAL(pthread_mutex_trylock)(mutex);
  if (mark(mutex) != 0) return EBUSY;
  mark(mutex) = 1;
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  auto* const at = world();
  if (at == nullptr || at->running() == nullptr) return REAL(pthread_mutex_unlock)(mutex);
  unlock(*at, mutex);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  auto* const at = world();
  return at == nullptr ? REAL(pthread_cond_wait)(condition, mutex) : wait(*at, condition, mutex, forever);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, timespec const* until) {
  auto* const at = world();
  if (at == nullptr) return REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return wait(*at, condition, mutex, at->process()->true_of(in_nanos(*until)));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  auto* const at = world();
  if (at == nullptr) return REAL(pthread_cond_signal)(condition);
  at->wake_all(condition, 1);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  auto* const at = world();
  if (at == nullptr) return REAL(pthread_cond_broadcast)(condition);
  at->wake_all(condition, static_cast<std::size_t>(-1));
  return 0;
}

int pthread_cond_destroy(pthread_cond_t* condition) noexcept { return world() == nullptr ? REAL(pthread_cond_destroy)(condition) : 0; }

}  // extern "C"
