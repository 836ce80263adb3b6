// SPDX-License-Identifier: MIT
// Where one message of the Redis protocol ends and the next begins, for proxies and fake servers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace support {

/// The length of the first whole message (a command or a reply, RESP2 or RESP3) in `bytes`, if it is there to its end.
/// What is no RESP ends with its line; a length that makes no sense makes all of `bytes` one message.
std::optional<std::size_t> first_frame(std::string_view bytes);

/// The words of a command's frame, as an array of strings or as a plain line.
std::vector<std::string> words_of(std::string_view frame);

}  // namespace support
