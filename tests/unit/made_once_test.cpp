// SPDX-License-Identifier: MIT
// What is made once: the same for all threads, and made again where the making failed.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <mortise/detail/made_once.hpp>

#include "support/catch.hpp"

using mortise::detail::MadeOnce;

namespace {

std::atomic<int> made_alive{0};

struct Made {
  explicit Made(int of) : value{of} { ++made_alive; }
  Made(Made const& other) : value{other.value} { ++made_alive; }
  ~Made() { --made_alive; }
  int value;
};

}  // namespace

TEST_CASE("what is made once is made by the first use, and only by it") {
  static constinit MadeOnce<Made> once;
  CHECK(made_alive == 0);
  auto const& first = once.get([] { return Made{1}; });
  CHECK(first.value == 1);
  CHECK(&once.get([]() -> Made { throw std::logic_error{"made twice"}; }) == &first);
  CHECK(made_alive == 1);
}

TEST_CASE("of threads that make it at the same moment all get the first, and the others' are destroyed") {
  static constinit MadeOnce<Made> once;
  auto const before = made_alive.load();
  constexpr int threads = 4;
  std::atomic<int> making{0};
  std::vector<Made const*> seen(threads);
  std::vector<std::thread> makers;
  for (int t = 0; t < threads; ++t)
    makers.emplace_back([&, t] {
      seen[static_cast<std::size_t>(t)] = &once.get([&] {
        ++making;
        while (making < threads) std::this_thread::yield();  // all of them are at it
        return Made{t};
      });
    });
  for (auto& maker : makers) maker.join();
  for (auto const* one : seen) CHECK(one == seen.front());
  CHECK(made_alive == before + 1);
}

TEST_CASE("what could not be made is made at the next use") {
  static constinit MadeOnce<int> once;
  CHECK_THROWS_AS(once.get([]() -> int { throw std::runtime_error{"no"}; }), std::runtime_error);
  CHECK(once.get([] { return 7; }) == 7);
}
