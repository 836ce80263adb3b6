// SPDX-License-Identifier: MIT
// The three scripts of a room: readers and writers, or so many permits. docs/protocol.md says why.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <mortise/detail/timing.hpp>
#include <mortise/detail/made_once.hpp>
#include <mortise/detail/verbs.hpp>
#include <mortise/script.hpp>

namespace mortise::inline v1::detail {

inline constexpr std::string_view room_lua = R"lua(-- ROOM   KEYS room fence queue alive   ARGV token kind permits ms floor retention wait_ms turn_ms fence downgrade
--   room     zset: '<kind>:<token>' -> end of its lease, ms; and what the room is -> inf
--   queue    zset: '<kind>:<token>' -> order of arrival;   alive: the same -> until when it counts as waiting, ms;
--            and who has been let in -> until when its turn has to be popped
--   kind     r reader, w writer, p permit;   permits: how many, 0 for readers and writers
local L, F, Q, A = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, kind, permits, ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local wait, turn_ms = tonumber(ARGV[7]), tonumber(ARGV[8])
local me = kind .. ':' .. token
local what = permits > 0 and ARGV[3] .. ' permits' or 'readers and writers'
local T = redis.call('TIME')
local us = T[1] * 1000000 + T[2]
local now = math.floor(us / 1000)
local function whole(number) return string.format('%.0f', number) end

local function purge() -- whose lease is over is not there any more. Begins with a write that needs no memory
  redis.call('ZREMRANGEBYSCORE', L, '-inf', now)
  if redis.call('ZCARD', L) == 1 then redis.call('DEL', L) end -- and an empty room is no room
end
local function another_type() -- so it was taken over. Begins with a write that needs no memory, too
  local first = redis.pcall('ZREMRANGEBYSCORE', L, '-inf', now)
  if type(first) ~= 'table' then return nil, false end
  local wrong = string.find(first.err, 'WRONGTYPE', 1, true)
  return not wrong and first or nil, wrong
end
local function in_use() return redis.call('ZRANGE', L, -1, -1)[1] end

local function next_fence() -- nil at 2^53 - 1 and beyond, where a double no longer counts by one
  local floor = math.min(math.max(tonumber(ARGV[5]), us - 60000000), us + 60000000)
  local fence = math.max((tonumber(redis.call('GET', F)) or 0) + 1, floor)
  if fence < 9007199254740992 then return fence end
end
local function fence_for(k, again) -- a reader gets the fence of what it may read
  local last = tonumber(redis.call('GET', F))
  if last and (k == 'r' or k == 'w' and again) then
    redis.call('PEXPIRE', F, ARGV[6])
    return last
  end
  local fence = next_fence()
  redis.call('SET', F, whole(fence), 'PX', ARGV[6])
  return fence
end
local function refusal()
  local is = in_use()
  if is and is ~= what then return redis.error_reply('KIND in use with ' .. is .. ', not ' .. what) end
  if kind ~= 'r' and not next_fence() then return redis.error_reply('FENCE counter exhausted') end
end

local function hold(member, life) -- for so long from now, or longer if it was so already
  local ends = math.max(math.ceil(us / 1000) + life, tonumber(redis.call('ZSCORE', L, member)) or 0)
  redis.call('ZADD', L, whole(ends), member, 'inf', what)
  if redis.call('PTTL', L) < ends - now then redis.call('PEXPIREAT', L, whole(ends)) end
end
local function admits(k)
  local first = redis.call('ZRANGE', L, 0, 0)[1] -- a writer is alone
  if not first then return true end
  if k == 'r' then return string.sub(first, 1, 2) ~= 'w:' end
  return k == 'p' and redis.call('ZCARD', L) <= permits
end
local function turn_of(t) return string.sub(Q, 1, -7) .. t .. ':~turn' end
local function leave_line(member)
  redis.call('ZREM', A, member)
  return redis.call('ZREM', Q, member)
end
local function wait_in_line()
  if not redis.call('ZSCORE', Q, me) then
    local last = redis.call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', Q, whole(math.max(us, (tonumber(last) or 0) + 1)), me)
    redis.call('DEL', turn_of(token))
  end
  if (tonumber(redis.call('ZSCORE', A, me)) or 0) < now + wait then redis.call('ZADD', A, whole(now + wait), me) end
  for _, key in ipairs({Q, A}) do
    if redis.call('PTTL', key) < wait then redis.call('PEXPIRE', key, wait) end
  end
end

local function serve() -- whoever comes first, and all behind who may be in with it, are in, for a short lease to begin with
  for _, late in ipairs(redis.call('ZRANGEBYSCORE', A, '-inf', now)) do -- no longer alive; or let in, and not there to pop its turn
    if redis.call('DEL', turn_of(string.sub(late, 3))) == 1 then redis.call('ZREM', L, late) end
    leave_line(late)
  end
  if redis.call('ZCARD', L) == 1 then redis.call('DEL', L) end
  while true do
    local head = redis.call('ZRANGE', Q, 0, 0)[1]
    if not head then return end
    local k = string.sub(head, 1, 1)
    if (k == 'p') ~= (permits > 0) or not redis.call('ZSCORE', A, head) then
      leave_line(head) -- for a room of another kind, which is gone; or nobody knows until when it waits
    else
      if not admits(k) or k ~= 'r' and not next_fence() then return end
      local turn = turn_of(string.sub(head, 3)) -- first: while a cluster moves the slot, a new key may be refused
      redis.call('RPUSH', turn, whole(fence_for(k)) .. ' ' .. whole(us))
      redis.call('PEXPIRE', turn, turn_ms)
      redis.call('ZREM', Q, head)
      redis.call('ZADD', A, whole(now + 200), head)
      hold(head, turn_ms)
    end
  end
end
local function next_end() -- in so many ms the first of those inside may be out; -2: nobody is inside
  local ends = tonumber(redis.call('ZRANGE', L, 0, 0, 'WITHSCORES')[2])
  if not ends then return -2 end
  local late = tonumber(redis.call('ZRANGE', A, 0, 0, 'WITHSCORES')[2]) or ends
  return math.max(math.min(ends, late) - now, 1)
end
)lua";

inline constexpr std::string_view room_acquire_lua = R"lua(-- ACQUIRE   {1, fence, server_us} in | {0, ms until somebody may be out, server_us} not in; in line if wait_ms > 0
if redis.call('ZCOUNT', L, '-inf', now) > 0 then purge() end -- not always: a full server has to refuse what follows
local refused = refusal()
if refused then return refused end
if redis.call('EXISTS', Q) == 1 then serve() end
if redis.call('ZSCORE', L, me) then -- served, or sent twice
  hold(me, ms)
  redis.call('DEL', turn_of(token))
  return {1, fence_for(kind, true), us}
end
if redis.call('EXISTS', Q) == 0 and admits(kind) then
  hold(me, ms)
  return {1, fence_for(kind), us}
end
if wait > 0 then wait_in_line() end
return {0, next_end(), us}
)lua";

inline constexpr std::string_view room_keep_lua = R"lua(-- KEEP   1 in, for at least ms from now | 0 lost
local failed, lost = another_type()
if failed or lost then return failed or 0 end
purge()
local member = me
if kind == 'w' and not redis.call('ZSCORE', L, me) then member = 'r:' .. token end -- it has been downgraded
local ends = redis.call('ZSCORE', L, member)
if not ends then return 0 end
redis.call('ZREM', A, me)
if ARGV[10] == '1' then
  redis.call('ZREM', L, member)
  hold('r:' .. token, math.max(ms, tonumber(ends) - now))
  serve()
else
  hold(member, ms)
end
if (tonumber(redis.call('GET', F)) or 0) < tonumber(ARGV[9]) then redis.call('SET', F, ARGV[9], 'PX', ARGV[6]) end
redis.call('PEXPIRE', F, ARGV[6])
return 1
)lua";

inline constexpr std::string_view room_release_lua = R"lua(-- RELEASE   wait_ms > 0: a NUDGE, the token goes on waiting
-- {1, ms until somebody may be out} done, or waiting still | {0, the same} the token is neither in nor in line
local failed, lost = another_type()
if failed then return failed end
if lost and wait == 0 then
  leave_line(me)
  return {0, -1}
end
purge()
local known
if wait > 0 then
  local refused = refusal()
  if refused then return refused end
  if redis.call('ZSCORE', Q, me) then wait_in_line() end
  serve()
  known = redis.call('ZSCORE', L, me) or redis.call('ZSCORE', Q, me)
else
  known = redis.call('ZREM', L, me) + leave_line(me) > 0
  if kind == 'w' then known = redis.call('ZREM', L, 'r:' .. token) > 0 or known end
  redis.call('DEL', turn_of(token))
  purge()
  if not in_use() or in_use() == what then serve() end
end
return {known and 1 or 0, next_end()}
)lua";

/// By Verb; made at first use and never destroyed.
inline Script const& room_script(Verb verb) {
  static constinit MadeOnce<std::array<std::string, 3>> texts;
  static constinit MadeOnce<std::array<Script, 3>> scripts;
  auto const make = [] {
    auto const with = [](std::string_view lua) { return std::string{room_lua}.append(lua); };
    auto const& lua = texts.get([&] { return std::array{with(room_acquire_lua), with(room_keep_lua), with(room_release_lua)}; });
    return std::array<Script, 3>{Script{lua[0]}, Script{lua[1]}, Script{lua[2]}};
  };
  return scripts.get(make)[static_cast<std::size_t>(verb)];
}

/// Gathers one request on the connection.
inline void append_to_room(Connection& connection, Request const& request, ScriptBy by) {
  auto const& keys = *request.keys;
  auto const kind = letter(keys.hold);
  begin_script(connection, room_script(request.verb), by, 4, 10);
  connection.argument(keys.lock);
  connection.argument(keys.fence);
  connection.argument(keys.queue);
  connection.argument(keys.alive);
  connection.argument(request.owner);
  connection.argument(std::string_view{&kind, 1});
  connection.argument(static_cast<std::int64_t>(keys.permits));
  connection.argument(request.lease.count());
  connection.argument(static_cast<std::int64_t>(wall_microseconds()));
  connection.argument(request.retention.count());
  connection.argument(request.wait.count());
  connection.argument(turn_time.count());
  connection.argument(static_cast<std::int64_t>(request.fence.value));
  connection.argument(request.downgrade ? "1" : "");
}

/// What the element says that a served waiter pops: "<fence> <server's clock, µs>". Throws for anything else.
inline Answer to_turn(std::string_view element) {
  Answer answer{.yes = true};
  auto const number = [&] {
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(element.data(), element.data() + element.size(), value);
    if (error != std::errc{} || value < 1 || value >= fence_limit)
      throw Error{Errc::connection_lost, "protocol error: a number out of range"}.unanswered();
    element.remove_prefix(static_cast<std::size_t>(end - element.data()));
    return value;
  };
  answer.value = number();
  if (element.starts_with(' ')) element.remove_prefix(1);
  answer.server_time = microseconds{number()};
  return answer;
}

}  // namespace mortise::inline v1::detail
