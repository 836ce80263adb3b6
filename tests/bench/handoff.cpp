// SPDX-License-Identifier: MIT
#include "measurements.hpp"

#include <utility>

#include "contenders.hpp"
#include "statistics.hpp"

namespace bench {
namespace {

constexpr char const* name = "bench:contended";

template <std::uint64_t (ScriptedLock::*wait)()>
class Scripted final : public Contender {
 public:
  Scripted(Endpoint const& endpoint, std::size_t index)
      : lock_{endpoint, name, "bench-host:12345#0123456789abcdef0123456789" + std::to_string(100'000 + index)} {}
  std::uint64_t acquire() override { return (lock_.*wait)(); }
  void release() override { lock_.release(); }

 private:
  ScriptedLock lock_;
};

using OneHop = Scripted<&ScriptedLock::acquire_in_one_hop>;
using TwoHops = Scripted<&ScriptedLock::acquire_in_two_hops>;

enum Variant : std::size_t { floor_variant, one_hop, two_hops, with_own_clients, with_one_client, variants };
constexpr char const* titles[] = {
    "raw RPUSH → BLPOP",
    "the library's scripts through bare hiredis",
    "the same in two hops",
    "mortise, a Client for each thread",
    "mortise, threads of one Client",
};

MakeContender maker(Endpoint const& endpoint, std::size_t variant) {
  switch (variant) {
    case floor_variant: return passed_element(endpoint, name);
    case one_hop: return [endpoint](std::size_t i) { return std::make_unique<OneHop>(endpoint, i); };
    case two_hops: return [endpoint](std::size_t i) { return std::make_unique<TwoHops>(endpoint, i); };
    case with_own_clients: return own_clients(endpoint, name);
    default: return one_client(endpoint, name);
  }
}

void measure(Endpoint const& endpoint, Contest const& contest, std::size_t repetitions, Table& table) {
  Runs<Outcome> const runs{variants, repetitions, [&](std::size_t variant) {
                             Raw{endpoint}.command({"FLUSHALL"});
                             return contend(endpoint, contest, maker(endpoint, variant));
                           }};
  bool const works = contest.work.count() > 0;
  for (std::size_t i = 0; i < variants; ++i) {
    auto const of = [&](double Outcome::*figure) {
      return std::pair{runs.median_of(i, figure), runs.ratio_of(i, figure)};
    };
    auto const [p50, p50_ratio] = of(&Outcome::p50);
    auto const [p99, p99_ratio] = of(&Outcome::p99);
    auto const [changes, changes_ratio] = of(&Outcome::changes);
    auto const commands = runs.median_of(i, &Outcome::commands);
    auto const unfair = runs.median_of(i, &Outcome::unfair);
    auto const [processor, processor_ratio] = of(&Outcome::processor);
    bool const ours = i >= with_own_clients;
    table.rows.push_back({"W = " + std::to_string(contest.waiters) + ": " + titles[i],
                          {{"hand-off p50 µs", p50, p50_ratio, ours && works && p50_ratio > 2},
                           {"p99 µs", p99, p99_ratio, ours && works && p99_ratio > 2},
                           {"owners/s", changes, changes_ratio, ours && !works && changes_ratio < 0.36},
                           {"commands", commands, nothing, ours && commands > 5.3},
                           {"max/min", unfair, nothing, ours && contest.waiters == 32 && unfair > 1.1},
                           {"CPU µs", processor, processor_ratio}}});
  }
}

}  // namespace

std::vector<Table> handoff(Setting const& setting) {
  Table working{.title = "Hand-off, owners working 0.4 ms, TCP",
                .note = "To reach: p50 and p99 at most 2 ×, commands at most 5.3 whatever W is, max/min at most 1.1 at W = 32. "
                        "Commands and CPU (of this process) are per acquisition.",
                .rows = {}};
  Table empty{.title = "Hand-off, empty section, TCP",
              .note = "To reach: owners/s at least 0.36 × (18 k where the floor gives 50 k).",
              .rows = {}};
  using namespace std::chrono_literals;
  auto const repetitions = setting.quick ? 1U : 5U;
  for (std::size_t const waiters : {2U, 8U, 32U})
    measure(setting.tcp, {waiters, 400us, setting.quick ? 60ms : waiters < 32 ? 500ms : 1000ms}, repetitions, working);
  for (std::size_t const waiters : {8U, 32U})
    measure(setting.tcp, {waiters, 0us, setting.quick ? 60ms : 400ms}, repetitions, empty);
  return {working, empty};
}

}  // namespace bench
