// SPDX-License-Identifier: MIT
// Visits every state of a small model, breadth first, and tells the shortest way to a state that is wrong.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace models {

/// What a step is called. In `text`, '@' stands for `who` as a letter, '#' and '%' for the two numbers.
struct Label {
  char const* text;
  int who{0}, first{0}, second{0};

  std::string str() const {
    std::string out;
    for (char const c : std::string_view{text}) {
      if (c == '@')
        out += static_cast<char>('a' + who);
      else if (c == '#')
        out += std::to_string(first);
      else if (c == '%')
        out += std::to_string(second);
      else
        out += c;
    }
    return out;
  }
};

struct Visit {
  std::size_t states{0};
  std::size_t steps{0};
  char const* wrong{nullptr};
  unsigned worst{0};  ///< the largest Model::measure() of all states
  std::vector<std::string> trace{};
  double seconds{0};
};

/// A Model has a State (plain bytes, no holes), starts(), steps(state, emit) with emit(State, Label, wrong or nullptr),
/// canonical(state), measure(state), show(state).
template <class Model>
class Explorer {
 public:
  using State = typename Model::State;
  static_assert(std::is_trivially_copyable_v<State> && sizeof(State) % 8 == 0);

  explicit Explorer(Model const& model) : model_{model}, table_(std::size_t{1} << 16, empty) {}

  Visit run() {
    auto const began = std::chrono::steady_clock::now();
    for (auto start : model_.starts()) {
      model_.canonical(start);
      add(start, empty);
    }
    std::uint32_t last = empty;
    for (std::uint32_t at = 0; at < states_.size() && visit_.wrong == nullptr; ++at) {
      State const from = states_[at];
      visit_.worst = std::max(visit_.worst, model_.measure(from));
      model_.steps(from, [&](State to, Label const&, char const* wrong) {
        if (visit_.wrong != nullptr) return;
        ++visit_.steps;
        if (wrong != nullptr) {
          visit_.wrong = wrong;
          last = at;
          return;
        }
        model_.canonical(to);
        add(to, at);
      });
    }
    visit_.states = states_.size();
    if (visit_.wrong != nullptr) replay(last);
    visit_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(visit_);
  }

 private:
  static constexpr std::uint32_t empty = 0xFFFFFFFF;

  static std::uint64_t hash(State const& state) {
    std::array<std::uint64_t, sizeof(State) / 8> words;
    std::memcpy(words.data(), &state, sizeof state);
    std::uint64_t mixed = 0x9E3779B97F4A7C15;
    for (auto const word : words) {
      mixed = (mixed ^ word) * 0xBF58476D1CE4E5B9;
      mixed ^= mixed >> 29;
    }
    return mixed * 0x94D049BB133111EB;
  }
  static bool same(State const& a, State const& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

  void add(State const& state, std::uint32_t parent) {
    if ((states_.size() + 1) * 2 > table_.size()) grow();
    auto slot = hash(state) >> shift();
    for (; table_[slot] != empty; slot = (slot + 1) & (table_.size() - 1))
      if (same(states_[table_[slot]], state)) return;
    table_[slot] = static_cast<std::uint32_t>(states_.size());
    states_.push_back(state);
    parents_.push_back(parent);
  }
  unsigned shift() const { return 64U - static_cast<unsigned>(__builtin_ctzll(table_.size())); }
  void grow() {
    table_.assign(table_.size() * 2, empty);
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      auto slot = hash(states_[i]) >> shift();
      while (table_[slot] != empty) slot = (slot + 1) & (table_.size() - 1);
      table_[slot] = i;
    }
  }

  /// The way once more, without the exchanges of canonical(), so that everybody keeps the name they began with.
  void replay(std::uint32_t last) {
    std::vector<std::uint32_t> way;
    for (auto at = last; at != empty; at = parents_[at]) way.push_back(at);
    std::reverse(way.begin(), way.end());
    auto now = states_[way.front()];
    visit_.trace.push_back("   " + model_.show(now));
    for (std::size_t step = 1; step <= way.size(); ++step) {
      bool found = false;
      auto const from = now;
      model_.steps(from, [&](State to, Label const& label, char const* wrong) {
        if (found || (wrong != nullptr) != (step == way.size())) return;
        auto plain = to;
        model_.canonical(plain);
        if (wrong == nullptr && !same(plain, states_[way[step]])) return;
        found = true;
        now = to;
        auto line = std::to_string(step) + ". " + label.str();
        line.resize(std::max<std::size_t>(line.size() + 2, 58), ' ');
        visit_.trace.push_back(line + model_.show(to));
      });
    }
  }

  Model const& model_;
  std::vector<State> states_{};
  std::vector<std::uint32_t> parents_{};
  std::vector<std::uint32_t> table_;
  Visit visit_{};
};

/// One line of a program's list: a model that must hold, or that must be found wrong in the way it says.
template <class Model>
struct Case {
  char const* name;
  Model model;
  char const* wrong{nullptr};  ///< the beginning of what has to be found; nothing: it holds
  bool quick{true};            ///< also in a short run
};

/// Runs a list. `--quick`: the short ones; `--trace`: with the way to every fault. Returns what main() has to.
template <class Model>
int run_cases(std::vector<Case<Model>> const& cases, int argc, char** argv, char const* measured = nullptr) {
  bool quick = false;
  bool trace = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view const word{argv[i]};
    if (word == "--quick") {
      quick = true;
    } else if (word == "--trace") {
      trace = true;
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--trace]\n", argv[0]);
      return 64;
    }
  }
  bool all_expected = true;
  for (auto const& [name, model, wrong, is_quick] : cases) {
    if (quick && !is_quick) continue;
    auto const visit = Explorer<Model>{model}.run();
    bool const expected = wrong == nullptr ? visit.wrong == nullptr
                                           : visit.wrong != nullptr && std::string_view{visit.wrong}.starts_with(wrong);
    all_expected = all_expected && expected;
    std::printf("%-9s %-70s %10zu states %6.1f s", visit.wrong == nullptr ? "HOLDS" : "BROKEN", name, visit.states, visit.seconds);
    if (measured != nullptr && visit.wrong == nullptr) std::printf("   %s %u", measured, visit.worst);
    std::printf("%s\n", expected ? "" : "   NOT AS EXPECTED");
    if (visit.wrong != nullptr) {
      std::printf("          %s\n", visit.wrong);
      if (trace || !expected)
        for (auto const& line : visit.trace) std::printf("            %s\n", line.c_str());
    }
    std::fflush(stdout);
  }
  return all_expected ? 0 : 1;
}

}  // namespace models
