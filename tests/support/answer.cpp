// SPDX-License-Identifier: MIT
// Reply values: made from hiredis' replies, printed for test reports.
#include "support/answer.hpp"

#include <hiredis/hiredis.h>

#include <ostream>

namespace support {

namespace {

Answer::Kind kind_of(int type) {
  switch (type) {
    case REDIS_REPLY_NIL: return Answer::Kind::nil;
    case REDIS_REPLY_STATUS: return Answer::Kind::status;
    case REDIS_REPLY_ERROR: return Answer::Kind::error;
    case REDIS_REPLY_INTEGER: return Answer::Kind::integer;
    case REDIS_REPLY_ARRAY: return Answer::Kind::array;
#ifdef REDIS_REPLY_MAP
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_SET:
    case REDIS_REPLY_PUSH: return Answer::Kind::array;
    case REDIS_REPLY_BOOL: return Answer::Kind::integer;
#endif
    default: return Answer::Kind::string;
  }
}

}  // namespace

Answer to_answer(redisReply const* reply) {
  Answer answer;
  if (reply == nullptr)
    return answer;
  answer.kind = kind_of(reply->type);
  switch (answer.kind) {
    case Answer::Kind::nil: break;
    case Answer::Kind::integer: answer.integer = reply->integer; break;
    case Answer::Kind::array:
      for (std::size_t index = 0; index < reply->elements; ++index)
        answer.items.push_back(to_answer(reply->element[index]));
      break;
    case Answer::Kind::status:
    case Answer::Kind::error:
    case Answer::Kind::string: answer.text.assign(reply->str, reply->len); break;
  }
  return answer;
}

std::ostream& operator<<(std::ostream& out, Answer const& answer) {
  switch (answer.kind) {
    case Answer::Kind::nil: return out << "(nil)";
    case Answer::Kind::status: return out << '+' << answer.text;
    case Answer::Kind::error: return out << '-' << answer.text;
    case Answer::Kind::integer: return out << ':' << answer.integer;
    case Answer::Kind::string: return out << '"' << answer.text << '"';
    case Answer::Kind::array: break;
  }
  out << '[';
  for (auto const* separator = ""; auto const& item : answer.items) {
    out << separator << item;
    separator = ", ";
  }
  return out << ']';
}

}  // namespace support
