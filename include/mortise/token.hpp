// SPDX-License-Identifier: MIT
// The owner token: the value a lock's key holds, by which the server knows who may release it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <mortise/detail/random.hpp>

namespace mortise::inline v1::detail {

/// `<label>#<32 hex digits>`: for people the label, for the server 128 bits that nobody can guess or repeat. Whoever has
/// the whole token can release the lock: only the label may ever be printed.
class OwnerToken {
 public:
  /// A token that never was before, also in a forked child. Throws std::system_error if the system gives no random bits.
  static OwnerToken fresh(std::string_view label) {
    std::string value;
    value.reserve(1 + label.size() + 1 + digits);
    if (label.starts_with("h:")) value += '@';  // "h:" marks a reservation (docs/protocol.md)
    value += label;
    value += '#';
    for (auto const byte : random_stock().take<digits / 2>()) {
      value += "0123456789abcdef"[byte >> 4];
      value += "0123456789abcdef"[byte & 0xF];
    }
    return OwnerToken{std::move(value)};
  }

  /// What the server stores and compares. Never to be printed.
  std::string const& stored() const noexcept { return value_; }

  friend bool operator==(OwnerToken const&, OwnerToken const&) = default;

  static constexpr std::size_t digits = 32;

 private:
  explicit OwnerToken(std::string value) noexcept : value_{std::move(value)} {}

  std::string value_;
};

/// Who holds a lock, from the value its key holds: the label of a token, or a fixed text for any value that is not ours
/// (it may be somebody's secret). Always printable ASCII without spaces, but for that text.
inline std::string label_of(std::string_view stored_value) {
  constexpr std::string_view foreign = "another client";
  constexpr std::size_t longest_label = 129;  // a client name has at most 128 bytes; one more for '@'
  auto const hash = stored_value.rfind('#');
  if (hash == std::string_view::npos || hash == 0 || hash > longest_label) return std::string{foreign};
  auto const label = stored_value.substr(0, hash);
  auto const random = stored_value.substr(hash + 1);
  auto const is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  auto const is_visible = [](char c) { return c >= '!' && c <= '~'; };
  bool const ours = random.size() == OwnerToken::digits && std::all_of(random.begin(), random.end(), is_hex) &&
                    std::all_of(label.begin(), label.end(), is_visible);
  return std::string{ours ? label : foreign};
}

/// `host:pid` of the calling process, for a client that was given no name. Fit for CLIENT SETNAME: the host is cut to 64
/// bytes, and what is not a letter, a digit, '-', '.' or '_' in it becomes '_'. Costs two system calls.
inline std::string default_label() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name.front() = '\0';  // too long for the buffer: cut or unknown
  std::string_view host{name.data()};
  if (host.empty()) host = "unknown";
  std::string label{host.substr(0, 64)};
  auto const is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
  };
  std::replace_if(label.begin(), label.end(), [&](char c) { return !is_plain(c); }, '_');
  return label + ':' + std::to_string(::getpid());
}

}  // namespace mortise::inline v1::detail
