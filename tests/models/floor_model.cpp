// SPDX-License-Identifier: MIT
// Model of the fence counter and its floor: clients and a server whose clocks disagree, a counter that expires or is lost.
// Numbers are small: a tick for a microsecond, a clamp of 2 for the minute. docs/protocol.md has the rule.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "explorer.hpp"

namespace {

using models::Label;

enum class Clamp : std::uint8_t { both_sides, from_above, none };

struct Setup {
  int horizon{18};
  int retention{6};  // of the counter, in ticks of the server's clock
  int clamp{2};
  std::vector<int> clocks{0};  // what clients' clocks say beyond the true time
  int losses{0};
  int quiet_after_loss{0};  // so many ticks from the last grant before a loss to the first one behind it
  int jump{0};              // the server's clock is set once by so much, either way
  Clamp kind{Clamp::both_sides};
};

struct FloorState {
  std::int8_t now, skew, counter, expires, largest, minted_at;
  std::uint8_t lost, losses, jumps, minted;
  std::array<std::uint8_t, 6> spare;
};
static_assert(sizeof(FloorState) == 16);

class FloorModel {
 public:
  using State = FloorState;

  explicit FloorModel(Setup setup) : s_{std::move(setup)} {}

  std::vector<State> starts() const {
    State start{};
    start.now = 5;
    start.largest = start.minted_at = -100;
    return {start};
  }
  unsigned measure(State const&) const { return 0; }
  void canonical(State&) const {}

  template <class Emit>
  void steps(State const& s, Emit&& emit) const {
    if (s.now < s_.horizon) {
      State t = s;
      t.minted = 0;
      ++t.now;
      expire(t);
      emit(t, Label{"a tick: #", 0, t.now}, nullptr);
    }
    if (s.counter != 0 && s.losses < s_.losses) {
      State t = s;
      t.counter = t.expires = 0;
      t.lost = 1;
      ++t.losses;
      emit(t, Label{"the data is lost"}, nullptr);
    }
    if (s.jumps == 0)
      for (int const by : {-s_.jump, s_.jump}) {
        if (by == 0) continue;
        State t = s;
        t.skew = static_cast<std::int8_t>(by);
        t.jumps = 1;
        expire(t);
        emit(t, Label{"the server's clock is set by #", 0, by}, nullptr);
      }
    // One grant in a tick: a counter cannot outrun the clock by counting.
    if (s.minted != 0 || (s.lost != 0 && s.now - s.minted_at < s_.quiet_after_loss)) return;
    for (int const beyond : s_.clocks) {
      State t = s;
      int const fence = std::max(s.counter + 1, clamped(s.now + beyond, s.now + s.skew));
      t.counter = static_cast<std::int8_t>(fence);
      t.expires = static_cast<std::int8_t>(s.now + s.skew + s_.retention);
      t.largest = std::max(s.largest, t.counter);
      t.minted_at = s.now;
      t.lost = 0;
      t.minted = 1;
      emit(t, Label{"a client whose clock says # is granted %", 0, s.now + beyond, fence}, fence <= s.largest ? "S2: a fence is not larger than one before" : nullptr);
    }
  }

  std::string show(State const& s) const {
    return "now " + std::to_string(s.now) + ", server " + std::to_string(s.now + s.skew) + ", counter " + std::to_string(s.counter);
  }

 private:
  static void expire(State& s) {
    if (s.counter != 0 && s.now + s.skew >= s.expires) s.counter = s.expires = 0;
  }
  int clamped(int client, int server) const {
    switch (s_.kind) {
      case Clamp::none: return client;
      case Clamp::from_above: return std::min(client, server + s_.clamp);
      case Clamp::both_sides: break;
    }
    return std::clamp(client, server - s_.clamp, server + s_.clamp);
  }

  Setup s_;
};

}  // namespace

int main(int argc, char** argv) {
  using Row = models::Case<FloorModel>;
  auto const model = [](Setup setup) { return FloorModel{std::move(setup)}; };
  std::vector<int> const wild{-20, -9, -4, -1, 0, 1, 4, 9, 20};
  std::vector<Row> const cases{
      {"the counter expires, clocks up to 20 ticks off", model({.clocks = wild})},
      {"... and lives just longer than both sides of the clamp", model({.retention = 5, .clocks = wild})},
      {"... and lives as long as both sides of the clamp", model({.retention = 4, .clocks = wild}), "S2"},
      {"clamped from above only, a client far behind", model({.clocks = {0, -20}, .kind = Clamp::from_above}), "S2"},
      {"not clamped, a client ahead", model({.clocks = {0, 9}, .kind = Clamp::none}), "S2"},
      {"the server's clock is set by 3, the counter lives 8", model({.retention = 8, .clocks = wild, .jump = 3})},
      {"the server's clock is set by 3, the counter lives 6", model({.clocks = wild, .jump = 3}), "S2"},
      {"data lost twice, clocks agree", model({.losses = 2, .quiet_after_loss = 1})},
      {"data lost twice, clocks 1 tick off, 3 ticks of quiet", model({.clocks = {-1, 0, 1}, .losses = 2, .quiet_after_loss = 3})},
      {"data lost twice, clocks 1 tick off, 2 ticks of quiet", model({.clocks = {-1, 0, 1}, .losses = 2, .quiet_after_loss = 2}), "S2"},
      {"data lost twice, any clocks, quiet beyond both sides of the clamp", model({.clocks = wild, .losses = 2, .quiet_after_loss = 5})},
      {"data lost twice, any clocks, quiet for both sides of the clamp", model({.clocks = wild, .losses = 2, .quiet_after_loss = 4}), "S2"},
  };
  return models::run_cases(cases, argc, argv);
}
