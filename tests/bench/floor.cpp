// SPDX-License-Identifier: MIT
#include "floor.hpp"

#include <array>
#include <utility>

#include <mortise/detail/timing.hpp>

namespace bench {

using mortise::detail::Reply;
using mortise::detail::Verb;

namespace {

constexpr std::string_view guarded_delete =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
constexpr std::string_view naive_token = "0123456789abcdef0123456789abcdef";
constexpr std::int64_t wait_ms = mortise::detail::waiting_life.count();

}  // namespace

Raw::Raw(Endpoint const& endpoint)
    : context_{endpoint.path.empty() ? ::redisConnect(endpoint.host.c_str(), endpoint.port)
                                     : ::redisConnectUnix(endpoint.path.c_str())} {
  if (!context_ || context_->err != 0) throw std::runtime_error{"cannot connect to " + endpoint.uri()};
}

void Raw::append(std::initializer_list<std::string_view> arguments) {
  std::array<char const*, 16> texts;
  std::array<std::size_t, 16> sizes;
  std::size_t count = 0;
  for (auto const argument : arguments) {
    texts.at(count) = argument.data();
    sizes.at(count++) = argument.size();
  }
  if (::redisAppendCommandArgv(context_.get(), static_cast<int>(count), texts.data(), sizes.data()) != REDIS_OK)
    throw std::runtime_error{context_->errstr};
}

void Raw::flush() {
  int done = 0;
  while (done == 0)
    if (::redisBufferWrite(context_.get(), &done) != REDIS_OK) throw std::runtime_error{context_->errstr};
}

Reply Raw::receive() {
  void* received = nullptr;
  if (::redisGetReply(context_.get(), &received) != REDIS_OK) throw std::runtime_error{context_->errstr};
  Reply reply{received};
  if (reply->is_error()) throw std::runtime_error{std::string{reply->text()}};
  return reply;
}

NaiveLock::NaiveLock(Endpoint const& endpoint, std::string name)
    : raw_{endpoint}, name_{std::move(name)}, sha_{raw_.command({"SCRIPT", "LOAD", guarded_delete})->text()} {}

bool NaiveLock::acquire() { return !raw_.command({"SET", name_, naive_token, "NX", "PX", "10000"})->is_nil(); }

bool NaiveLock::release() {
  return raw_.command({"EVALSHA", sha_, "1", name_, naive_token})->integer() == 1;
}

ScriptedLock::ScriptedLock(Endpoint const& endpoint, std::string const& name, std::string token)
    : raw_{endpoint}, keys_{name}, token_{std::move(token)} {
  for (auto const verb : {Verb::acquire, Verb::keep, Verb::release})
    raw_.command({"SCRIPT", "LOAD", mortise::detail::mutex_script(verb).text});
}

void ScriptedLock::append_acquire(std::chrono::milliseconds lease, std::int64_t wait, std::string_view popped) {
  raw_.append({"EVALSHA", mortise::detail::mutex_script(Verb::acquire).sha, "4", keys_.lock, keys_.fence, keys_.wake, keys_.wait,
               token_, std::to_string(lease.count()), std::to_string(mortise::detail::wall_microseconds()), "604800000",
               std::to_string(wait), popped});
}

std::uint64_t ScriptedLock::acquire(std::int64_t wait, std::string_view popped) {
  append_acquire(ttl, wait, popped);
  auto const reply = raw_.receive();
  return reply.view()[0].integer() == 1 ? static_cast<std::uint64_t>(reply.view()[1].integer()) : 0;
}

std::uint64_t ScriptedLock::acquire_in_two_hops() {
  auto fence = acquire(wait_ms, "");
  while (fence == 0) {
    auto const popped = raw_.command({"BLPOP", keys_.wake, "0"});
    fence = acquire(wait_ms, popped.view()[1].text());
  }
  return fence;
}

std::uint64_t ScriptedLock::acquire_in_one_hop() {
  auto fence = acquire(wait_ms, "");
  while (fence == 0) {
    raw_.append({"BLPOP", keys_.wake, "0"});
    append_acquire(mortise::detail::handoff_lease, wait_ms, "*9007199254740991");
    raw_.receive();
    auto const reply = raw_.receive();
    if (reply.view()[0].integer() == 1) fence = static_cast<std::uint64_t>(reply.view()[1].integer());
  }
  return fence;
}

bool ScriptedLock::release() {
  auto const reply =
      raw_.command({"EVALSHA", mortise::detail::mutex_script(Verb::release).sha, "4", keys_.lock, keys_.fence, keys_.wake, keys_.wait,
                    token_, "500", std::to_string(mortise::detail::wall_microseconds()), "604800000", "0"});
  return reply.view()[0].integer() == 1;
}

}  // namespace bench
