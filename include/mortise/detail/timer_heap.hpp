// SPDX-License-Identifier: MIT
// A heap of due times whose items know their own place: what is due next, and removal in O(log n) without a search.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <mortise/time.hpp>

namespace mortise::inline v1::detail {

/// What an item carries to stand in one heap. Guarded by the mutex of the heap's owner.
struct TimerHook {
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  std::size_t place{nowhere};
  TimePoint due{never};
  bool set() const noexcept { return place != nowhere; }
};

/// Pointers to items, earliest due first. Not thread-safe. Room is made beforehand, so that setting never throws.
template <class Item, TimerHook Item::* hook>
class TimerHeap {
 public:
  bool empty() const noexcept { return items_.empty(); }
  std::size_t size() const noexcept { return items_.size(); }
  TimePoint next_due() const noexcept { return items_.empty() ? never : (items_.front()->*hook).due; }
  Item* front() const noexcept { return items_.front(); }
  std::vector<Item*> const& items() const noexcept { return items_; }

  /// Room for one more item, promised until it is set or the promise is taken back.
  void promise() {
    auto const needed = items_.size() + promised_ + 1;
    if (needed > items_.capacity()) items_.reserve(needed * 2);
    ++promised_;
  }
  void take_back_promise() noexcept { --promised_; }

  /// Puts an item in, by its promise.
  void put(Item& item, TimePoint due) noexcept {
    --promised_;
    items_.push_back(&item);
    (item.*hook).place = items_.size() - 1;
    (item.*hook).due = due;
    up(items_.size() - 1);
  }

  void move(Item& item, TimePoint due) noexcept {
    (item.*hook).due = due;
    up((item.*hook).place);
    down((item.*hook).place);
  }

  void remove(Item& item) noexcept {
    auto const place = (item.*hook).place;
    (item.*hook).place = TimerHook::nowhere;
    auto* const last = items_.back();
    items_.pop_back();
    if (last == &item) return;
    items_[place] = last;
    (last->*hook).place = place;
    up(place);
    down((last->*hook).place);
  }

 private:
  bool earlier(std::size_t a, std::size_t b) const noexcept { return (items_[a]->*hook).due < (items_[b]->*hook).due; }

  void swap(std::size_t a, std::size_t b) noexcept {
    std::swap(items_[a], items_[b]);
    (items_[a]->*hook).place = a;
    (items_[b]->*hook).place = b;
  }

  void up(std::size_t i) noexcept {
    for (; i > 0 && earlier(i, (i - 1) / 2); i = (i - 1) / 2) swap(i, (i - 1) / 2);
  }

  void down(std::size_t i) noexcept {
    for (;;) {
      auto least = i;
      for (auto const child : {2 * i + 1, 2 * i + 2})
        if (child < items_.size() && earlier(child, least)) least = child;
      if (least == i) return;
      swap(i, least);
      i = least;
    }
  }

  std::vector<Item*> items_{};
  std::size_t promised_{0};
};

}  // namespace mortise::inline v1::detail
