// SPDX-License-Identifier: MIT
#include "server.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include <mortise/mutex_scripts.hpp>

namespace simulation {
namespace {

using mortise::detail::Verb;

/// One whole command from the front of what has arrived, if there is one.
std::optional<std::vector<std::string>> take_command(std::string& bytes) {
  std::size_t at = 0;
  auto const number_after = [&](char mark) -> std::optional<std::size_t> {
    auto const end = bytes.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    if (bytes[at] != mark) std::abort();  // clients speak the protocol
    std::size_t value = 0;
    std::from_chars(bytes.data() + at + 1, bytes.data() + end, value);
    at = end + 2;
    return value;
  };
  if (bytes.empty()) return std::nullopt;
  auto const count = number_after('*');
  if (!count) return std::nullopt;
  std::vector<std::string> words;
  words.reserve(*count);
  for (std::size_t i = 0; i < *count; ++i) {
    if (at >= bytes.size()) return std::nullopt;
    auto const size = number_after('$');
    if (!size || bytes.size() < at + *size + 2) return std::nullopt;
    words.emplace_back(bytes, at, *size);
    at += *size + 2;
  }
  bytes.erase(0, at);
  return words;
}

std::string bulk(std::string_view text) { return "$" + std::to_string(text.size()) + "\r\n" + std::string{text} + "\r\n"; }

std::string spoken(ScriptAnswer const& answer) {
  if (!answer.error.empty()) return "-" + std::string{answer.error.starts_with("WRONGTYPE") ? "" : "ERR "} + answer.error + "\r\n";
  if (answer.one_number) return ":" + std::to_string(answer.numbers[0]) + "\r\n";
  auto text = "*" + std::to_string(answer.numbers.size()) + "\r\n";
  for (auto const number : answer.numbers) text += ":" + std::to_string(number) + "\r\n";
  return text;
}

}  // namespace

Server::Server(World& world, Network& network, std::string path, Break broken)
    : world_{world}, network_{network}, path_{std::move(path)}, broken_{broken}, store_{broken} {
  network_.add(*this);
}

std::int64_t Server::microseconds() const noexcept {
  constexpr Nanos some_day = 1'700'000'000 * second;
  return (some_day + ahead_ + static_cast<Nanos>(static_cast<double>(world_.now()) * rate_)) / microsecond;
}

Store& Server::store() noexcept {
  store_.set_time(microseconds());
  return store_;
}

void Server::accepted(WirePtr const& wire) {
  wire->server_open = true;
  clients_.push_back(wire);
}

void Server::arrived(WirePtr const& wire, std::string const& bytes) {
  if (!up_ || !wire->server_open) return;
  wire->pending += bytes;
  work_off(wire);
}

/// The client has hung up: what it asked before has been done, unless it stands behind a pop that blocks.
void Server::ended(WirePtr const& wire) {
  wire->server_open = false;
  wire->pending.clear();
  std::erase(line_, wire);
  std::erase(clients_, wire);
}

void Server::work_off(WirePtr const& wire) {
  while (up_ && wire->server_open && !wire->blocked) {
    auto const words = take_command(wire->pending);
    if (!words) return;
    store_.set_time(microseconds());
    carry_out(wire, *words);
  }
}

void Server::carry_out(WirePtr const& wire, Words const& words) {
  auto const& name = words[0];
  if (name == "EVALSHA" || name == "EVAL") {
    for (std::size_t which = 0; which < 3; ++which) {
      auto const& script = mortise::detail::mutex_script(static_cast<Verb>(which));
      if (words[1] != (name == "EVAL" ? script.text : std::string_view{script.sha})) continue;
      if (name == "EVALSHA" && !knows_[which]) return network_.reply(wire, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
      knows_[which] = true;
      return run_script(wire, words, which);
    }
    std::abort();  // a script that this server is not made for
  }
  if (name == "BLPOP") return block(wire, words);
  if (name == "CLIENT") return network_.reply(wire, "+OK\r\n");
  if (name == "INFO") return network_.reply(wire, bulk(info()));
  if (name == "GET") {
    auto const value = store_.get(words[1]);
    return network_.reply(wire, value ? bulk(*value) : "$-1\r\n");
  }
  std::abort();  // a command that this server is not made for
}

void Server::run_script(WirePtr const& wire, Words const& words, std::size_t which) {
  auto const keys = static_cast<std::size_t>(std::strtol(words[2].c_str(), nullptr, 10));
  Store::LockNames names{words[3], words[4], keys > 2 ? words[5] : "", keys > 2 ? words[6] : ""};
  Words const arguments{words.begin() + 3 + static_cast<std::ptrdiff_t>(keys), words.end()};
  static constexpr std::array verbs{"ACQUIRE", "KEEP", "RELEASE"};
  auto const answer = static_cast<Verb>(which) == Verb::acquire ? store_.acquire(names, arguments)
                      : static_cast<Verb>(which) == Verb::keep  ? store_.keep(names, arguments)
                                                                : store_.release(names, arguments);
  if (world_.listener) {
    auto line = path_ + " " + verbs[which];
    for (auto const& argument : arguments) line += " " + (argument.empty() ? std::string{"''"} : argument);
    line += " ->";
    for (auto const number : answer.numbers) line += " " + std::to_string(number);
    world_.listener(line + answer.error);
  }
  network_.reply(wire, spoken(answer));
  if (static_cast<Verb>(which) == Verb::release) serve(names.wake);
}

void Server::block(WirePtr const& wire, Words const& words) {
  auto const& list = words[1];
  if (auto const element = store_.pop_front(list)) return network_.reply(wire, "*2\r\n" + bulk(list) + bulk(*element));
  wire->blocked = true;
  wire->waits_on = list;
  wire->block_number = ++blocks_;
  line_.push_back(wire);
  auto const seconds = std::strtod(words[2].c_str(), nullptr);
  if (seconds == 0) return;
  // An idle server looks at its timeouts ten times a second.
  auto const until = world_.now() + static_cast<Nanos>(seconds * 1e9 / rate_) + world_.random().between(0, 100 * millisecond);
  std::function<void()> timeout = [this, wire, number = wire->block_number] {
    if (!wire->blocked || wire->block_number != number || !wire->server_open) return;
    std::erase(line_, wire);
    wire->blocked = false;
    network_.reply(wire, "*-1\r\n");
    work_off(wire);
  };
  world_.at(until, [this, timeout] {
    if (frozen_until_ > world_.now())
      world_.at(frozen_until_, timeout);
    else
      timeout();
  });
}

/// Elements go to whoever has been blocked longest; what it asked behind its pop is done in the same turn.
void Server::serve(std::string const& list) {
  for (;;) {
    auto const first = std::find_if(line_.begin(), line_.end(), [&](WirePtr const& wire) { return wire->waits_on == list; });
    if (first == line_.end()) return;
    auto const element = store_.pop_front(list);
    if (!element) return;
    auto const wire = *first;
    line_.erase(first);
    wire->blocked = false;
    network_.reply(wire, "*2\r\n" + bulk(list) + bulk(*element));
    work_off(wire);
  }
}

std::string Server::info() {
  bool const lies = broken_ == Break::vote_after_data_loss;
  auto const age = lies ? 3600 : (world_.now() - born_) / second;
  return "# Server\r\nredis_version:7.0.15\r\nrun_id:" + path_ + "-" + std::to_string(lies ? 1 : life_) + "\r\nuptime_in_seconds:" +
         std::to_string(age) + "\r\n";
}

void Server::crash(Data data, Nanos for_true_time) {
  if (!up_) return;
  up_ = false;
  knows_ = {};
  line_.clear();
  for (auto const& wire : std::exchange(clients_, {})) {
    wire->server_open = false;
    wire->blocked = false;
    wire->pending.clear();
    network_.server_closes(wire, 0);
  }
  if (data == Data::lost) store_.clear();
  world_.at(world_.now() + for_true_time, [this] {
    up_ = true;
    born_ = world_.now();
    ++life_;
  });
}

}  // namespace simulation
