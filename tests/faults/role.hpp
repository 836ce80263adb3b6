// SPDX-License-Identifier: MIT
// This test program started once more, to play another process: with an environment of its own, and nothing inherited.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include "support/processes.hpp"

namespace faults {

/// What this process was started to play; empty in the tests themselves.
inline std::string role() {
  auto const* const name = std::getenv("MORTISE_FAULTS_ROLE");
  return name == nullptr ? std::string{} : std::string{name};
}

/// What the test that started it says in an environment variable.
inline std::string told(std::string const& variable) {
  auto const* const value = std::getenv(variable.c_str());
  return value == nullptr ? std::string{} : std::string{value};
}

/// The hidden test case "[.role]" that begins by asking for `role`, in a process of its own.
inline support::Program playing(std::string const& role, support::Environment environment) {
  environment.emplace_back("MORTISE_FAULTS_ROLE", role);
  // A preloaded library comes before the sanitizer's own, which would refuse to run.
  auto const options = told("ASAN_OPTIONS");
  environment.emplace_back("ASAN_OPTIONS", options + (options.empty() ? "" : ":") + "verify_asan_link_order=0");
  return {.path = "/proc/self/exe", .arguments = {"[.role]"}, .environment = std::move(environment)};
}

/// Says a line to the test that started this process.
inline void say(std::string const& line) { std::cout << "> " << line << std::endl; }

/// The next line that the process says, whatever else the test program prints.
inline std::string said_by(support::ChildProcess& process) {
  for (;;) {
    auto const line = process.read_line();
    if (!line) return "(nothing)";
    if (line->starts_with("> ")) return line->substr(2);
  }
}

}  // namespace faults
