// SPDX-License-Identifier: MIT
// Random bytes from a system that interrupts, gives less than asked for, or fails.
#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <system_error>
#include <vector>

#include <mortise/detail/random.hpp>

#include "support/catch.hpp"

using mortise::detail::fill_random;
using mortise::detail::RandomStock;

namespace {

/// Gives one answer after the other: a number of bytes, or minus an errno. The bytes count up from 1.
struct ScriptedSource {
  std::vector<int> answers{};
  std::size_t asked{0};
  unsigned char next{1};

  ssize_t operator()(unsigned char* to, std::size_t size) {
    auto const answer = answers.at(asked++);
    if (answer < 0) {
      errno = -answer;
      return -1;
    }
    auto const count = std::min(size, static_cast<std::size_t>(answer));
    for (std::size_t i = 0; i < count; ++i) to[i] = next++;
    return static_cast<ssize_t>(count);
  }
};

}  // namespace

TEST_CASE("interruptions and partial answers still fill every byte once") {
  std::array<unsigned char, 10> bytes{};
  ScriptedSource source{{-EINTR, 3, -EINTR, -EINTR, 1, 100}};
  fill_random(bytes, source);
  CHECK(source.asked == 6);
  CHECK(bytes == std::array<unsigned char, 10>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE("a system that has no random bytes is an error, never a weaker generator") {
  std::array<unsigned char, 10> bytes{};
  auto const code_of = [&](std::vector<int> answers) {
    try {
      fill_random(bytes, ScriptedSource{std::move(answers)});
    } catch (std::system_error const& error) {
      return error.code();
    }
    return std::error_code{};
  };
  CHECK(code_of({-ENOSYS}) == std::errc::function_not_supported);
  CHECK(code_of({4, -EIO}) == std::errc::io_error);
  CHECK(code_of({0}) == std::errc::io_error);
}

TEST_CASE("a stock never hands out the same bytes twice, also across refills") {
  RandomStock stock;
  std::set<std::array<unsigned char, 16>> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(stock.take<16>());
  CHECK(seen.size() == 1000);
}

TEST_CASE("a stock serves pieces of any size up to its own") {
  RandomStock stock;
  std::array<unsigned char, 512> const none{};
  for (int i = 0; i < 20; ++i) {
    CHECK(stock.take<512>() != none);
    CHECK(stock.take<24>() != stock.take<24>());
  }
}

TEST_CASE("random bytes have about as many ones as zeros in every place") {
  std::array<int, 128> ones{};
  constexpr int rounds = 4000;
  for (int i = 0; i < rounds; ++i) {
    auto const bytes = mortise::detail::random_stock().take<16>();
    for (std::size_t bit = 0; bit < ones.size(); ++bit) ones[bit] += bytes[bit / 8] >> bit % 8 & 1;
  }
  auto const [fewest, most] = std::minmax_element(ones.begin(), ones.end());
  CHECK(*fewest > rounds / 2 - 300);  // nine standard deviations
  CHECK(*most < rounds / 2 + 300);
}
