// SPDX-License-Identifier: MIT
// The command `mortise`: run a command under a lock, look at a lock, break a lock, look at a server.

#include <exception>
#include <iostream>
#include <system_error>

#include <mortise/mortise.hpp>
#include <mortise/version.hpp>

#include "command/arguments.hpp"
#include "command/doctor.hpp"
#include "command/exit_code.hpp"
#include "command/inspect.hpp"
#include "command/run.hpp"

namespace {

int perform(command::Arguments const& arguments) {
  switch (arguments.verb) {
    case command::Verb::run: return command::run(arguments);
    case command::Verb::status: return command::status(arguments);
    case command::Verb::break_lock: return command::break_lock(arguments);
    case command::Verb::doctor: return command::doctor(arguments);
    case command::Verb::help: std::cout << command::help_text; break;
    case command::Verb::version:
      std::cout << "mortise " << MORTISE_VERSION_MAJOR << '.' << MORTISE_VERSION_MINOR << '.' << MORTISE_VERSION_PATCH << '\n';
      break;
  }
  return command::ExitCode::done;
}

int fail(int code, char const* what) {
  std::cerr << "mortise: " << what << '\n';
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using command::ExitCode;
  try {
    return perform(command::parse({argv + (argc > 0 ? 1 : 0), argv + argc}));
  } catch (command::UsageError const& error) {
    return fail(ExitCode::usage, error.what());
  } catch (mortise::Error const& error) {
    return fail(error.errc() == mortise::Errc::invalid_option ? ExitCode::usage : ExitCode::unavailable, error.what());
  } catch (std::exception const& error) {
    return fail(ExitCode::system, error.what());
  }
}
