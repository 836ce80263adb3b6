// SPDX-License-Identifier: MIT
// Hears from the server that a key it has looked at was changed by somebody else. Source: redis.io, "Client-side caching".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mortise/pool.hpp>

namespace mortise::inline v1::detail {

/// A subscribed connection to which the server redirects the invalidations of another: works with RESP2. What it says is a
/// hint: whoever hears it asks the server how things stand.
class KeyWatch {
 public:
  /// From here on, keys that `reader` reads are watched; its own writes are not told. Throws where the server cannot.
  void attach(Connection& reader, Pool& pool, TimePoint deadline, Wake* interrupt) {
    listener_ = pool.connect(deadline, interrupt);
    listener_->append({"CLIENT", "ID"});
    listener_->append({"SUBSCRIBE", "__redis__:invalidate"});
    listener_->send(deadline);
    auto const id = listener_->expect(deadline)->integer();
    listener_->expect(deadline);
    reader.append({"CLIENT", "TRACKING", "ON", "REDIRECT", std::to_string(id), "NOLOOP"});
    reader.send(deadline);
    reader.expect(deadline);
  }

  /// Readable when there is something to hear, or -1.
  int descriptor() const noexcept { return listener_ ? listener_->descriptor() : -1; }
  bool attached() const noexcept { return listener_ != nullptr; }
  void detach() noexcept { listener_.reset(); }

  /// Adds the keys that were changed; true if any may have been: everything was flushed. Throws when the line is dead.
  bool hear(std::vector<std::string>& changed) {
    bool all = false;
    while (auto const message = listener_->push()) {
      auto const keys = (**message)[2];
      if (!keys.is_array()) all = true;
      for (std::size_t i = 0; i < keys.size(); ++i) changed.emplace_back(keys[i].text());
    }
    return all;
  }

 private:
  std::unique_ptr<Connection> listener_{};
};

}  // namespace mortise::inline v1::detail
