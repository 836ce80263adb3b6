// SPDX-License-Identifier: MIT
// The command line: what is asked for, or one sentence about what is wrong with it.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <mortise/detail/duration_text.hpp>
#include <mortise/detail/printable.hpp>
#include <mortise/time.hpp>

namespace command {

using mortise::milliseconds;

/// The command line is wrong; what() says how, on one line.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Verb { run, status, break_lock, doctor, help, version };

struct Arguments {
  Verb verb{Verb::help};
  std::string name{};
  std::string redis{"redis://127.0.0.1:6379"};
  milliseconds ttl{10'000};
  milliseconds wait{0};  ///< run: zero = try once, max() = for ever
  milliseconds grace{5'000};
  bool json{false};
  std::string prefix{"lock:"};  ///< doctor: what the scratch lock's name begins with

  /// How a rediss:// server is trusted; the names are redis-cli's.
  struct Tls {
    std::string ca_file{}, certificate_file{}, key_file{}, server_name{};
    bool verify{true};
    bool operator==(Tls const&) const = default;
  };
  Tls tls{};
  std::vector<char*> command{};
};

inline constexpr std::string_view help_text = R"(mortise: distributed locks in Redis, on the command line

  mortise run NAME [--redis URI] [--ttl D] [--wait D|forever] [--grace D] -- CMD [ARG...]
      Runs CMD while holding the lock NAME, as flock(1) does on one machine. The lease is renewed as long as CMD runs, and
      released when it has ended; what CMD leaves running in the background is not waited for.
      --ttl D       a dead holder's lock is free after this (default 10s)
      --wait D      wait at most D for the lock, in turn; "forever" waits without end (default: try once)
      --grace D     when the lease is lost, CMD gets SIGTERM, and after this SIGKILL (default 5s)
      CMD finds MORTISE_NAME and MORTISE_FENCE, the fencing token, in its environment.
      Signals that ask to end (HUP, INT, QUIT, TERM, USR1, USR2) are passed on to CMD; the lock is released after its end.
      Without a terminal CMD is a process group of its own, and signals go to the whole group. Under a terminal it stays in
      the foreground job, so that Ctrl-C, Ctrl-Z and reading work as usual, and signals go to CMD alone.
      Exit code: that of CMD (128+N if signal N ended it), or
        75 somebody else holds the lock      76 the lease was lost before CMD ended
        127 CMD not found                    126 CMD cannot be executed

  mortise status NAME [--redis URI] [--json]
      Says whether the lock is free, held or reserved (for the waiter whose turn it is), who holds it with which fence, for how
      long yet, and whether anybody waits; of a shared lock or a semaphore, who is in. Exit code: 0 free, 1 held or reserved.

  mortise break NAME [--redis URI]
      Releases the lock in its holder's place: what is stored now, and nothing newer. Waiters are let in by turn. The holder
      learns of it at its next renewal, and may work on until then. A shared lock or a semaphore is released in the place of
      all who are in. Exit code: 0 that holder has it no more, or nobody had it; 1 it changed hands meanwhile, or is reserved
      for a waiter: left alone.

  mortise doctor [URI] [--prefix P] [--json]
      Looks for what breaks locks: rights, eviction, persistence, replicas, clocks, version, TLS, connections, cluster state. A
      scratch lock, whose name begins with P (default lock:), is taken, waited for, handed over, released and removed.
      Exit code: that of the worst finding: 0 fine, 1 a warning, 2 an error.

  mortise --help | --version

URI: redis://[user[:password]@]host[:port][/db], unix:///path, redis+sentinel://host[:port],.../service[/db] or
redis+cluster://host[:port],...; rediss instead of redis: with TLS. Default: the environment's MORTISE_REDIS, else
redis://127.0.0.1:6379. A password belongs into MORTISE_REDIS: everybody on the machine can read a command line.
TLS, as in redis-cli: --cacert FILE, --cert FILE and --key FILE (ours), --sni NAME (the name to expect), --insecure.
D: 250ms, 2s, 5m. Common exit codes: 64 wrong usage, 69 Redis is unreachable or refuses, 71 the system refuses (no
process, no memory).
)";

namespace parsing {

inline Verb verb(std::string_view word) {
  if (word == "run") return Verb::run;
  if (word == "status") return Verb::status;
  if (word == "break") return Verb::break_lock;
  if (word == "doctor") return Verb::doctor;
  if (word == "--help" || word == "-h" || word == "help") return Verb::help;
  if (word == "--version") return Verb::version;
  throw UsageError{"no such command: " + mortise::detail::printable(word) + " (see mortise --help)"};
}

/// Walks over the words that stand before `--`.
class Words {
 public:
  Words(std::vector<char*>::const_iterator next, std::vector<char*>::const_iterator end) : next_{next}, end_{end} {}

  bool empty() const { return next_ == end_; }
  std::string_view take() { return *next_++; }
  std::vector<char*> rest() const { return {next_, end_}; }

 private:
  std::vector<char*>::const_iterator next_, end_;
};

inline void option(Arguments& arguments, std::string_view word, Words& words) {
  auto const equals = word.find('=');
  auto const key = word.substr(0, equals);
  auto const value = [&]() -> std::string_view {
    if (equals != std::string_view::npos) return word.substr(equals + 1);
    if (words.empty()) throw UsageError{std::string{key} + " needs a value"};
    return words.take();
  };
  bool const run = arguments.verb == Verb::run;
  if (key == "--redis") {
    arguments.redis = value();
  } else if (key == "--cacert") {
    arguments.tls.ca_file = value();
  } else if (key == "--cert") {
    arguments.tls.certificate_file = value();
  } else if (key == "--key") {
    arguments.tls.key_file = value();
  } else if (key == "--sni") {
    arguments.tls.server_name = value();
  } else if (key == "--insecure" && equals == std::string_view::npos) {
    arguments.tls.verify = false;
  } else if (key == "--prefix" && arguments.verb == Verb::doctor) {
    arguments.prefix = value();
  } else if (key == "--json" && (arguments.verb == Verb::status || arguments.verb == Verb::doctor) && equals == std::string_view::npos) {
    arguments.json = true;
  } else if (key == "--ttl" && run) {
    arguments.ttl = mortise::detail::parse_duration(value(), std::string{key});
  } else if (key == "--grace" && run) {
    arguments.grace = mortise::detail::parse_duration(value(), std::string{key});
  } else if (key == "--wait" && run) {
    auto const text = value();
    arguments.wait = text == "forever" ? milliseconds::max() : mortise::detail::parse_duration(text, std::string{key});
  } else {
    throw UsageError{"no such option here: " + mortise::detail::printable(key) + " (see mortise --help)"};
  }
}

}  // namespace parsing

/// Reads the words behind the program's name. Throws UsageError, or mortise::Error for a duration that is none.
[[nodiscard]] inline Arguments parse(std::vector<char*> const& argv) {
  Arguments arguments;
  if (char const* const uri = std::getenv("MORTISE_REDIS"); uri != nullptr && *uri != '\0') arguments.redis = uri;
  parsing::Words words{argv.begin(), argv.end()};
  if (words.empty()) throw UsageError{"a command is missing: run, status, break or doctor (see mortise --help)"};
  arguments.verb = parsing::verb(words.take());
  bool named = false, divided = false;
  while (!words.empty() && !divided) {
    auto const word = words.take();
    if (word == "--") {
      divided = true;
    } else if (word == "--help") {
      arguments.verb = Verb::help;
      return arguments;
    } else if (word.starts_with("-") && word.size() > 1) {
      parsing::option(arguments, word, words);
    } else if (!named && arguments.verb == Verb::doctor) {
      arguments.redis = word;
      named = true;
    } else if (!named) {
      arguments.name = word;
      named = true;
    } else {
      throw UsageError{std::string{arguments.verb == Verb::doctor ? "more than one URI" : "more than one lock name"} +
                       (arguments.verb == Verb::run ? " (the command to run stands behind --)" : "")};
    }
  }
  if (arguments.verb == Verb::help || arguments.verb == Verb::version) return arguments;
  if (!named && arguments.verb != Verb::doctor) throw UsageError{"the lock's name is missing"};
  arguments.command = words.rest();
  bool const run = arguments.verb == Verb::run;
  if (run && arguments.command.empty()) throw UsageError{"the command to run is missing: mortise run NAME -- CMD"};
  if (!run && divided) throw UsageError{"only `mortise run` takes a command behind --"};
  return arguments;
}

}  // namespace command
