// SPDX-License-Identifier: MIT
// `mortise run`: a command under a lock.
#pragma once

#include <algorithm>
#include <exception>
#include <future>
#include <iostream>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include <poll.h>

#include <mortise/client.hpp>
#include <mortise/detail/printable.hpp>
#include <mortise/lock.hpp>

#include "arguments.hpp"
#include "child.hpp"
#include "connect.hpp"
#include "exit_code.hpp"
#include "signals.hpp"

namespace command {

/// Sleeps until the bell rings, or for `longest`.
inline void await(mortise::detail::Wake& bell, mortise::TimePoint until = mortise::detail::never) {
  pollfd watched{bell.descriptor(), POLLIN, 0};
  ::poll(&watched, 1, mortise::detail::poll_timeout(until, mortise::Clock::now()));
  bell.silence();
}

/// Gets the lock in a thread, so that a signal can end the wait. Returns the lease, or the exit code in its place.
inline std::variant<mortise::Lease, int> take(Arguments const& arguments, Signals& signals) {
  bool const for_ever = arguments.wait == milliseconds::max();
  auto options = client_options(arguments);
  if (!for_ever) options.retry_for = std::max(options.retry_for, arguments.wait);
  mortise::Client client{arguments.redis, options};
  mortise::Lock lock{client, arguments.name, {.ttl = arguments.ttl}};

  std::stop_source cancel;
  std::promise<std::optional<mortise::Lease>> promise;
  auto outcome = promise.get_future();
  auto const deadline = for_ever ? mortise::detail::never : mortise::detail::after(mortise::Clock::now(), arguments.wait);
  std::optional<Signals::Caught> ending;

  signals.hold();
  std::jthread waiting{[&] {
    try {
      promise.set_value(arguments.wait > milliseconds::zero() ? lock.acquire(cancel.get_token()) : lock.try_acquire());
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
    signals.wake().ring();
  }};
  signals.resume();
  while (outcome.wait_for(milliseconds::zero()) != std::future_status::ready) {
    if (!ending) ending = signals.take();
    bool const over = ending || (arguments.wait > milliseconds::zero() && mortise::Clock::now() >= deadline);
    if (over) cancel.request_stop();
    await(signals.wake(), over || arguments.wait == milliseconds::zero() ? mortise::detail::never : deadline);
  }
  waiting.join();

  if (!ending) ending = signals.take();
  if (ending) return ExitCode::of_signal(ending->number);
  auto lease = outcome.get();
  if (!lease && cancel.stop_requested()) lease = lock.try_acquire();  // a wait that was cut short does not tell busy from unreachable
  if (!lease) return ExitCode::busy;
  return std::move(*lease);
}

/// Waits until the child has ended: its exit code, or nothing when the lease ended first.
inline std::optional<int> accompany(Child& child, mortise::Lease const& lease, Signals& signals, milliseconds grace) {
  using namespace std::chrono_literals;
  std::stop_callback const on_loss{lease.lost(), [&] { signals.wake().ring(); }};
  std::optional<mortise::TimePoint> kill_at;  // from the loss on
  bool killed = false;
  for (;;) {
    while (auto const caught = signals.take())
      if (!caught->typed || !child.shares_terminal()) child.signal(caught->number);
    auto const code = child.ended();
    if (code && !kill_at) return code;
    if (kill_at && (!child.anything_left() || (killed && code))) return std::nullopt;

    auto const now = mortise::Clock::now();
    if (!kill_at && !lease.held()) {
      child.adopt_orphans();
      child.signal(SIGTERM);
      child.signal(SIGCONT);  // a stopped process would not see it
      kill_at = mortise::detail::after(now, grace);
      std::cerr << "mortise: lost the lock " << mortise::detail::printable(lease.name())
                << ": the command gets SIGTERM, and SIGKILL " << mortise::detail::text(grace) << " later\n";
    }
    if (kill_at && now >= *kill_at && !killed) {
      child.signal(SIGKILL);
      killed = true;
    }
    // Not everything that our child left behind tells us of its end: its group is looked at now and then.
    auto next = kill_at && !killed ? *kill_at : mortise::detail::never;
    if (kill_at && code) next = std::min(next, now + 20ms);
    await(signals.wake(), next);
  }
}

/// Gives the lock back; ExitCode::lost in place of `code` if it was ours no more.
inline int give_back(mortise::Lease& lease, int code) {
  auto const name = mortise::detail::printable(lease.name());
  try {
    if (lease.release()) return code;
    std::cerr << "mortise: lost the lock " << name << " before the command ended (with exit code " << code << ")\n";
    return ExitCode::lost;
  } catch (mortise::Error const& error) {
    std::cerr << "mortise: the command ended, but " << name << " could not be released and stands until its TTL ends: " << error.what()
              << '\n';
    return code;
  }
}

inline int run(Arguments const& arguments) {
  Signals signals;
  auto taken = take(arguments, signals);
  if (auto const* const code = std::get_if<int>(&taken)) {
    if (*code == ExitCode::busy)
      std::cerr << "mortise: " << mortise::detail::printable(arguments.name) << " is held by somebody else\n";
    return *code;
  }
  auto& lease = std::get<mortise::Lease>(taken);
  Child child{arguments.command,
              {"MORTISE_NAME=" + arguments.name, "MORTISE_FENCE=" + std::to_string(lease.fence().value)},
              signals};
  if (auto const error = child.exec_error(); error != 0) {
    auto const code = child.end();
    std::cerr << "mortise: cannot run " << mortise::detail::printable(arguments.command.front()) << ": "
              << std::generic_category().message(error) << '\n';
    return give_back(lease, code);
  }
  auto const code = accompany(child, lease, signals, arguments.grace);
  return code ? give_back(lease, *code) : ExitCode::lost;
}

}  // namespace command
