// SPDX-License-Identifier: MIT
// What a type must offer to be a place where locks live.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <mortise/core.hpp>
#include <mortise/detail/process.hpp>

namespace mortise::inline v1 {

class Lease;

namespace detail {

/// A backend's core, one for each process that uses it.
using CoreHandle = PerProcess<Core>;

/// How library types get at what users do not see.
struct Access {
  template <class L = Lease>
  static L lease(std::shared_ptr<LeaseState> state) noexcept {
    return L{std::move(state)};
  }

  template <class B>
  static std::shared_ptr<CoreHandle> const& handle(B& backend) noexcept {
    return backend.handle_;
  }
};

}  // namespace detail

/// A Client, a Quorum, or a testing::MemoryBackend.
template <class B>
concept Backend = requires(B& backend) {
  { detail::Access::handle(backend) } -> std::same_as<std::shared_ptr<detail::CoreHandle> const&>;
};

}  // namespace mortise::inline v1
