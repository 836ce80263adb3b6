// SPDX-License-Identifier: MIT
// What is kept although nobody uses it at the moment.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// Lent last in, first out, so that what there is too much of grows old at the bottom, and is let go one by one. `Kept` is a
/// pointer that owns; nothing here destroys one, so that a caller can do that outside its mutex. Not thread-safe.
template <class Kept>
class IdleStack {
 public:
  struct Idle {
    Kept kept{};
    TimePoint since{};
  };

  IdleStack() { make_room(); }

  std::optional<Idle> pop() noexcept {
    if (idle_.empty()) return std::nullopt;
    std::optional<Idle> last{std::move(idle_.back())};
    idle_.pop_back();
    return last;
  }

  /// What is let go for it, if anything.
  [[nodiscard]] Kept push(Kept kept, TimePoint now) noexcept {
    Kept surplus{};
    if (idle_.size() == most || (!idle_.empty() && now - idle_.front().since > longest)) {
      surplus = std::move(idle_.front().kept);
      idle_.erase(idle_.begin());
    }
    idle_.push_back({std::move(kept), now});
    return surplus;
  }

  template <class Predicate>
  void erase_if(Predicate&& is_bad) {
    std::erase_if(idle_, [&](Idle const& idle) { return is_bad(*idle.kept); });
  }

  /// All of it, for good unless make_room() is called.
  [[nodiscard]] std::vector<Idle> take_all() noexcept { return std::exchange(idle_, {}); }
  void make_room() { idle_.reserve(most); }

 private:
  static constexpr std::size_t most = 64;
  static constexpr milliseconds longest{60'000};

  std::vector<Idle> idle_{};
};

}  // namespace mortise::inline v1::detail
