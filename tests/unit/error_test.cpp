// SPDX-License-Identifier: MIT
// The error class: its category, what may be tried again, and what is in doubt.
#include <set>
#include <string>
#include <system_error>
#include <type_traits>

#include <mortise/error.hpp>

#include "support/catch.hpp"

using mortise::Errc;
using mortise::Error;

namespace {

auto any_errc() {
  return GENERATE(values({Errc::invalid_option, Errc::connect_failed, Errc::auth_failed, Errc::timeout, Errc::connection_lost,
                          Errc::in_doubt, Errc::no_permission, Errc::server_refused, Errc::wrong_type, Errc::no_quorum,
                          Errc::not_held, Errc::closed}));
}

std::string const text{"the text"};

}  // namespace

TEST_CASE("an error keeps its code and its text") {
  auto const errc = any_errc();
  Error const error{errc, text};
  CHECK(error.errc() == errc);
  CHECK(error.code() == errc);
  CHECK(error.code() == mortise::make_error_code(errc));
  CHECK_THAT(error.what(), support::starts_with(text));
}

TEST_CASE("every code is an error of the category mortise and has a text of its own") {
  static std::set<std::string> seen;
  std::error_code const code = any_errc();
  CHECK(code);
  CHECK(std::string{code.category().name()} == "mortise");
  CHECK(code.message() != "unknown mortise error");
  CHECK(seen.insert(code.message()).second);
}

TEST_CASE("a number that is no code has a text, too") {
  std::error_code const code{9999, mortise::make_error_code(Errc::closed).category()};
  CHECK(code.message() == "unknown mortise error");
}

TEST_CASE("codes of other categories are never taken for ours") {
  CHECK(std::error_code{1, std::generic_category()} != Errc::invalid_option);
  CHECK(std::make_error_code(std::errc::timed_out) != Errc::timeout);
}

TEST_CASE("what may pass by itself is retryable, what a person must change is not") {
  auto const errc = any_errc();
  std::set<Errc> const passing{Errc::connect_failed, Errc::timeout,        Errc::connection_lost,
                               Errc::in_doubt,       Errc::server_refused, Errc::no_quorum};
  CAPTURE(errc);
  CHECK(Error(errc, text).retryable() == passing.contains(errc));
  CHECK_FALSE(Error(errc, text).permanent().retryable());
  CHECK(Error(errc, text).unanswered().retryable() == passing.contains(errc));
}

TEST_CASE("an outcome is in doubt by its code or by having gone unanswered") {
  auto const errc = any_errc();
  CAPTURE(errc);
  CHECK(Error(errc, text).in_doubt() == (errc == Errc::in_doubt));
  CHECK(Error(errc, text).unanswered().in_doubt());
  CHECK(Error(errc, text).permanent().in_doubt() == (errc == Errc::in_doubt));
}

TEST_CASE("marks add up and survive being thrown and copied") {
  try {
    throw Error{Errc::connection_lost, text}.unanswered().permanent();
  } catch (Error const& thrown) {
    auto const copy = thrown;
    CHECK(copy.in_doubt());
    CHECK_FALSE(copy.retryable());
    CHECK(copy.errc() == Errc::connection_lost);
    CHECK_THAT(copy.what(), support::starts_with(text));
  }
}

TEST_CASE("an error is made from a code and any text, or from the code alone") {
  CHECK_THAT((Error{Errc::timeout, "literal"}.what()), support::starts_with("literal"));
  CHECK_THAT((Error{Errc::timeout, std::string{"text"}}.what()), support::starts_with("text"));
  CHECK((Error{Errc::timeout}.errc()) == Errc::timeout);
}

TEST_CASE("an error can be caught as what the standard library has") {
  CHECK_THROWS_AS((throw Error{Errc::timeout, text}), std::system_error);
  CHECK_THROWS_AS((throw Error{Errc::timeout, text}), std::exception);
  CHECK(std::is_nothrow_copy_constructible_v<Error>);
}
