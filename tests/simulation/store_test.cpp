// SPDX-License-Identifier: MIT
// The simulated server's scripts answer like those of a real one: random requests to both, the same answers and keys.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <mortise/key.hpp>
#include <mortise/mutex_scripts.hpp>

#include "simulation/random.hpp"
#include "simulation/store.hpp"
#include "support/catch.hpp"
#include "support/redis_server.hpp"

namespace {

using mortise::detail::Verb;
using simulation::Random;
using simulation::ScriptAnswer;
using simulation::Store;

constexpr std::int64_t hour = 3'600'000;  // in ms: nothing runs out by itself while the test runs

/// One store and one real server that are asked the same.
class Twins {
 public:
  /// Asks both. The time is the real server's: what it says in its answer, or else what it said just before.
  void ask(Verb verb, std::vector<std::string> arguments) {
    auto const told = server_.command({"TIME"});
    auto now = std::stoll(told.items[0].text) * 1'000'000 + std::stoll(told.items[1].text);
    std::vector<std::string> words{"EVAL", std::string{mortise::detail::mutex_script(verb).text}};
    bool const keeps = verb == Verb::keep;
    words.emplace_back(keeps ? "2" : "4");
    words.insert(words.end(), {keys_.lock, keys_.fence});
    if (!keeps) words.insert(words.end(), {keys_.wake, keys_.wait});
    words.insert(words.end(), arguments.begin(), arguments.end());
    auto const real = server_.command(words);
    if (verb == Verb::acquire && real.items.size() == 3) now = real.items[2].integer;
    store_.set_time(now);

    Store::LockNames const names{keys_.lock, keys_.fence, keys_.wake, keys_.wait};
    auto const simulated = verb == Verb::acquire ? store_.acquire(names, arguments)
                           : keeps               ? store_.keep(names, arguments)
                                                 : store_.release(names, arguments);
    compare(verb, simulated, real);
    compare_keys();
  }

  /// The same done to both by somebody else.
  void set(std::string const& value, std::int64_t ttl) {
    server_.command({"SET", keys_.lock, value, "PX", std::to_string(ttl)});
    store_.set(keys_.lock, value, ttl);
  }
  void remove(std::string const& key) {
    server_.command({"DEL", key});
    store_.remove(key);
  }
  void pop() {
    auto const real = server_.command({"LPOP", keys_.wake});
    CHECK(store_.pop_front(keys_.wake) == (real.is_nil() ? std::nullopt : std::optional{real.text}));
  }
  std::string fence() { return store_.get(keys_.fence).value_or("0"); }
  std::int64_t time() const { return store_.time(); }
  mortise::detail::LockKeys const& keys() const { return keys_; }

 private:
  static bool about_equal(std::int64_t a, std::int64_t b) { return a == b || (a > 0 && b > 0 && std::llabs(a - b) < hour / 4); }

  void compare(Verb verb, ScriptAnswer const& simulated, support::Answer const& real) {
    if (!simulated.error.empty()) {
      REQUIRE(real.is_error());
      CHECK(real.text.find(simulated.error.substr(0, 9)) != std::string::npos);
      return;
    }
    INFO(real.text);
    REQUIRE_FALSE(real.is_error());
    if (simulated.one_number) {
      CHECK(real.integer == simulated.numbers[0]);
      return;
    }
    REQUIRE(real.items.size() == simulated.numbers.size());
    CHECK(real.items[0].integer == simulated.numbers[0]);
    bool const fence = verb == Verb::acquire && simulated.numbers[0] == 1;
    CHECK((fence ? real.items[1].integer == simulated.numbers[1] : about_equal(real.items[1].integer, simulated.numbers[1])));
  }

  void compare_keys() {
    for (auto const& key : {keys_.lock, keys_.fence, keys_.wake, keys_.wait}) {
      INFO(key);
      CHECK(about_equal(server_.command({"PTTL", key}).integer, store_.pttl(key)));
    }
    auto const text = [&](std::string const& key) {
      auto const real = server_.command({"GET", key});
      return real.is_nil() ? std::nullopt : std::optional{real.text};
    };
    auto const counter = text(keys_.fence);
    auto const clamped = store_.get(keys_.fence);
    if (counter && clamped && *counter != *clamped) {
      // RELEASE does not tell its time: where the clamp decides, the two may be apart by as much as that took.
      CHECK(std::llabs(std::stoll(*counter) - std::stoll(*clamped)) < 5'000'000);
      store_.set(keys_.fence, *counter, store_.pttl(keys_.fence));
      auto const owner = store_.get(keys_.lock);
      if (owner && *owner == "h:" + *clamped) {
        store_.set(keys_.lock, "h:" + *counter, store_.pttl(keys_.lock));
        auto const life = store_.pttl(keys_.wake);
        if (store_.pop_front(keys_.wake)) store_.set_list(keys_.wake, *counter, life);
      }
    }
    CHECK(text(keys_.lock) == store_.get(keys_.lock));
    CHECK(text(keys_.fence) == store_.get(keys_.fence));
  }

  support::RedisServer server_{};
  Store store_{};
  mortise::detail::LockKeys keys_{"lock:twins"};
};

std::string any_of(Random& random, std::vector<std::string> const& all) { return all[random.below(all.size())]; }

}  // namespace

TEST_CASE("the simulated scripts answer like a real server's") {
  auto const seed = GENERATE(1U, 2U, 3U);
  Random random{seed};
  Twins twins;
  twins.ask(Verb::release, {"", "500", "1", "604800000", "3000"});
  for (int step = 0; step < 400; ++step) {
    auto const token = any_of(random, {"a#1", "b#2", "c#3"});
    auto const ttl = any_of(random, {std::to_string(hour), std::to_string(2 * hour), std::to_string(4 * hour)});
    auto const retention = std::to_string(24 * hour);
    auto const ahead = random.between(-90, 90) * 1'000'000;
    auto const floor = any_of(random, {"1", "9007199254740991", std::to_string(twins.time() + ahead)});
    auto const wait = any_of(random, {"0", std::to_string(hour), std::to_string(2 * hour)});
    INFO("seed " << seed << ", step " << step);
    switch (random.below(10)) {
      case 0:
      case 1:
      case 2: {
        auto const popped = any_of(random, {"", "", twins.fence(), "*" + std::to_string(twins.time() + 60'000'000),
                                            "*" + std::to_string(twins.time() - 60'000'000), "*", "17"});
        twins.ask(Verb::acquire, {token, ttl, floor, retention, wait, popped});
        break;
      }
      case 3:
      case 4: {
        auto const fence = any_of(random, {twins.fence(), "1", std::to_string(std::stoll(twins.fence()) + 5)});
        twins.ask(Verb::keep, {token, ttl, fence, retention});
        break;
      }
      case 5:
      case 6:
      case 7: {
        auto const owner = any_of(random, {token, token, "", "h:" + twins.fence(), "h:3"});
        twins.ask(Verb::release, {owner, std::to_string(hour), floor, retention, wait});
        break;
      }
      case 8: twins.pop(); break;
      default:
        switch (random.below(5)) {
          case 0: twins.set(any_of(random, {"", "foreign", "h:9", "h:"}), hour); break;
          case 1: twins.remove(twins.keys().lock); break;
          case 2: twins.remove(twins.keys().fence); break;
          case 3: twins.remove(twins.keys().wake); break;
          default: twins.remove(twins.keys().wait); break;
        }
    }
  }
}
