// SPDX-License-Identifier: MIT
// A request for a lock in another thread's name, made by whoever held it before, and what came of it.
#pragma once

#include <string>

#include <mortise/time.hpp>
#include <mortise/wire.hpp>

namespace mortise::inline v1::detail {

/// What whoever released a lock has asked for in the name of the next in line, in one write with the release.
struct AskedFor {
  Answer answer{};                       // yes: granted
  TimePoint sent{};
  int copies{0};                         // of the ACQUIRE that were written and not answered
  TimePoint doubt_until{};               // what they may have set is gone by then
  std::string const* endpoint{nullptr};  // of the server that answered

  /// The next reply on the connection is to it. An answer that does not come is not waited for again.
  void take(Connection& connection, TimePoint deadline, std::string const& server) noexcept {
    try {
      auto const reply = connection.receive(deadline);
      bool const refused = (*reply)->is_error();
      if (!refused) answer = to_answer(Verb::acquire, **reply);
      endpoint = &server;
      copies = 0;
    } catch (...) {  // its copy counts as unanswered
    }
  }
};

}  // namespace mortise::inline v1::detail
