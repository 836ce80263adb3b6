// SPDX-License-Identifier: MIT
// `mortise doctor`: looks at a deployment for what breaks locks, and tries a scratch lock for real.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <future>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>

#include <mortise/client.hpp>
#include <mortise/detail/random.hpp>
#include <mortise/lock.hpp>
#include <mortise/uri.hpp>

#include "arguments.hpp"
#include "connect.hpp"
#include "diagnosis.hpp"
#include "exit_code.hpp"
#include "inspect.hpp"
#include "json.hpp"

namespace command {

/// Gathers the facts. Every question goes to the server that has the scratch lock's keys.
class Examination {
 public:
  explicit Examination(Arguments const& arguments)
      : uri_{mortise::detail::parse_uri(arguments.redis)},
        options_{client_options(arguments)},
        client_{arguments.redis, options_},
        other_{arguments.redis, options_},
        name_{scratch_name(arguments.prefix)},
        keys_{name_},
        verified_{arguments.tls.verify} {}

  /// Throws what nobody's answer means: unreachable, or not logged in.
  Facts facts() {
    Facts facts;
    facts.transport = transport();
    facts.through_cluster = uri_.scheme == mortise::detail::Uri::Scheme::cluster;
    ask_time(facts);
    if (auto const text = answer({"INFO"}, facts.info_refusal)) facts.info = fields_of((*text)->text());
    for (std::string_view const name : {"appendfsync", "save", "min-replicas-to-write", "timeout", "tcp-keepalive", "maxclients"})
      if (auto const pair = answer({"CONFIG", "GET", name}, facts.config_refusal); pair && (*pair)->size() > 1)
        facts.config[std::string{name}] = (**pair)[1].text();
    std::string refusal;
    if (facts.field("cluster_enabled") == "1")
      if (auto const text = answer({"CLUSTER", "INFO"}, refusal)) facts.cluster = fields_of((*text)->text());
    try_locks(facts);
    return facts;
  }

 private:
  using Reply = mortise::detail::Reply;

  static std::string scratch_name(std::string const& prefix) {
    std::string name = prefix + "mortise-doctor-";
    for (auto const byte : mortise::detail::random_stock().take<8>()) {
      name += "0123456789abcdef"[byte >> 4];
      name += "0123456789abcdef"[byte & 0xF];
    }
    return name;
  }

  Facts::Transport transport() const {
    if (uri_.tls) return verified_ ? Facts::Transport::tls : Facts::Transport::unverified_tls;
    auto const here = [](std::string const& host) {
      in_addr address{};
      return host == "localhost" || host == "::1" || (::inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127);
    };
    bool const all_here = !uri_.path.empty() || (uri_.servers.empty() ? here(uri_.host) : std::ranges::all_of(uri_.servers, [&](auto const& server) { return here(server.host); }));
    return all_here ? Facts::Transport::plain_here : Facts::Transport::plain_elsewhere;
  }

  /// The answer, or nothing and why; a server that is not there is thrown.
  std::optional<Reply> answer(std::initializer_list<std::string_view> words, std::string& refusal) {
    try {
      return ask(client_, keys_, words);
    } catch (mortise::Error const& error) {
      if (error.errc() != mortise::Errc::no_permission && error.errc() != mortise::Errc::server_refused) throw;
      refusal = error.what();
      return std::nullopt;
    }
  }

  /// The middle one of three, taken to be right halfway between question and answer.
  void ask_time(Facts& facts) {
    using namespace std::chrono;
    std::vector<std::int64_t> ahead;
    std::string refusal;
    for (int i = 0; i < 3; ++i) {
      auto const before = mortise::detail::wall_microseconds();
      auto const reply = answer({"TIME"}, refusal);
      auto const after = mortise::detail::wall_microseconds();
      if (!reply) return;
      std::int64_t parts[2] = {};
      for (std::size_t part = 0; part < 2; ++part) {
        auto const text = (**reply)[part].text();
        std::from_chars(text.data(), text.data() + text.size(), parts[part]);
      }
      ahead.push_back((parts[0] * 1'000'000 + parts[1] - static_cast<std::int64_t>(before / 2 + after / 2)) / 1000);
    }
    std::sort(ahead.begin(), ahead.end());
    facts.clock_ahead_ms = ahead[1];
  }

  template <class Try>
  static bool attempt(Facts& facts, std::string what, Try&& tried) {
    Trial trial{.what = std::move(what)};
    try {
      tried();
    } catch (mortise::Error const& error) {
      trial.failure = error.what();
      trial.denied = error.errc() == mortise::Errc::no_permission;
    }
    facts.trials.push_back(trial);
    return trial.failure.empty();
  }

  /// All that a lock does, on the scratch name.
  void try_locks(Facts& facts) {
    using namespace std::chrono_literals;
    mortise::Lock lock{client_, name_};
    mortise::Lock elsewhere{other_, name_};
    std::optional<mortise::Lease> lease;
    if (!attempt(facts, "take a lock", [&] { lease = lock.try_acquire(); })) return;
    if (!lease) return;
    attempt(facts, "renew a lock", [&] { lease->extend(); });
    attempt(facts, "wait for a lock", [&] {
      static_cast<void>(elsewhere.acquire_for(500ms));  // long enough for a new connection over a slow link
      auto waiter = std::async(std::launch::async, [&] { return elsewhere.acquire_for(1s); });
      std::this_thread::sleep_for(50ms);
      lease->release();
      lease = waiter.get();
    });
    if (lease) attempt(facts, "release a lock", [&] { lease->release(); });
    attempt(facts, "remove the scratch lock's keys", [&] { ask(client_, keys_, {"DEL", keys_.lock, keys_.fence, keys_.wake, keys_.wait}); });
    // Options
    attempt(facts, "name its connections (CLIENT SETNAME)", [&] { ask(client_, keys_, {"CLIENT", "SETNAME", "mortise-doctor"}); });
    facts.trials.back().needed = false;
    attempt(facts, "ask replicas to confirm (WAIT, for ClientOptions::replicas)", [&] { ask(client_, keys_, {"WAIT", "0", "1"}); });
    facts.trials.back().needed = false;
  }

  mortise::detail::Uri uri_;
  mortise::ClientOptions options_;
  mortise::Client client_;
  mortise::Client other_;
  std::string name_;
  mortise::detail::LockKeys keys_;
  bool verified_;
};

inline constexpr std::string_view severity_names[] = {"fine", "warning", "error"};

inline std::string_view severity_name(Severity severity) { return severity_names[static_cast<std::size_t>(severity)]; }

/// For people.
inline void print(std::string const& endpoint, Facts const& facts, std::vector<Finding> const& findings) {
  std::cout << endpoint << (product(facts).empty() ? "" : ": " + product(facts)) << '\n';
  for (auto const& finding : findings) {
    auto const name = std::string{severity_name(finding.severity)};
    std::cout << name << std::string(9 - name.size(), ' ') << finding.about << ": " << finding.says << '\n';
    if (!finding.advice.empty()) std::cout << "         -> " << finding.advice << '\n';
  }
}

/// For programs: one JSON object.
inline void print_json(std::string const& endpoint, Facts const& facts, std::vector<Finding> const& findings) {
  std::cout << "{\"endpoint\":" << json_string(endpoint) << ",\"server\":" << (product(facts).empty() ? "null" : json_string(product(facts)))
            << ",\"worst\":\"" << severity_name(worst(findings)) << "\",\"findings\":[";
  for (auto const* separator = ""; auto const& finding : findings) {
    std::cout << std::exchange(separator, ",") << "{\"severity\":\"" << severity_name(finding.severity) << "\",\"about\":" << json_string(finding.about)
              << ",\"says\":" << json_string(finding.says) << ",\"advice\":" << (finding.advice.empty() ? "null" : json_string(finding.advice)) << '}';
  }
  std::cout << "]}\n";
}

inline int doctor(Arguments const& arguments) {
  auto const endpoint = mortise::detail::parse_uri(arguments.redis).endpoint();
  auto const facts = Examination{arguments}.facts();
  auto const findings = diagnose(facts);
  if (arguments.json)
    print_json(endpoint, facts, findings);
  else
    print(endpoint, facts, findings);
  return static_cast<int>(worst(findings));
}

}  // namespace command
