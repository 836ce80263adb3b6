// SPDX-License-Identifier: MIT
// The other side of a fence: a gate for resource servers in C++, Redis itself as the guarded resource, and a bare counter.
#pragma once

#include <atomic>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <mortise/client.hpp>
#include <mortise/detail/made_once.hpp>
#include <mortise/fence.hpp>

namespace mortise::inline v1 {

/// For a resource server: remembers the newest fence it has seen and refuses older ones. Lock-free; any number of threads.
/// The same fence passes again, because one holder may write several times.
class FenceGate {
 public:
  /// True unless a newer one was admitted before.
  [[nodiscard]] bool admit(Fence fence) noexcept {
    auto newest = newest_.load(std::memory_order_acquire);
    while (fence.value > newest)
      if (newest_.compare_exchange_weak(newest, fence.value, std::memory_order_acq_rel)) return true;
    return fence.value == newest;
  }
  /// The newest that was admitted; 0 before the first.
  Fence newest() const noexcept { return Fence{newest_.load(std::memory_order_acquire)}; }

 private:
  std::atomic<std::uint64_t> newest_{0};
};

/// A bare counter (INCR), for numbering what needs no lock.
///
/// Never use it to number the holders of a lock: between the grant and next() a holder may be paused, lose the lock, and
/// then draw a *higher* number than the one who holds it now. The fence of a Lease is drawn in the grant itself.
class FencingCounter {
 public:
  /// Sends nothing. Throws Errc::invalid_option for an empty key.
  FencingCounter(Client& client, std::string key) : handle_{detail::Access::handle(client)}, key_{std::move(key)} {
    if (key_.empty()) detail::invalid("counter key is empty: at least one byte");
  }

  /// The next number: one round trip. If an answer is lost the question is asked again, so numbers may be skipped. Throws
  /// Error, also when 2^53 - 1 is passed, where scripts and JSON would no longer tell two numbers apart.
  Fence next() {
    auto const core = std::static_pointer_cast<detail::ClientCore>(handle_->get());
    auto const value = core->command(key_, {"INCR", key_}).view().integer();
    if (value < 1 || value >= detail::fence_limit)
      throw Error{Errc::server_refused, "counter " + detail::printable(key_) + " is at " + std::to_string(value) + ": a fence lies between 1 and 2^53 - 1"}.permanent();
    return Fence{static_cast<std::uint64_t>(value)};
  }

  /// The last number drawn, or nothing. One round trip.
  std::optional<Fence> last() {
    auto const core = std::static_pointer_cast<detail::ClientCore>(handle_->get());
    auto const reply = core->command(key_, {"GET", key_});
    if (reply->is_nil()) return std::nullopt;
    auto const text = reply->text();
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      throw Error{Errc::wrong_type, "counter " + detail::printable(key_) + " holds something that is no number"};
    return Fence{value};
  }

 private:
  std::shared_ptr<detail::CoreHandle> handle_;
  std::string key_;
};

namespace detail {

inline constexpr std::string_view fenced_set_lua = R"lua(-- FENCED SET   KEYS key guard   ARGV value fence
-- 1 written | 0 a newer fence has been here
local newest = tonumber(redis.call('GET', KEYS[2])) or 0
if newest > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
return 1
)lua";

inline Script const& fenced_set_script() {
  static constinit MadeOnce<Script> script;
  return script.get([] { return Script{fenced_set_lua}; });
}

}  // namespace detail

/// Redis as the guarded resource: writes `key` only if no newer fence has written it. The newest fence is kept beside it,
/// in `{key}:~guard` (or `key::~guard` where the key has a {tag}), without expiry, like the key itself. One round trip.
/// False: refused, a newer holder has been here. Throws Error; in doubt it may be called again with the same fence.
[[nodiscard]] inline bool fenced_set(Client& client, std::string_view key, std::string_view value, Fence fence) {
  auto const& script = detail::fenced_set_script();
  auto const guard = detail::guard_key(key);
  if (fence.value == 0 || fence.value >= detail::fence_limit)
    detail::invalid("fence is " + std::to_string(fence.value) + ": must lie between 1 and 2^53 - 1");
  auto const core = std::static_pointer_cast<detail::ClientCore>(detail::Access::handle(client)->get());
  core->check_reachable(key, "key");
  return core->with_connection(key, [&](detail::Connection& connection, TimePoint deadline) {
    auto const reply = detail::call_script(connection, deadline, key, [&](detail::ScriptBy by) {
      detail::begin_script(connection, script, by, 2, 2);
      connection.argument(key);
      connection.argument(guard);
      connection.argument(value);
      connection.argument(static_cast<std::int64_t>(fence.value));
    });
    return reply->integer() == 1;
  });
}

}  // namespace mortise::inline v1
