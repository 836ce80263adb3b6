// SPDX-License-Identifier: MIT
// One reply of a Redis server as a value.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

struct redisReply;

namespace support {

/// A reply, binary-safe and comparable; RESP3 maps, sets and pushes are arrays, its doubles and the like strings.
struct Answer {
  enum class Kind { nil, status, error, integer, string, array };

  Kind kind = Kind::nil;
  /// The text of a status, an error or a string.
  std::string text{};
  std::int64_t integer = 0;
  std::vector<Answer> items{};

  bool is_nil() const { return kind == Kind::nil; }
  bool is_error() const { return kind == Kind::error; }
  bool is_ok() const { return kind == Kind::status && text == "OK"; }

  friend bool operator==(Answer const&, Answer const&) = default;
  friend std::ostream& operator<<(std::ostream& out, Answer const& answer);
};

/// A copy of hiredis' reply; an absent one is nil.
Answer to_answer(redisReply const* reply);

}  // namespace support
