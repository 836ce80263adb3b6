// SPDX-License-Identifier: MIT
// An observer that remembers what it was told.
#pragma once

#include <algorithm>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "lock_server.hpp"

using mortise::Event;
using Kind = mortise::Event::Kind;

/// Remembers everything.
class Witness {
 public:
  auto observer() {
    return [this](Event const& event) {
      std::lock_guard const guard{mutex_};
      events_.push_back(event);
      threads_.push_back(std::this_thread::get_id());
    };
  }
  std::vector<Event> of(Kind kind) {
    std::lock_guard const guard{mutex_};
    std::vector<Event> found;
    std::ranges::copy_if(events_, std::back_inserter(found), [&](auto const& event) { return event.kind == kind; });
    return found;
  }
  /// The first one of a kind, as soon as it has been told.
  Event first(Kind kind) {
    INFO("waiting for " << to_string(kind));
    REQUIRE(wait_until([&] { return !of(kind).empty(); }));
    return of(kind).front();
  }
  bool all_on_one_other_thread() {
    std::lock_guard const guard{mutex_};
    return std::ranges::all_of(threads_, [&](auto id) { return id == threads_.front() && id != std::this_thread::get_id(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
  std::vector<std::thread::id> threads_;
};
