// SPDX-License-Identifier: MIT
// The one error class: what went wrong, whether trying again can help, and whether the outcome is known.
#pragma once

#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

/// What users name. `mortise::detail` is the library's own, and changes without notice.
namespace mortise::inline v1 {

/// What went wrong. Busy and lost are no errors: they are answers, and come back as values.
enum class Errc {
  invalid_option = 1,  ///< refused before anything was sent; what() names the value and the rule
  connect_failed,      ///< no connection within the time; what() names the endpoint
  auth_failed,         ///< the server refused user or password (neither stands in what())
  timeout,             ///< the time ran out before the question was sent, or before a turn came
  connection_lost,     ///< the connection broke
  in_doubt,            ///< sent, but the answer was lost and could not be settled in time
  no_permission,       ///< NOPERM: the ACL user lacks a right; what() names it
  server_refused,      ///< OOM, MISCONF, NOREPLICAS, LOADING, BUSY, READONLY, CLUSTERDOWN …; what() says what to do
  wrong_type,          ///< the lock's key holds something that is no lock
  no_quorum,           ///< too few nodes agreed; what() lists each node and its answer
  not_held,            ///< fence() or lease() of a Lock that this thread does not hold
  closed,              ///< the Client or Quorum went away while waiting
};

namespace detail {

class ErrorCategory final : public std::error_category {
 public:
  char const* name() const noexcept override { return "mortise"; }
  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::invalid_option: return "invalid option";
      case Errc::connect_failed: return "cannot connect";
      case Errc::auth_failed: return "authentication failed";
      case Errc::timeout: return "timed out";
      case Errc::connection_lost: return "connection lost";
      case Errc::in_doubt: return "outcome unknown";
      case Errc::no_permission: return "no permission";
      case Errc::server_refused: return "refused by the server";
      case Errc::wrong_type: return "the key holds another type";
      case Errc::no_quorum: return "no quorum";
      case Errc::not_held: return "not held";
      case Errc::closed: return "closed";
    }
    return "unknown mortise error";
  }
};

/// Never destroyed, for errors may be looked at by static destructors; made before the program begins, without memory or lock.
union ImmortalCategory {
  constexpr ImmortalCategory() : category{} {}
  ~ImmortalCategory() {}
  ErrorCategory category;
};
inline constinit ImmortalCategory const immortal_category{};

inline std::error_category const& error_category() noexcept { return immortal_category.category; }

}  // namespace detail

/// So that `error.code() == mortise::Errc::timeout` compiles.
inline std::error_code make_error_code(Errc errc) noexcept {
  return {static_cast<int>(errc), detail::error_category()};
}

/// Thrown for every question the server did not answer, and for every option it will not be asked with.
/// what() never holds a password or an owner token.
class Error : public std::system_error {
 public:
  using std::system_error::system_error;

  /// 0 for a code of another category, which the library never throws.
  Errc errc() const noexcept { return code().category() == detail::error_category() ? static_cast<Errc>(code().value()) : Errc{}; }

  /// Whether the same call may succeed later without anybody changing a setting.
  bool retryable() const noexcept {
    if (permanent_) return false;
    switch (errc()) {
      case Errc::connect_failed:
      case Errc::timeout:
      case Errc::connection_lost:
      case Errc::in_doubt:
      case Errc::server_refused:
      case Errc::no_quorum: return true;
      default: return false;
    }
  }

  /// Whether the request may have been carried out although no answer came.
  bool in_doubt() const noexcept { return errc() == Errc::in_doubt || unanswered_; }

  /// The same error, marked as one that stays until somebody changes the server.
  Error permanent() && {
    permanent_ = true;
    return std::move(*this);
  }

  /// The same error, marked as one that may pass by itself.
  Error passing() && {
    permanent_ = false;
    return std::move(*this);
  }

  /// The same error, marked as having struck after the request was written.
  Error unanswered() && {
    unanswered_ = true;
    return std::move(*this);
  }

 private:
  bool permanent_{false};
  bool unanswered_{false};
};

}  // namespace mortise::inline v1

template <>
struct std::is_error_code_enum<mortise::Errc> : std::true_type {};
