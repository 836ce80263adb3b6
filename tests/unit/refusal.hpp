// SPDX-License-Identifier: MIT
// The text with which an option is refused.
#pragma once

#include <string>

#include <mortise/error.hpp>

#include "support/catch.hpp"

/// What() of the Errc::invalid_option that `call` must throw; empty, and a failed check, if it throws nothing.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (mortise::Error const& error) {
    CHECK(error.errc() == mortise::Errc::invalid_option);
    CHECK_FALSE(error.retryable());
    return error.what();
  }
  FAIL_CHECK("nothing was refused");
  return {};
}
