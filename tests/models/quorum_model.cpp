// SPDX-License-Identifier: MIT
// Model of the quorum's fences: grants at N nodes, the raise round, renewals. Nothing is assumed about time: a lease may end
// at any moment, a request or answer may be lost, late, out of order or doubled. docs/quorum.md has the rules.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "explorer.hpp"

namespace {

using models::Label;

enum class Flaw : std::uint8_t {
  none,
  no_raise,               // q grants: the largest fence is taken as it is
  keep_compares_nothing,  // KEEP raises whatever it finds
  keep_without_fence,     // KEEP looks at the owner alone
  renewal_without_fence,  // only renewals do
  late_grant_counts,      // a grant that comes during the raise counts as a confirmation
};

struct Setup {
  int nodes{3};
  int needed{0};       // 0: a majority
  int attempts{2};
  int repeats{0};      // of grant requests, over all nodes
  int first_fence{0};  // nodes begin with any counters up to here
  std::vector<int> floors{0};
  int losses{0};       // nodes that lose all data
  bool renews{false};
  Flaw flaw{Flaw::none};

  int quorum() const { return needed != 0 ? needed : nodes / 2 + 1; }
};

constexpr int most_nodes = 5, most_attempts = 3;

enum Phase : std::uint8_t { idle, granting, raising, complete };

struct Cell {  // one attempt at one node
  std::uint8_t asked : 2;   // so many of its ACQUIREs were carried out
  std::uint8_t raised : 2;  // 1: KEEP said yes, 2: will not take part
  std::uint8_t kept : 1;    // said yes in the renewal under way
  std::uint8_t fence;       // of the grant that was heard
  std::uint8_t tenure;      // order of the grant it was confirmed by
};
struct Node {
  std::uint8_t holder, counter, tenures;
  std::array<Cell, most_attempts> cells;
};
struct Attempt {
  std::uint8_t phase, fence, floor;
  std::uint8_t before;   // the largest fence that was complete when it began
  std::uint8_t renewal;  // 1 + the largest fence that was complete when its renewal began
};
struct QuorumState {
  std::array<Node, most_nodes> nodes;
  std::array<Attempt, most_attempts> attempts;
  std::uint8_t lost, repeated;
  std::array<std::uint8_t, 3> spare;
};
static_assert(sizeof(Node) == 12 && sizeof(QuorumState) == 80);

class QuorumModel {
 public:
  using State = QuorumState;

  explicit QuorumModel(Setup setup) : s_{std::move(setup)} {}

  std::vector<State> starts() const {
    std::vector<State> all;
    State start{};
    std::function<void(int, int)> const fill = [&](int node, int least) {
      if (node == s_.nodes) return all.push_back(start);
      for (int fence = least; fence <= s_.first_fence; ++fence) {
        start.nodes[node].counter = byte(fence);
        fill(node + 1, fence);
      }
    };
    fill(0, 0);
    return all;
  }
  unsigned measure(State const&) const { return 0; }

  template <class Emit>
  void steps(State const& s, Emit&& emit) const {
    for (int a = 0; a < s_.attempts; ++a) {
      if (s.attempts[a].phase != idle) continue;
      for (int const floor : s_.floors) {
        State t = s;
        t.attempts[a].phase = granting;
        t.attempts[a].floor = byte(floor);
        t.attempts[a].before = largest_complete(s);
        emit(t, Label{"@ begins, floor #", a, floor}, nullptr);
      }
      break;  // they are alike: the first begins first
    }
    for (int a = 0; a < s_.attempts; ++a) {
      if (s.attempts[a].phase == idle) continue;
      for (int n = 0; n < s_.nodes; ++n) {
        grant_step(s, a, n, emit);
        keep_step(s, a, n, emit);
      }
      if (s.attempts[a].phase == complete && s_.renews && s.attempts[a].renewal == 0) {
        State t = s;
        t.attempts[a].renewal = byte(1 + largest_complete(s));
        emit(t, Label{"@ begins a renewal", a}, nullptr);
      }
    }
    for (int n = 0; n < s_.nodes; ++n) {
      if (s.nodes[n].holder != 0) {
        State t = s;
        t.nodes[n].holder = 0;
        emit(t, Label{"node #: @'s lease ends, or it is released", s.nodes[n].holder - 1, n}, nullptr);
      }
      if (s.lost < s_.losses && (s.nodes[n].holder != 0 || s.nodes[n].counter != 0)) {
        State t = s;
        ++t.lost;
        t.nodes[n].holder = t.nodes[n].counter = 0;
        emit(t, Label{"node # loses its data", 0, n}, nullptr);
      }
    }
  }

  /// Nodes are alike; of tenures only the order matters.
  void canonical(State& s) const {
    for (int n = 0; n < s_.nodes; ++n) {
      auto& node = s.nodes[n];
      std::array<std::uint8_t, 16> seen{};
      int count = 0;
      for (auto const& cell : node.cells)
        if (cell.tenure != 0) seen[count++] = cell.tenure;
      if (node.tenures != 0) seen[count++] = node.tenures;
      std::sort(seen.begin(), seen.begin() + count);
      auto const end = std::unique(seen.begin(), seen.begin() + count);
      auto const rank = [&](std::uint8_t& tenure) {
        if (tenure != 0) tenure = static_cast<std::uint8_t>(std::lower_bound(seen.begin(), end, tenure) - seen.begin() + 1);
      };
      for (auto& cell : node.cells) rank(cell.tenure);
      rank(node.tenures);
    }
    std::sort(s.nodes.begin(), s.nodes.begin() + s_.nodes, [](Node const& a, Node const& b) { return std::memcmp(&a, &b, sizeof a) < 0; });
  }

  std::string show(State const& s) const {
    std::string text;
    for (int n = 0; n < s_.nodes; ++n)
      text += std::string("[") + (s.nodes[n].holder != 0 ? static_cast<char>('a' + s.nodes[n].holder - 1) : '-') + " " + std::to_string(s.nodes[n].counter) + "]";
    static constexpr std::array names{"", " asks", " raises to ", " HOLDS "};
    for (int a = 0; a < s_.attempts; ++a) {
      auto const& attempt = s.attempts[a];
      if (attempt.phase == idle) continue;
      text += std::string("  ") + static_cast<char>('a' + a) + names[attempt.phase];
      if (attempt.phase != granting) text += std::to_string(attempt.fence);
    }
    return text;
  }

 private:
  static std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }
  std::uint8_t largest_complete(State const& s) const {
    std::uint8_t largest = 0;
    for (auto const& attempt : s.attempts)
      if (attempt.phase == complete) largest = std::max(largest, attempt.fence);
    return largest;
  }

  /// ACQUIRE is carried out at a node, in time or long after its attempt is over, and heard or not.
  template <class Emit>
  void grant_step(State const& s, int a, int n, Emit& emit) const {
    auto const& node = s.nodes[n];
    auto const& cell = node.cells[a];
    bool const again = cell.asked > 0;
    if (cell.asked > 1 || (again && s.repeated >= s_.repeats)) return;
    State t = s;
    auto& to = t.nodes[n];
    ++to.cells[a].asked;
    if (again) ++t.repeated;
    if (node.holder == 0) {
      to.holder = byte(a + 1);
      to.counter = std::max(byte(node.counter + 1), s.attempts[a].floor);
      ++to.tenures;
    } else if (node.holder != byte(a + 1)) {
      return;  // busy: changes nothing
    }
    emit(t, Label{again ? "node #: @'s ACQUIRE again, nobody hears: %" : "node #: @'s ACQUIRE, nobody hears: %", a, n, to.counter}, nullptr);
    auto const phase = s.attempts[a].phase;
    if (phase != granting && phase != raising) return;
    to.cells[a].fence = to.counter;
    to.cells[a].tenure = to.tenures;
    char const* wrong = nullptr;
    if (phase == raising) {  // may join, unless its own fence is beyond
      to.cells[a].raised = to.counter <= s.attempts[a].fence ? 0 : 2;
      if (s_.flaw == Flaw::late_grant_counts) {
        to.cells[a].raised = 1;
        wrong = decide_raise(t, a);
      }
    } else {
      wrong = decide_grant(t, a);
    }
    emit(t, Label{again ? "node #: @'s ACQUIRE again: granted %" : "node #: @'s ACQUIRE: granted %", a, n, to.counter}, wrong);
  }

  /// KEEP of the raise or of a renewal is carried out at a node, and heard or not.
  template <class Emit>
  void keep_step(State const& s, int a, int n, Emit& emit) const {
    auto const& attempt = s.attempts[a];
    auto const& cell = s.nodes[n].cells[a];
    bool const raises = attempt.phase == raising && cell.fence != 0 && cell.raised == 0;
    bool const renews = attempt.phase == complete && attempt.renewal != 0 && cell.kept == 0;
    bool const stray = attempt.phase == complete && cell.fence != 0 && attempt.renewal == 0;  // one that took its time
    if (!raises && !renews && !stray) return;
    State t = s;
    auto& to = t.nodes[n];
    bool const owns = to.holder == byte(a + 1);
    bool const looks = s_.flaw == Flaw::none || s_.flaw == Flaw::no_raise || s_.flaw == Flaw::late_grant_counts ||
                       (s_.flaw == Flaw::renewal_without_fence && raises);
    if (s_.flaw != Flaw::keep_compares_nothing && !owns) return;
    if (looks && to.counter > attempt.fence) return;
    to.counter = std::max(to.counter, attempt.fence);
    emit(t, Label{"node #: @'s KEEP(%) is carried out, nobody hears", a, n, attempt.fence}, nullptr);
    if (stray) return;
    char const* wrong = nullptr;
    if (raises) {
      to.cells[a].raised = 1;
      if (owns) to.cells[a].tenure = to.tenures;
      wrong = decide_raise(t, a);
    } else {
      to.cells[a].kept = 1;
      int yes = 0;
      for (auto const& node : t.nodes) yes += node.cells[a].kept;
      if (yes >= s_.quorum()) {
        if (attempt.renewal - 1 > attempt.fence) wrong = "renewal: succeeds although a later holder was complete before it began";
        t.attempts[a].renewal = 0;
        for (auto& node : t.nodes) node.cells[a].kept = 0;
      }
    }
    emit(t, Label{"node #: @'s KEEP(%): yes", a, n, attempt.fence}, wrong);
  }

  /// A grant was heard: complete, time to raise, or not yet.
  char const* decide_grant(State& s, int a) const {
    int grants = 0;
    std::uint8_t largest = 0;
    for (auto const& node : s.nodes) {
      auto const fence = node.cells[a].fence;
      if (fence == 0) continue;
      ++grants;
      largest = std::max(largest, fence);
    }
    for (auto const& node : s.nodes) {
      auto const fence = node.cells[a].fence;
      if (fence == 0) continue;
      auto const alike = std::count_if(s.nodes.begin(), s.nodes.end(), [&](Node const& other) { return other.cells[a].fence == fence; });
      if (alike >= s_.quorum()) return completed(s, a, fence, [&](Cell const& cell) { return cell.fence == fence; });
    }
    if (grants < s_.quorum()) return nullptr;
    if (s_.flaw == Flaw::no_raise) return completed(s, a, largest, [](Cell const& cell) { return cell.fence != 0; });
    s.attempts[a].phase = raising;
    s.attempts[a].fence = largest;
    return nullptr;
  }

  char const* decide_raise(State& s, int a) const {
    auto const yes = std::count_if(s.nodes.begin(), s.nodes.end(), [&](Node const& node) { return node.cells[a].raised == 1; });
    if (yes < s_.quorum()) return nullptr;
    return completed(s, a, s.attempts[a].fence, [](Cell const& cell) { return cell.raised == 1; });
  }

  template <class Confirmed>
  char const* completed(State& s, int a, std::uint8_t fence, Confirmed&& confirmed) const {
    auto& attempt = s.attempts[a];
    attempt.phase = complete;
    attempt.fence = fence;
    for (auto& node : s.nodes) {
      auto& cell = node.cells[a];
      if (!confirmed(cell)) cell.tenure = 0;
      cell.raised = 0;
      cell.fence = cell.fence != 0 ? 1 : 0;  // a KEEP may still be on its way there
    }
    for (int other = 0; other < s_.attempts; ++other) {
      if (other == a || s.attempts[other].phase != complete) continue;
      auto const its = s.attempts[other].fence;
      if (its == fence) return "Q1: two complete acquisitions with one fence";
      for (auto const& node : s.nodes) {
        auto const mine = node.cells[a].tenure;
        auto const theirs = node.cells[other].tenure;
        if (s.lost == 0 && mine != 0 && theirs != 0 && (mine > theirs) != (fence > its)) return "Q3: the later holder of a node has the smaller fence";
      }
    }
    if (fence <= attempt.before) return "Q2: began when another was complete, and has no larger fence";
    return nullptr;
  }

  Setup s_;
};

}  // namespace

int main(int argc, char** argv) {
  using Row = models::Case<QuorumModel>;
  auto const model = [](Setup setup) { return QuorumModel{std::move(setup)}; };
  std::vector<Row> const cases{
      {"3 nodes, counters 0 or 1, floors 0, 2, 3", model({.first_fence = 1, .floors = {0, 2, 3}})},
      {"3 nodes, any counters up to 3", model({.first_fence = 3}), nullptr, false},
      {"3 nodes, one request twice, floors 0, 2", model({.repeats = 1, .floors = {0, 2}}), nullptr, false},
      {"3 nodes, two requests twice", model({.repeats = 2}), nullptr, false},
      {"3 nodes, renewals, one request twice", model({.repeats = 1, .renews = true}), nullptr, false},
      {"3 nodes, renewals, counters 0 or 1", model({.first_fence = 1, .renews = true})},
      {"4 nodes, 3 of them needed", model({.nodes = 4}), nullptr, false},
      {"5 nodes", model({.nodes = 5}), nullptr, false},
      {"4 nodes, 3 of them needed, one loses its data", model({.nodes = 4, .losses = 1}), nullptr, false},
      {"3 nodes, all needed, two lose their data", model({.needed = 3, .losses = 2})},
      {"no raise: the largest fence as it is", model({.first_fence = 1, .flaw = Flaw::no_raise}), "Q"},
      {"no raise, three acquisitions from empty nodes", model({.attempts = 3, .flaw = Flaw::no_raise}), "Q", false},
      {"KEEP without looking", model({.first_fence = 1, .flaw = Flaw::keep_compares_nothing}), "Q"},
      {"KEEP without the fence, one request twice", model({.repeats = 1, .first_fence = 1, .flaw = Flaw::keep_without_fence}), "Q", false},
      {"the same without a request that comes twice", model({.first_fence = 1, .flaw = Flaw::keep_without_fence})},
      {"renewals without the fence", model({.renews = true, .flaw = Flaw::renewal_without_fence}), "renewal"},
      {"a grant that comes during the raise counts", model({.first_fence = 2, .flaw = Flaw::late_grant_counts}), "Q"},
      {"2 of 4 nodes", model({.nodes = 4, .needed = 2}), "Q"},
      {"3 nodes, one loses its data", model({.losses = 1}), "Q"},
      {"4 nodes, 3 of them needed, two lose their data", model({.nodes = 4, .losses = 2}), "Q"},
  };
  return models::run_cases(cases, argc, argv);
}
