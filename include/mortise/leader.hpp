// SPDX-License-Identifier: MIT
// The Leader: work that one process at a time does, for as long as it is the one.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <mortise/client.hpp>
#include <mortise/lock.hpp>

namespace mortise::inline v1 {

/// Stands for a name, and works while elected. Several processes that do the same have one leader among them; when it stops
/// the next in line takes over at once, when it dies, after its TTL.
template <class B = Client>
class Leader {
 public:
  /// As a Lock's; it is one.
  Leader(B& backend, std::string name, LockOptions options = {})
    requires Backend<B>
      : lock_{backend, std::move(name), std::move(options)} {}

  /// What it stands for: the name of its lock.
  std::string const& name() const noexcept { return lock_.name(); }

  /// Waits to be elected and calls `work(stop, fence)`; `stop` is requested when `quit` is, and when the lease is lost. Work
  /// that ends by itself, or after `quit`, hands over at once and ends the call: true. After a loss it stands again. False:
  /// `quit` was requested while it was not elected.
  ///
  /// `work` has to return soon after `stop`: until then nobody else is kept from working as well, but by the fence. Throws
  /// what `work` throws, the lease released, and Error as Lock::acquire does.
  template <std::invocable<std::stop_token, Fence> Work>
  bool run(Work&& work, std::stop_token quit = {}) {
    for (;;) {
      auto const term = lock_.acquire(quit);
      if (!term) return false;
      std::stop_source over;
      std::stop_callback const quitting{quit, [&over] { over.request_stop(); }};
      std::stop_callback const losing{term->lost(), [over]() mutable { over.request_stop(); }};
      std::invoke(work, over.get_token(), term->fence());
      if (term->held() || quit.stop_requested()) return true;
    }
  }

 private:
  Lock<B> lock_;
};

template <class B>
Leader(B&, std::string, LockOptions) -> Leader<B>;
template <class B>
Leader(B&, std::string) -> Leader<B>;

}  // namespace mortise::inline v1
