// SPDX-License-Identifier: MIT
// Any bytes are a URI that is taken or refused, and a refusal shows nothing of them that may be a password.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <mortise/uri.hpp>

namespace {

using mortise::detail::parse_uri;

void check(bool right) {
  if (!right) std::abort();
}

/// The refusal's text, or nothing if the URI is taken.
std::string refusal_of(std::string_view text) {
  try {
    auto const uri = parse_uri(text);
    mortise::ClientOptions options;
    mortise::detail::apply(uri, options);
    check(uri.port != 0);
    check(uri.db >= 0);
    check(uri.path.empty() == (uri.scheme == mortise::detail::Uri::Scheme::tcp));
    check(uri.endpoint().find('\n') == std::string::npos);
    static_cast<void>(mortise::detail::checked(options));
    return {};
  } catch (mortise::Error const& error) {
    check(error.errc() == mortise::Errc::invalid_option);
    return error.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const bytes{reinterpret_cast<char const*>(data), size};
  static_cast<void>(refusal_of(bytes));
  // The same bytes around a password: whatever is wrong with them, it is not shown.
  constexpr std::string_view secret = "s3cr3tw0rd";
  if (bytes.find(secret) != std::string_view::npos) return 0;  // found out by the fuzzer, and put anywhere
  auto const middle = size / 2;
  for (auto const& uri : {"redis://user:" + std::string{secret} + std::string{bytes}, "redis://" + std::string{bytes} + ":" + std::string{secret} + "@host",
                          "redis://" + std::string{bytes.substr(0, middle)} + std::string{secret} + std::string{bytes.substr(middle)} + "@host"})
    check(refusal_of(uri).find(secret) == std::string::npos);
  return 0;
}
