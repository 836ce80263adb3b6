// SPDX-License-Identifier: MIT
// Redis by its bare commands, for the lessons that show what is inside a lock.
#pragma once

#include <chrono>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <hiredis/hiredis.h>

namespace lesson {

class PlainRedis {
 public:
  /// redis://host:port or unix:///path.
  explicit PlainRedis(std::string_view uri) {
    constexpr timeval limit{10, 0};
    constexpr std::string_view by_path = "unix://", by_address = "redis://";
    if (uri.starts_with(by_path)) {
      context_.reset(redisConnectUnixWithTimeout(std::string{uri.substr(by_path.size())}.c_str(), limit));
    } else if (uri.starts_with(by_address)) {
      auto const address = uri.substr(by_address.size());
      auto const colon = address.rfind(':');
      int const port = colon == std::string_view::npos ? 6379 : std::stoi(std::string{address.substr(colon + 1)});
      context_.reset(redisConnectWithTimeout(std::string{address.substr(0, colon)}.c_str(), port, limit));
    }
    if (!context_ || context_->err != 0) throw std::runtime_error{"no connection to " + std::string{uri}};
    redisSetTimeout(context_.get(), limit);
  }

  /// The answer as redis-cli prints it: "OK", "1", a string, "(nil)". An error reply is thrown.
  std::string operator()(std::initializer_list<std::string_view> words) {
    std::vector<char const*> text;
    std::vector<std::size_t> length;
    for (auto const word : words) {
      text.push_back(word.data());
      length.push_back(word.size());
    }
    std::unique_ptr<redisReply, Free> const reply{static_cast<redisReply*>(
        redisCommandArgv(context_.get(), static_cast<int>(text.size()), text.data(), length.data()))};
    if (!reply) throw std::runtime_error{std::string{"Redis does not answer: "} + context_->errstr};
    if (reply->type == REDIS_REPLY_NIL) return "(nil)";
    if (reply->type == REDIS_REPLY_INTEGER) return std::to_string(reply->integer);
    if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error{std::string{reply->str, reply->len}};
    return {reply->str, reply->len};
  }

  /// SET key token NX PX ttl: whether the lock is ours now.
  bool take(std::string_view key, std::string_view token, std::chrono::milliseconds ttl) {
    return (*this)({"SET", key, token, "NX", "PX", std::to_string(ttl.count())}) == "OK";
  }
  /// Deletes the key if it still holds the token; one script, so nothing comes between the look and the delete.
  bool release(std::string_view key, std::string_view token) {
    return (*this)({"EVAL", guarded_delete, "1", key, token}) == "1";
  }

  static constexpr std::string_view guarded_delete =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

 private:
  struct Free {
    void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
    void operator()(redisContext* context) const noexcept { redisFree(context); }
  };
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace lesson
