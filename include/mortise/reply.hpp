// SPDX-License-Identifier: MIT
// A reply of the server, owned, and looked at by type: a reply of another shape is a defined error, never a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <hiredis/hiredis.h>

#include <mortise/error.hpp>

namespace mortise::inline v1::detail {

/// Looks at a reply that somebody else owns.
class ReplyView {
 public:
  explicit ReplyView(redisReply const* reply) noexcept : reply_{reply} {}

  bool is_error() const noexcept { return has(REDIS_REPLY_ERROR); }
  bool is_nil() const noexcept { return has(REDIS_REPLY_NIL); }
  bool is_integer() const noexcept { return has(REDIS_REPLY_INTEGER); }
  bool is_array() const noexcept { return has(REDIS_REPLY_ARRAY); }
  bool is_text() const noexcept { return has(REDIS_REPLY_STRING) || has(REDIS_REPLY_STATUS) || has(REDIS_REPLY_ERROR); }

  std::int64_t integer() const { return is_integer() ? reply_->integer : throw unexpected("an integer"); }
  std::string_view text() const { return is_text() ? std::string_view{reply_->str, reply_->len} : throw unexpected("a string"); }
  std::size_t size() const noexcept { return is_array() ? reply_->elements : 0; }
  ReplyView operator[](std::size_t i) const { return i < size() ? ReplyView{reply_->element[i]} : throw unexpected("a longer array"); }

 private:
  bool has(int type) const noexcept { return reply_ != nullptr && reply_->type == type; }

  /// The stream may be out of step: whoever gets this closes the connection.
  Error unexpected(char const* wanted) const {
    auto const type = reply_ == nullptr ? std::string{"nothing"} : "a reply of type " + std::to_string(reply_->type);
    return Error{Errc::connection_lost, "protocol error: expected " + std::string{wanted} + ", got " + type}.unanswered();
  }

  redisReply const* reply_;
};

/// Owns a reply.
class Reply {
 public:
  Reply() = default;
  explicit Reply(void* reply) noexcept : reply_{static_cast<redisReply*>(reply)} {}

  ReplyView view() const noexcept { return ReplyView{reply_.get()}; }
  ReplyView operator*() const noexcept { return view(); }

  struct Arrow {
    ReplyView view;
    ReplyView const* operator->() const noexcept { return &view; }
  };
  Arrow operator->() const noexcept { return {view()}; }

 private:
  struct Free {
    void operator()(redisReply* reply) const noexcept { ::freeReplyObject(reply); }
  };
  std::unique_ptr<redisReply, Free> reply_{};
};

}  // namespace mortise::inline v1::detail
