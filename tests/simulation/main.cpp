// SPDX-License-Identifier: MIT
// Runs histories: for a time, or one of them with everything that happens in it. `--help` lists the flags.
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "history.hpp"

namespace {

using simulation::Break;
using simulation::Outcome;
using simulation::run_history;

struct Named {
  Break what;
  char const* name;
  char const* means;
};
constexpr std::array breaks{
    Named{Break::no_raise, "no-raise", "KEEP says yes without looking, and raises nothing"},
    Named{Break::release_without_owner, "release-without-owner", "RELEASE deletes whatever is there"},
    Named{Break::repeat_sets_expiry, "repeat-sets-expiry", "an ACQUIRE that comes again sets the expiry, also to an earlier time"},
    Named{Break::nudge_takes_empty_value, "nudge-takes-empty", "a nudge takes a foreign empty value for no value"},
    Named{Break::no_nudge, "no-nudge", "nudges do nothing"},
    Named{Break::fence_is_the_clock, "fence-is-the-clock", "the fence is the client's clock, whatever was given before"},
    Named{Break::vote_after_data_loss, "vote-after-loss", "a node that comes back empty votes at once"},
    Named{Break::clocks_run_apart, "clocks-run-apart", "a server's clock runs faster than the drift allowance"},
};

constexpr char usage[] =
    "usage: %s [--seconds N] [--from SEED] [--break NAME]   histories of rising seeds, until one goes wrong\n"
    "       %s --seed SEED [--break NAME]                   one history, and what happens in it\n"
    "       %s --breaks [--seconds N]                       takes each rule out in turn: it has to be found within N seconds each\n";

struct Arguments {
  double seconds{5};
  std::uint64_t from{1};
  std::optional<std::uint64_t> seed{};
  Named const* broken{nullptr};
  bool all_breaks{false};
};

std::optional<Arguments> read(int argc, char** argv) {
  Arguments arguments;
  auto const number = [](std::string_view text) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view const flag{argv[i]};
    if (flag == "--breaks") {
      arguments.all_breaks = true;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    std::string_view const value{argv[++i]};
    auto const as_number = number(value);
    if (flag == "--break") {
      for (auto const& one : breaks)
        if (value == one.name) arguments.broken = &one;
      if (arguments.broken == nullptr) return std::nullopt;
    } else if (!as_number) {
      return std::nullopt;
    } else if (flag == "--seconds") {
      arguments.seconds = static_cast<double>(*as_number);
    } else if (flag == "--from") {
      arguments.from = *as_number;
    } else if (flag == "--seed") {
      arguments.seed = *as_number;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

struct Search {
  std::uint64_t histories{0};
  Outcome all{};  // added up
  std::optional<std::uint64_t> found{};
  std::string wrong{};
  double seconds{0};
};

Search search(double seconds, std::uint64_t from, Break broken) {
  Search result;
  auto const began = std::chrono::steady_clock::now();
  auto const elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  for (auto seed = from; !result.found && (result.seconds = elapsed()) < seconds; ++seed) {
    auto const outcome = run_history(seed, broken);
    ++result.histories;
    result.all.events += outcome.events;
    result.all.grants += outcome.grants;
    result.all.losses += outcome.losses;
    result.all.errors += outcome.errors;
    result.all.faults += outcome.faults;
    result.wrong = outcome.wrong;
    if (result.wrong.empty() && seed % 256 == 0 && run_history(seed, broken).fingerprint != outcome.fingerprint)
      result.wrong = "two runs of this seed are not the same";
    if (!result.wrong.empty()) result.found = seed;
  }
  result.seconds = elapsed();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  auto const arguments = read(argc, argv);
  if (!arguments) {
    std::fprintf(stderr, usage, argv[0], argv[0], argv[0]);
    for (auto const& one : breaks) std::fprintf(stderr, "  --break %-22s %s\n", one.name, one.means);
    return 64;
  }
  auto const broken = arguments->broken != nullptr ? arguments->broken->what : Break::none;

  if (arguments->seed) {
    auto const outcome = run_history(*arguments->seed, broken, true);
    for (auto const& line : outcome.trace) std::printf("%s\n", line.c_str());
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(*arguments->seed), outcome.wrong.empty() ? "every promise kept" : outcome.wrong.c_str());
    return outcome.wrong.empty() ? 0 : 1;
  }

  if (arguments->all_breaks) {
    bool all_found = true;
    for (auto const& one : breaks) {
      auto const result = search(arguments->seconds, arguments->from, one.what);
      all_found = all_found && result.found;
      if (result.found)
        std::printf("found      %-22s %6.2f s  seed %llu: %s\n", one.name, result.seconds, static_cast<unsigned long long>(*result.found), result.wrong.c_str());
      else
        std::printf("NOT FOUND  %-22s %6.2f s  in %llu histories\n", one.name, result.seconds, static_cast<unsigned long long>(result.histories));
      std::fflush(stdout);
    }
    return all_found ? 0 : 1;
  }

  auto const result = search(arguments->seconds, arguments->from, broken);
  std::printf("%llu histories in %.1f s, %.0f a second: %llu events, %llu grants, %llu leases lost, %llu errors, %llu faults\n",
              static_cast<unsigned long long>(result.histories), result.seconds, static_cast<double>(result.histories) / result.seconds,
              static_cast<unsigned long long>(result.all.events), static_cast<unsigned long long>(result.all.grants),
              static_cast<unsigned long long>(result.all.losses), static_cast<unsigned long long>(result.all.errors),
              static_cast<unsigned long long>(result.all.faults));
  if (!result.found) return 0;
  auto const flag = arguments->broken != nullptr ? " --break " + std::string{arguments->broken->name} : std::string{};
  std::printf("WRONG: %s\n  again: %s --seed %llu%s\n", result.wrong.c_str(), argv[0], static_cast<unsigned long long>(*result.found), flag.c_str());
  return 1;
}
