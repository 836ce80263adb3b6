// SPDX-License-Identifier: MIT
// Finding the ends of messages.
#include "support/resp_frame.hpp"

#include <charconv>
#include <cstdint>
#include <sstream>

namespace support {

namespace {

constexpr std::int64_t largest_length = std::int64_t{1} << 40;

std::optional<std::int64_t> length_in(std::string_view line) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || end != line.data() + line.size() || value < -1 || value > largest_length)
    return std::nullopt;
  return value;
}

bool is_aggregate(char type) {
  return std::string_view{"*%~>|"}.find(type) != std::string_view::npos;
}

bool is_bulk(char type) {
  return std::string_view{"$=!"}.find(type) != std::string_view::npos;
}

}  // namespace

std::optional<std::size_t> first_frame(std::string_view bytes) {
  std::size_t at = 0;
  for (std::int64_t wanted = 1; wanted > 0; --wanted) {
    auto const line_end = bytes.find('\n', at);
    if (line_end == std::string_view::npos)
      return std::nullopt;
    char const type = bytes[at];
    auto line = bytes.substr(at + 1, line_end - at - 1);
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    at = line_end + 1;
    if (!is_bulk(type) && !is_aggregate(type))
      continue;
    auto const length = length_in(line);
    if (!length)
      return bytes.size();
    if (is_bulk(type) && *length >= 0)
      at += static_cast<std::size_t>(*length) + 2;
    if (is_aggregate(type) && *length > 0)
      wanted += type == '%' ? *length * 2 : type == '|' ? *length * 2 + 1 : *length;
    if (at > bytes.size())
      return std::nullopt;
  }
  return at;
}

std::vector<std::string> words_of(std::string_view frame) {
  std::vector<std::string> words;
  if (frame.empty() || frame.front() != '*') {
    std::istringstream line{std::string{frame}};
    for (std::string word; line >> word;)
      words.push_back(word);
    return words;
  }
  for (auto at = frame.find('\n') + 1; at < frame.size() && frame[at] == '$';) {
    auto const line_end = frame.find("\r\n", at);
    auto const length = length_in(frame.substr(at + 1, line_end - at - 1)).value_or(0);
    auto const size = static_cast<std::size_t>(length < 0 ? 0 : length);
    words.emplace_back(frame.substr(line_end + 2, size));
    at = line_end + 2 + size + 2;
  }
  return words;
}

}  // namespace support
