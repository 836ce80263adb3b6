// SPDX-License-Identifier: MIT
// A primary and its replicas under Redis Sentinel: who is the primary now, by the word of the Sentinels and of the server itself.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mortise/topology.hpp>

namespace mortise::inline v1::detail {

struct SentinelOptions {
  std::vector<Address> sentinels{};
  std::string service{};
  Login login{};  ///< to the Sentinels
};

/// Asks the Sentinels in turn, and believes the majority, or else whoever is right: every new connection to a server asks
/// for its ROLE, so a Sentinel that is behind or lies is found out. The primary is looked for again when it breaks a
/// connection, does not answer, or refuses to write. Source: redis.io, "Guidelines for Sentinel clients".
class SentinelGroup final : public Topology {
 public:
  SentinelGroup(SentinelOptions options, Login login, milliseconds connect_timeout)
      : Topology{std::move(login), connect_timeout}, options_{std::move(options)} {}

  Pool& node(std::uint16_t, TimePoint deadline, Wake* interrupt) override {
    if (auto* const primary = known(0)) return *primary;
    return find(deadline, interrupt);
  }

  Pool* known(std::uint16_t) noexcept override {
    std::lock_guard const guard{mutex_};
    return primary_;
  }

  Advice heed(Pool& from, std::uint16_t, std::string_view refusal) override {
    if (has_code(refusal, "READONLY") || has_code(refusal, "UNBLOCKED")) {
      forget(from);
      return {.again = Advice::Again::at_once, .moved = true};
    }
    if (!has_code(refusal, "LOADING") && !has_code(refusal, "MASTERDOWN")) return {};
    forget(from);
    return {.again = Advice::Again::later, .moved = true};
  }

  void broken(Pool& pool) override {
    pool.note_broken();
    forget(pool);
  }

 protected:
  void admit(Connection& fresh, TimePoint deadline, Wake* interrupt) override;

 private:
  struct Candidate {
    Address address{};
    std::size_t votes{0};
    bool tried{false};
  };

  /// One search: what was said, and who was named.
  struct Search {
    TimePoint deadline;
    Wake* interrupt;
    std::vector<Candidate> named{};
    std::string said{};
    std::optional<Error> denied{};   // by a primary, for good
    std::optional<Error> refused{};  // by a Sentinel, for good
    std::size_t unknown{0}, failed{0};
  };

  static constexpr std::size_t most_sentinels = 16;

  Pool& find(TimePoint deadline, Wake* interrupt);
  Pool* ask_in_turn(Search& search, std::vector<Address> const& sentinels);
  std::optional<Address> ask(Address const& sentinel, TimePoint until, Wake* interrupt);
  Pool* try_as_primary(Search& search, Candidate& candidate);
  void learn(ReplyView reply);
  void forget(Pool& pool) noexcept;
  static std::optional<int> port_in(std::string_view text) noexcept;

  SentinelOptions const options_;
  std::mutex mutex_{};
  Pool* primary_{nullptr};
  bool had_one_{false};
  std::vector<Address> learned_{};  // from other Sentinels: asked when none of those we were given helps
};

// --- below: bodies

inline void SentinelGroup::admit(Connection& fresh, TimePoint deadline, Wake* interrupt) {
  fresh.append({"ROLE"});
  if (!fresh.send(deadline, interrupt)) throw Error{Errc::connect_failed, fresh.endpoint() + ": interrupted while connecting"};
  auto const reply = fresh.receive(deadline, interrupt);
  if (!reply) throw Error{Errc::connect_failed, fresh.endpoint() + ": interrupted while connecting"};
  if ((*reply)->is_error()) throw server_error((*reply)->text(), fresh.endpoint());
  auto const role = (**reply)[0].text();
  if (role != "master")
    throw Error{Errc::server_refused, fresh.endpoint() + ": is not the primary of " + printable(options_.service) + ", but says ROLE " + printable(role)};
}

inline Pool& SentinelGroup::find(TimePoint deadline, Wake* interrupt) {
  Search search{.deadline = deadline, .interrupt = interrupt};
  if (auto* const primary = ask_in_turn(search, options_.sentinels)) return *primary;
  if (search.named.empty()) {
    std::vector<Address> further;
    {
      std::lock_guard const guard{mutex_};
      further = learned_;
    }
    if (auto* const primary = ask_in_turn(search, further)) return *primary;
  }
  std::stable_sort(search.named.begin(), search.named.end(), [](auto const& a, auto const& b) { return a.votes > b.votes; });
  for (auto& candidate : search.named)
    if (auto* const primary = try_as_primary(search, candidate)) return *primary;
  if (search.denied) throw Error{*search.denied};

  auto const service = printable(options_.service);
  if (search.named.empty() && search.failed == 0 && search.unknown > 0)
    throw Error{Errc::server_refused, "no Sentinel knows a service " + service + ": see SENTINEL MASTERS" + search.said}.permanent();
  if (search.refused && search.failed == 0 && search.named.empty()) throw Error{*search.refused};
  throw Error{Errc::connect_failed, "no primary of " + service + " found" + search.said};
}

/// The primary, as soon as most of them name the same one.
inline Pool* SentinelGroup::ask_in_turn(Search& search, std::vector<Address> const& sentinels) {
  auto const before_servers = search.deadline == never ? never : Clock::now() + std::max(search.deadline - Clock::now(), nanoseconds::zero()) * 2 / 3;
  for (std::size_t i = 0; i < sentinels.size() && !search.denied; ++i) {
    try {
      auto const address = ask(sentinels[i], share(before_servers, sentinels.size() - i), search.interrupt);
      if (!address) {
        ++search.unknown;
        search.said += "; " + sentinels[i].text() + ": knows none of that name";
        continue;
      }
      auto same = std::find_if(search.named.begin(), search.named.end(), [&](auto const& known) { return known.address.text() == address->text(); });
      if (same == search.named.end()) same = search.named.insert(same, {.address = *address});
      if (++same->votes * 2 <= sentinels.size() || same->tried) continue;
      if (auto* const primary = try_as_primary(search, *same)) return primary;
    } catch (Error const& error) {
      search.said += std::string{"; "} + error.what();
      if (error.retryable())
        ++search.failed;
      else if (!search.refused)
        search.refused = error;
    }
  }
  return nullptr;
}

/// Whom one Sentinel takes for the primary; nothing: it does not know the service. Asks for its fellows as well.
inline std::optional<Address> SentinelGroup::ask(Address const& sentinel, TimePoint until, Wake* interrupt) {
  Connection connection{sentinel, options_.login, ledger(), until, interrupt};
  connection.append({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.service});
  connection.append({"SENTINEL", "SENTINELS", options_.service});
  if (!connection.send(until, interrupt)) throw Error{Errc::connect_failed, connection.endpoint() + ": interrupted"};
  std::array<std::optional<Reply>, 2> replies;
  for (auto& reply : replies)
    if (!(reply = connection.receive(until, interrupt))) throw Error{Errc::connect_failed, connection.endpoint() + ": interrupted"};
  auto const answer = replies[0]->view();
  if (answer.is_error()) throw server_error(answer.text(), connection.endpoint());
  if (answer.is_nil()) return std::nullopt;
  auto const port = port_in(answer[1].text());
  if (!port || answer[0].text().empty()) throw Error{Errc::connection_lost, connection.endpoint() + ": protocol error: no host and port"};
  learn(replies[1]->view());
  return Address{.host = std::string{answer[0].text()}, .port = *port};
}

/// A server that was named, if it says so itself.
inline Pool* SentinelGroup::try_as_primary(Search& search, Candidate& candidate) {
  if (search.denied || std::exchange(candidate.tried, true)) return nullptr;
  auto& pool = pool_at(candidate.address);
  try {
    bool const again = [&] {
      std::lock_guard const guard{mutex_};
      return had_one_;
    }();
    if (again) pool.note_broken();  // its first connection is told as a reconnection
    auto connection = pool.connect(search.deadline, search.interrupt);
    {
      std::lock_guard const guard{mutex_};
      pool.revive();
      had_one_ = true;
      primary_ = &pool;
    }
    Pool::Lent{pool, std::move(connection)}.give_back();
    return &pool;
  } catch (Error const& error) {
    search.said += std::string{"; "} + error.what();
    if (!error.retryable()) search.denied = error;
    return nullptr;
  }
}

/// Further Sentinels, from SENTINEL SENTINELS: for each an array of names and values.
inline void SentinelGroup::learn(ReplyView reply) {
  for (std::size_t i = 0; i < reply.size(); ++i) {
    Address address;
    auto const fields = reply[i];
    for (std::size_t field = 0; field + 1 < fields.size(); field += 2) {
      if (!fields[field].is_text() || !fields[field + 1].is_text()) return;
      if (fields[field].text() == "ip") address.host = fields[field + 1].text();
      if (fields[field].text() == "port") address.port = port_in(fields[field + 1].text()).value_or(0);
    }
    auto const is_it = [&](Address const& known) { return known.text() == address.text(); };
    if (address.host.empty() || address.port == 0 || std::any_of(options_.sentinels.begin(), options_.sentinels.end(), is_it)) continue;
    std::lock_guard const guard{mutex_};
    if (std::any_of(learned_.begin(), learned_.end(), is_it)) continue;
    if (learned_.size() >= most_sentinels) learned_.erase(learned_.begin());
    learned_.push_back(std::move(address));
  }
}

inline void SentinelGroup::forget(Pool& pool) noexcept {
  std::lock_guard const guard{mutex_};
  if (primary_ == &pool) primary_ = nullptr;
  pool.retire();
}

inline std::optional<int> SentinelGroup::port_in(std::string_view text) noexcept {
  int port = 0;
  auto const end = text.data() + text.size();
  auto const [parsed, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc{} || parsed != end || port < 1 || port > 65535) return std::nullopt;
  return port;
}

}  // namespace mortise::inline v1::detail
