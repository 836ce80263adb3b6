// SPDX-License-Identifier: MIT
// The three scripts of an exclusive lock, and how a request to them looks on the wire. docs/protocol.md says why.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <mortise/detail/made_once.hpp>
#include <mortise/detail/verbs.hpp>
#include <mortise/script.hpp>

namespace mortise::inline v1::detail {

inline constexpr std::string_view acquire_lua = R"lua(-- ACQUIRE   KEYS lock fence wake wait   ARGV token ttl floor retention wait_ms popped
--   wait_ms  0: a try; > 0: the caller is going to wait: life of the "somebody waits" key
--   popped   ''         the caller has popped nothing
--            '<fence>'  the caller's BLPOP returned this element
--            '*<us>'    sent right behind a BLPOP that cannot time out before the server's clock reads <us>
-- {1, fence, server_us} granted | {0, pttl of the lock, server_us} busy: -2 free, but others come first; -1 no expiry
local L, F, W, S = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, wait, popped = ARGV[1], ARGV[2], tonumber(ARGV[5]), ARGV[6]
local T = redis.call('TIME') -- before any SET: the lease never ends before server_us + ttl
local now = T[1] * 1000000 + T[2]

local function next_fence() -- nil at 2^53 - 1 and beyond, where a double no longer counts by one
  local floor = math.min(math.max(tonumber(ARGV[3]), now - 60000000), now + 60000000)
  local fence = math.max((tonumber(redis.call('GET', F)) or 0) + 1, floor)
  if fence < 9007199254740992 then return fence end
end
local function mint(fence)
  redis.call('SET', F, string.format('%.0f', fence), 'PX', ARGV[4])
  return fence
end

-- Who is going to wait does not pass those who already do; a claim takes its reservation or nothing
if popped == '' and (wait == 0 or redis.call('EXISTS', S) == 0) then
  local fence = next_fence()
  if fence and redis.call('SET', L, token, 'NX', 'PX', ttl) then return {1, mint(fence), now} end
end

local owner = redis.call('GET', L)
if owner == token then -- the request was sent twice: the same fence; the lease is never shortened
  if redis.call('PTTL', L) < tonumber(ttl) then redis.call('PEXPIRE', L, ttl) end
  return {1, tonumber(redis.call('GET', F)) or mint(next_fence()), now}
end

if owner and string.sub(owner, 1, 2) == 'h:' then -- reserved for the waiter whose BLPOP got the fence
  local fence = string.sub(owner, 3)
  local blocked_until = tonumber(string.match(popped, '^%*(%d+)$'))
  if redis.call('LPOP', W) == fence -- still in the list: nobody was blocked. First, for a pop needs no memory: then nor does the SET
    or popped ~= '' and popped == fence
    or blocked_until and now < blocked_until and redis.call('GET', F) == fence then -- its BLPOP did not time out: it got the fence
    redis.call('SET', L, token, 'PX', ttl)
    return {1, tonumber(fence), now}
  end
end

if not owner and popped == '' and not next_fence() then return redis.error_reply('FENCE counter exhausted') end
if popped == '' and wait > 0 and redis.call('PTTL', S) < wait then redis.call('SET', S, '1', 'PX', ARGV[5]) end
return {0, redis.call('PTTL', L), now}
)lua";

inline constexpr std::string_view keep_lua = R"lua(-- KEEP   KEYS lock fence   ARGV token ttl fence retention
-- 1 the token holds the lock with this fence, for at least ttl from now | 0 lost
local L, F, ttl, fence = KEYS[1], KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('PEXPIRE', F, ARGV[4]) -- first, and needs no memory: a replica refuses it instead of answering "lost"
local last = tonumber(redis.call('GET', F)) or 0
local owner = redis.pcall('GET', L)
if type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then return owner end -- a list there has taken it over
if owner ~= ARGV[1] or last > fence then return 0 end
if last < fence then redis.call('SET', F, ARGV[3], 'PX', ARGV[4]) end
if redis.call('PTTL', L) < ttl then redis.call('PEXPIRE', L, ARGV[2]) end
return 1
)lua";

inline constexpr std::string_view release_lua = R"lua(-- RELEASE   KEYS lock fence wake wait   ARGV owner claim floor retention wait_ms
--   owner    the token; 'h:<fence>' passes on a fence that was popped; '' NUDGE: acts only if nobody holds the lock
--   wait_ms  > 0: the caller knows of a live waiter: life of the "somebody waits" key
-- {1, claim} handed to the longest blocked waiter | {1, -2} free | {0, pttl of the lock} not the owner's (NUDGE: not free)
local L, F, W, S = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, claim, wait = ARGV[1], ARGV[2], tonumber(ARGV[5])
local value = redis.pcall('GET', L) -- false: no such key. An empty value is somebody's, and so is another type but to a nudge
if type(value) == 'table' and (owner == '' or not string.find(value.err, 'WRONGTYPE', 1, true)) then return value end
local mine = value == owner
if owner == '' then mine = not value end

if mine and wait == 0 and redis.call('EXISTS', S) == 0 then -- nobody waits: the plain guarded delete
  redis.call('DEL', L, W)
  return {1, -2}
end
-- First a write that needs no memory: a replica refuses it instead of answering "lost"; a full server then allows the rest
if mine then redis.call('DEL', W) else redis.call('LREM', W, 0, '') end -- the LREM removes nothing
if wait > 0 and redis.call('PTTL', S) < wait then redis.call('SET', S, '1', 'PX', ARGV[5]) end
if not mine then return {0, redis.call('PTTL', L)} end

local T = redis.call('TIME')
local now = T[1] * 1000000 + T[2]
local floor = math.min(math.max(tonumber(ARGV[3]), now - 60000000), now + 60000000)
local number = math.max((tonumber(redis.call('GET', F)) or 0) + 1, floor)
if not (number < 9007199254740992) then -- no fence is left to reserve with: a release is never refused for it
  if owner == '' then return redis.error_reply('FENCE counter exhausted') end
  redis.call('DEL', L)
  return {1, -2}
end
local fence = string.format('%.0f', number)
redis.call('SET', F, fence, 'PX', ARGV[4])
redis.call('SET', L, 'h:' .. fence, 'PX', claim)
redis.call('RPUSH', W, fence)
redis.call('PEXPIRE', W, claim)
return {1, tonumber(claim)}
)lua";

/// By Verb; made at first use and never destroyed.
inline Script const& mutex_script(Verb verb) {
  static constinit MadeOnce<std::array<Script, 3>> scripts;
  auto const make = [] { return std::array<Script, 3>{Script{acquire_lua}, Script{keep_lua}, Script{release_lua}}; };
  return scripts.get(make)[static_cast<std::size_t>(verb)];
}

/// Gathers one request on the connection.
inline void append_to_mutex(Connection& connection, Request const& request, ScriptBy by) {
  auto const& keys = *request.keys;
  auto const& script = mutex_script(request.verb);
  if (request.verb == Verb::keep) {
    begin_script(connection, script, by, 2, 4);
    connection.argument(keys.lock);
    connection.argument(keys.fence);
    connection.argument(request.owner);
    connection.argument(request.lease.count());
    connection.argument(static_cast<std::int64_t>(request.fence.value));
    connection.argument(request.retention.count());
    return;
  }
  bool const acquires = request.verb == Verb::acquire;
  begin_script(connection, script, by, 4, acquires ? 6 : 5);
  connection.argument(keys.lock);
  connection.argument(keys.fence);
  connection.argument(keys.wake);
  connection.argument(keys.wait);
  connection.argument(request.owner);
  connection.argument(request.lease.count());
  connection.argument(static_cast<std::int64_t>(request.floor != 0 ? request.floor : wall_microseconds()));
  connection.argument(request.retention.count());
  connection.argument(request.wait.count());
  if (acquires) connection.argument(request.popped);
}

}  // namespace mortise::inline v1::detail
