// SPDX-License-Identifier: MIT
// What became of a call: the error it threw, and how long it took.
#pragma once

#include <chrono>
#include <optional>
#include <system_error>

#include <mortise/error.hpp>
#include <mortise/time.hpp>

namespace support {

/// The mortise::Error that `call` throws, if it throws one.
template <class Call>
std::optional<mortise::Error> error_of(Call&& call) {
  try {
    static_cast<void>(call());
  } catch (mortise::Error const& error) {
    return error;
  }
  return std::nullopt;
}

/// Its code.
template <class Call>
std::optional<mortise::Errc> errc_of(Call&& call) {
  auto const error = error_of(call);
  return error ? std::optional{error->errc()} : std::nullopt;
}

/// Whether `call` throws what standard mutexes throw to a thread that would wait for itself.
template <class Call>
bool refused_as_deadlock(Call&& call) {
  try {
    static_cast<void>(call());
  } catch (std::system_error const& error) {
    return error.code() == std::errc::resource_deadlock_would_occur;
  }
  return false;
}

/// How long `call` takes, on the clock that counts suspension.
template <class Call>
mortise::nanoseconds time_of(Call&& call) {
  auto const began = mortise::Clock::now();
  static_cast<void>(call());
  return mortise::Clock::now() - began;
}

}  // namespace support
