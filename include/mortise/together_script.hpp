// SPDX-License-Identifier: MIT
// The script that takes several locks at once or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <mortise/detail/made_once.hpp>
#include <mortise/detail/verbs.hpp>
#include <mortise/script.hpp>

namespace mortise::inline v1::detail {

inline constexpr std::string_view together_lua = R"lua(-- TOGETHER   KEYS (lock fence wake wait) …   ARGV floor (token ttl retention) …
-- {1, server_us, fence …} all are granted, as to a try | {0, i, pttl} none is, for the i-th is busy
local T = redis.call('TIME')
local now = T[1] * 1000000 + T[2]
local floor = math.min(math.max(tonumber(ARGV[1]), now - 60000000), now + 60000000)
local owners, fences = {}, {}

for i = 1, #KEYS / 4 do -- first only look
  local L, F, W, token = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], ARGV[3 * i - 1]
  local owner = redis.call('GET', L)
  local last = tonumber(redis.call('GET', F))
  fences[i] = math.max((last or 0) + 1, floor)
  if owner == token then -- the request was sent twice
    fences[i] = last or fences[i]
  elseif owner and string.sub(owner, 1, 2) == 'h:' and redis.call('LINDEX', W, 0) == string.sub(owner, 3) then
    fences[i] = tonumber(string.sub(owner, 3)) -- reserved, and nobody was blocked to pop it
  elseif owner then
    return {0, i, redis.call('PTTL', L)}
  end
  if not (fences[i] < 9007199254740992) then return redis.error_reply('FENCE counter exhausted') end
  owners[i] = owner
end

local reply = {1, now}
for i = 1, #KEYS / 4 do
  local L, F, W, token, ttl = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], ARGV[3 * i - 1], ARGV[3 * i]
  if owners[i] ~= token then
    redis.call('SET', L, token, 'PX', ttl)
    redis.call('DEL', W)
  elseif redis.call('PTTL', L) < tonumber(ttl) then
    redis.call('PEXPIRE', L, ttl)
  end
  redis.call('SET', F, string.format('%.0f', fences[i]), 'PX', ARGV[3 * i + 1])
  reply[i + 2] = fences[i]
end
return reply
)lua";

inline Script const& together_script() {
  static constinit MadeOnce<Script> script;
  return script.get([] { return Script{together_lua}; });
}

/// Gathers one request: each of these asks for one lock.
inline void append_together(Connection& connection, std::span<Request const> requests, ScriptBy by) {
  begin_script(connection, together_script(), by, 4 * requests.size(), 1 + 3 * requests.size());
  for (auto const& request : requests) {
    connection.argument(request.keys->lock);
    connection.argument(request.keys->fence);
    connection.argument(request.keys->wake);
    connection.argument(request.keys->wait);
  }
  connection.argument(static_cast<std::int64_t>(wall_microseconds()));
  for (auto const& request : requests) {
    connection.argument(request.owner);
    connection.argument(request.lease.count());
    connection.argument(request.retention.count());
  }
}

/// The fences in the order of the requests; or none, and which of them found its lock busy.
struct Together {
  std::vector<Fence> fences{};
  std::size_t busy{};
};

inline Together to_together(std::size_t count, ReplyView reply) {
  auto const number = [&](std::size_t i, std::int64_t limit) {
    auto const value = reply[i].integer();
    if (value < 1 || value >= limit) throw Error{Errc::connection_lost, "protocol error: a number out of range"}.unanswered();
    return static_cast<std::uint64_t>(value);
  };
  Together together;
  if (reply[0].integer() != 1) {
    together.busy = static_cast<std::size_t>(number(1, static_cast<std::int64_t>(count) + 1)) - 1;
    return together;
  }
  for (std::size_t i = 0; i < count; ++i) together.fences.push_back(Fence{number(i + 2, fence_limit)});
  return together;
}

}  // namespace mortise::inline v1::detail
