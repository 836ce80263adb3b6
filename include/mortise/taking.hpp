// SPDX-License-Identifier: MIT
// The acquire family for one name and one way to hold it: what all lock types are made of.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/backend.hpp>
#include <mortise/lease.hpp>

namespace mortise::inline v1::detail {

/// Copies share a backend's core and the spec. Thread-safe.
class Taking {
 public:
  /// Sends nothing. Throws Errc::invalid_option.
  template <Backend B>
  Taking(B& backend, LockKeys keys, LockOptions options)
      : handle_{Access::handle(backend)},
        spec_{std::make_shared<LockSpec const>(LockSpec{std::move(keys), checked(std::move(options))})} {}

  std::string const& name() const noexcept { return spec_->name(); }
  std::shared_ptr<LockSpec const> const& spec() const noexcept { return spec_; }
  std::shared_ptr<Core> const& core() const { return handle_->get(); }

  /// One try.
  std::optional<Lease> once() const { return take({}); }
  /// For as long as it takes.
  Lease in_turn() const { return *take({.waits = true, .deadline = never, .cancel = {}}); }
  std::optional<Lease> in_turn(std::stop_token cancel) const {
    return take({.waits = true, .deadline = never, .cancel = std::move(cancel)});
  }
  std::optional<Lease> within(milliseconds timeout) const {
    if (timeout <= milliseconds::zero()) return once();
    return take({.waits = true, .deadline = after(core()->now(), timeout), .cancel = {}});
  }

  std::optional<Lease> take(Patience const& patience) const {
    auto state = core()->take(spec_, patience);
    if (!state) return std::nullopt;
    return Access::lease(std::move(state));
  }

 private:
  std::shared_ptr<CoreHandle> handle_;
  std::shared_ptr<LockSpec const> spec_;
};

}  // namespace mortise::inline v1::detail
