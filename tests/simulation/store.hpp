// SPDX-License-Identifier: MIT
// What a server keeps of locks, and the three scripts of a mutex in plain C++. store_test.cpp compares it with a real server.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

/// One rule of the protocol taken out, so that it is seen that the simulation finds it.
enum class Break : std::uint8_t {
  none,
  no_raise,                 // KEEP says yes without looking and raises nothing
  release_without_owner,    // RELEASE deletes whatever is there
  repeat_sets_expiry,       // an ACQUIRE of the owner sets the expiry, also to an earlier time
  nudge_takes_empty_value,  // a nudge takes an empty value for no value
  no_nudge,                 // nudges do nothing
  fence_is_the_clock,       // the fence is the floor alone, whatever was given before
  vote_after_data_loss,     // a node that comes back empty does not tell that it is young
  clocks_run_apart,         // by more than the drift allowance
};

/// A script's answer: numbers, or an error.
struct ScriptAnswer {
  std::string error{};
  bool one_number{false};
  std::vector<std::int64_t> numbers{};
};

class Store {
 public:
  explicit Store(Break broken = Break::none) : broken_{broken} {}

  /// Time is told from outside, in microseconds of the server's clock.
  void set_time(std::int64_t microseconds) noexcept { now_ = microseconds; }
  std::int64_t time() const noexcept { return now_; }

  struct LockNames {
    std::string lock, fence, wake, wait;
  };
  ScriptAnswer acquire(LockNames const& keys, std::vector<std::string> const& arguments);
  ScriptAnswer keep(LockNames const& keys, std::vector<std::string> const& arguments);
  ScriptAnswer release(LockNames const& keys, std::vector<std::string> const& arguments);

  std::optional<std::string> get(std::string const& key);
  /// SET with an expiry in ms; `only_new`: NX.
  bool set(std::string const& key, std::string value, std::int64_t ttl, bool only_new = false);
  /// A list of one element.
  void set_list(std::string const& key, std::string element, std::int64_t ttl);
  bool compare_and_delete(std::string const& key, std::string const& value);
  std::optional<std::string> pop_front(std::string const& list);
  std::int64_t pttl(std::string const& key);
  void remove(std::string const& key) { keys_.erase(key); }
  void clear() noexcept { keys_.clear(); }
  /// Names of what is there now.
  std::vector<std::string> names();

 private:
  struct Value {
    std::string text{};
    std::deque<std::string> list{};
    bool is_list{false};
    std::int64_t expires{0};  // ms; there is still a key in that millisecond
  };

  Value* find(std::string const& key);
  void expire_in(std::string const& key, std::int64_t ttl);
  std::int64_t counter(std::string const& key);
  std::optional<std::int64_t> next_fence(LockNames const& keys, std::int64_t floor);
  std::int64_t mint(LockNames const& keys, std::int64_t fence, std::int64_t retention);
  std::int64_t milliseconds() const noexcept { return now_ / 1000; }

  Break broken_;
  std::int64_t now_{0};
  std::map<std::string, Value> keys_{};
};

}  // namespace simulation
