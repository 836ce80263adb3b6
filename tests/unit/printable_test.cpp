// SPDX-License-Identifier: MIT
// Names in messages: escaped and shortened.
#include <string>

#include <mortise/detail/printable.hpp>

#include "support/catch.hpp"

using mortise::detail::escaped;
using mortise::detail::printable;

TEST_CASE("plain text is printed as it is, in quotes") {
  CHECK(printable("lock:invoice 42 100%") == R"("lock:invoice 42 100%")");
  CHECK(printable("") == R"("")");
}

TEST_CASE("quotes, backslashes, control characters and bytes beyond ASCII are escaped") {
  CHECK(escaped("a\"b\\c") == R"(a\"b\\c)");
  CHECK(escaped("\r\n") == R"(\x0d\x0a)");
  CHECK(escaped(std::string_view{"x\0y", 3}) == R"(x\x00y)");
  CHECK(escaped("\x7f\xf0\x9f") == R"(\x7f\xf0\x9f)");
}

TEST_CASE("whatever bytes a text has, only printable ASCII comes out") {
  for (int byte = 0; byte < 256; ++byte) {
    auto const text = escaped(std::string(3, static_cast<char>(byte)));
    CAPTURE(byte);
    for (char const c : text) CHECK((c >= ' ' && c <= '~'));
  }
}

TEST_CASE("a text of 56 bytes is whole, a longer one keeps its ends and tells its length") {
  CHECK(printable(std::string(56, 'x')) == '"' + std::string(56, 'x') + '"');
  auto const text = printable("head" + std::string(65'000, 'x') + ":~fence");
  CHECK_THAT(text, support::starts_with("\"headxxx"));
  CHECK_THAT(text, support::ends_with(":~fence\" (65011 bytes)"));
  CHECK(text.size() < 100);
  CHECK(printable(std::string(600, '\n')).size() < 300);
}
