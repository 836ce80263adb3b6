// SPDX-License-Identifier: MIT
// Owner tokens: never the same twice, in whatever thread or process, and readable without giving the lock away.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <mortise/options.hpp>
#include <mortise/token.hpp>

#include "support/catch.hpp"
#include "support/processes.hpp"

using mortise::detail::default_label;
using mortise::detail::label_of;
using mortise::detail::OwnerToken;
using support::matches;

namespace {

std::string fresh(std::string_view label = "me") { return OwnerToken::fresh(label).stored(); }

std::string digits_of(std::string const& stored) { return stored.substr(stored.size() - 32); }

std::int64_t half(std::string const& digits, std::size_t from) {
  return static_cast<std::int64_t>(std::stoull(digits.substr(from, 16), nullptr, 16));
}

}  // namespace

TEST_CASE("a token is the label, a hash sign and 32 hexadecimal digits") {
  CHECK_THAT(fresh("worker-7:1234"), matches("worker-7:1234#[0-9a-f]{32}"));
  CHECK_THAT(fresh("a#b"), matches("a#b#[0-9a-f]{32}"));
  CHECK(OwnerToken::fresh("x") != OwnerToken::fresh("x"));
}

TEST_CASE("a token never looks like a reservation") {
  CHECK_THAT(fresh("h:1234"), matches("@h:1234#[0-9a-f]{32}"));
  CHECK_THAT(fresh("h:"), matches("@h:#[0-9a-f]{32}"));
  CHECK_THAT(fresh("host:1"), matches("host:1#[0-9a-f]{32}"));
  CHECK_THAT(fresh("h"), matches("h#[0-9a-f]{32}"));
}

TEST_CASE("the label of a token is what was asked for, and its digits are not in it") {
  std::string const longest(128, 'x');
  for (std::string const label : {"me", "a#b", "worker-7:1234", "#", longest.c_str()}) {
    auto const stored = fresh(label);
    CHECK(label_of(stored) == label);
    CHECK(label_of(stored).find(digits_of(stored)) == std::string::npos);
  }
  CHECK(label_of(fresh("h:1")) == "@h:1");
  CHECK(label_of(fresh("h:" + std::string(126, 'x'))) == "@h:" + std::string(126, 'x'));
}

TEST_CASE("a value that is no token of ours is never printed") {
  std::string const digits(32, 'a');
  using namespace std::string_literals;
  for (auto const& value : {
           ""s, "#"s, '#' + digits, digits, "secret"s, "h:123"s, "me#" + digits.substr(1), "me#" + digits + 'a',
           "me#" + std::string(32, 'A'), "me#" + std::string(31, 'a') + 'g', "me#" + digits + '\n', "two words#" + digits,
           "me\n#" + digits, "\xc3\xa9#" + digits, "x\0y#"s + digits, std::string(130, 'x') + '#' + digits,
           std::string(100'000, 'x') + '#' + digits,
       }) {
    CAPTURE(value);
    CHECK(label_of(value) == "another client");
  }
}

TEST_CASE("the default label is this host and this process, fit for CLIENT SETNAME") {
  auto const label = default_label();
  CHECK_THAT(label, matches("[A-Za-z0-9._-]{1,64}:[0-9]+"));
  CHECK_THAT(label, support::ends_with(':' + std::to_string(::getpid())));
  CHECK_NOTHROW(mortise::detail::check_client_name(label));
  support::ChildProcess child{[&] {
    auto const own = ':' + std::to_string(::getpid());
    return default_label() != label && default_label().ends_with(own) ? 0 : 1;
  }};
  CHECK(child.wait() == support::ExitStatus::exited(0));
}

TEST_CASE("threads never draw the same token") {
  constexpr std::size_t each = 5000;
  std::vector<std::vector<std::string>> drawn(8);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : drawn)
      threads.emplace_back([&mine] {
        for (std::size_t i = 0; i < each; ++i) mine.push_back(fresh());
      });
  }
  std::set<std::string> all;
  for (auto const& mine : drawn) all.insert(mine.begin(), mine.end());
  CHECK(all.size() == drawn.size() * each);
}

TEST_CASE("100 children forked after the generator was used never repeat a token") {
  constexpr std::size_t children = 100;
  constexpr std::size_t each = 1000;
  support::SharedCounters halves{(children + 1) * each * 2};
  auto const draw = [&](std::size_t process) {
    for (std::size_t i = 0; i < each; ++i) {
      auto const digits = digits_of(fresh());
      halves[(process * each + i) * 2] = half(digits, 0);
      halves[(process * each + i) * 2 + 1] = half(digits, 16);
    }
    return 0;
  };

  (void)fresh();  // leaves a stock in this thread, which every child inherits
  for (std::size_t done = 0; done < children; done += 10) {
    std::vector<support::ChildProcess> batch;
    for (std::size_t i = 0; i < 10; ++i) batch.emplace_back([&draw, process = done + i] { return draw(process); });
    for (auto& child : batch) REQUIRE(child.wait() == support::ExitStatus::exited(0));
  }
  draw(children);  // and so does the parent

  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::size_t i = 0; i < halves.size(); i += 2) seen.emplace(halves[i], halves[i + 1]);
  CHECK(seen.size() == (children + 1) * each);
}
