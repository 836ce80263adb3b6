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

  template <class L>
  static std::shared_ptr<LeaseState> const& state(L const& lease) noexcept {
    return lease.state_;
  }

  template <class L>
  static auto const& taking(L const& lock) noexcept {
    return lock.taking_;
  }

  template <class B>
  static std::shared_ptr<CoreHandle> const& handle(B& backend) noexcept {
    return backend.handle_;
  }
};

/// Whether one authority decides about every name of this backend: then its class says `one_authority = true`. What several
/// decide by majority cannot count readers or permits: majorities of different nodes may let in too many.
template <class B>
inline constexpr bool has_one_authority = false;
template <class B>
  requires requires { B::one_authority; }
inline constexpr bool has_one_authority<B> = B::one_authority;

}  // namespace detail

/// A Client, a Quorum, or a testing::MemoryBackend.
template <class B>
concept Backend = requires(B& backend) {
  { detail::Access::handle(backend) } -> std::same_as<std::shared_ptr<detail::CoreHandle> const&>;
};

}  // namespace mortise::inline v1
