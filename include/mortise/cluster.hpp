// SPDX-License-Identifier: MIT
// A Redis Cluster: which of its nodes serves which slot, learned by asking, and from what nodes answer to others' questions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mortise/key.hpp>
#include <mortise/topology.hpp>

namespace mortise::inline v1::detail {

/// The slot map is asked for (CLUSTER SLOTS) at first need, when a node broke, and when an answer shows that it is out of
/// date; MOVED corrects a slot at once. Source: redis.io, "Redis Cluster specification", redirections and slot map.
class Cluster final : public Topology {
 public:
  Cluster(std::vector<Address> seeds, Login login, milliseconds connect_timeout)
      : Topology{std::move(login), connect_timeout}, seeds_{std::move(seeds)} {}

  Pool& node(std::uint16_t slot, TimePoint deadline, Wake* interrupt) override;
  Pool* known(std::uint16_t slot) noexcept override {
    std::lock_guard const guard{mutex_};
    return refresh_due() ? nullptr : owner(slot);
  }
  Advice heed(Pool& from, std::uint16_t slot, std::string_view refusal) override;
  void broken(Pool& pool) override {
    pool.note_broken();
    doubt_map();
  }
  bool by_slot() const noexcept override { return true; }

 private:
  using Again = Advice::Again;

  struct Redirection {
    std::uint16_t slot;
    Address address;
  };

  static constexpr milliseconds refresh_pause{100};
  static constexpr std::size_t longest_map{std::size_t{1} << 24};  // 16,384 slots in as many ranges, with their replicas

  void refresh(TimePoint deadline, Wake* interrupt);
  std::vector<Pool*> whom_to_ask();
  void take_map(ReplyView reply, Pool const& asked);
  std::optional<Redirection> redirection(std::string_view text, Pool const& from) const;
  static std::optional<std::uint32_t> number(std::string_view text, std::uint32_t most) noexcept;

  // Under the mutex.
  Pool* owner(std::uint16_t slot) const noexcept { return slots_.empty() || slots_[slot] == 0 ? nullptr : nodes_[slots_[slot] - 1U]; }
  bool refresh_due() const noexcept { return doubtful_ && !refreshing_ && Clock::now() >= not_before_; }
  std::uint16_t index_of(Pool& pool);
  std::vector<bool> in_use() const;
  void doubt_map() noexcept {
    std::lock_guard const guard{mutex_};
    doubtful_ = true;
  }

  std::vector<Address> const seeds_;
  std::mutex mutex_{};
  std::vector<std::uint16_t> slots_{};  // index into nodes_, from 1; 0: nobody
  std::vector<Pool*> nodes_{};
  std::vector<Address> replicas_{};     // asked for the map when no node with slots answers
  Pool const* unwell_{nullptr};         // refused last: it may be cut off from the others
  bool doubtful_{false};
  bool refreshing_{false};
  TimePoint not_before_{TimePoint::min()};
};

// --- below: bodies

inline Pool& Cluster::node(std::uint16_t slot, TimePoint deadline, Wake* interrupt) {
  Pool* last = nullptr;
  {
    std::lock_guard const guard{mutex_};
    last = owner(slot);
    if (last != nullptr && !refresh_due()) return *last;
    refreshing_ = true;
  }
  auto const done = [this] {
    std::lock_guard const guard{mutex_};
    refreshing_ = false;
    not_before_ = after(Clock::now(), refresh_pause);
  };
  try {
    // A map that is only in doubt is worth half of the time: the other half is for the question itself.
    auto const now = Clock::now();
    refresh(last == nullptr || deadline == never || deadline <= now ? deadline : now + (deadline - now) / 2, interrupt);
    done();
  } catch (...) {
    done();
    if (last == nullptr) throw;
    return *last;
  }
  std::lock_guard const guard{mutex_};
  if (auto* const pool = owner(slot)) return *pool;
  throw Error{Errc::server_refused, "no node of the cluster serves slot " + std::to_string(slot) + ": see CLUSTER SLOTS, and assign it to one"};
}

inline auto Cluster::heed(Pool& from, std::uint16_t, std::string_view refusal) -> Advice {
  if (refusal.starts_with("MOVED ") || refusal.starts_with("ASK ")) {
    auto const told = redirection(refusal, from);
    if (!told) return {};
    auto& pool = pool_at(told->address);
    if (refusal.starts_with("ASK ")) return {.again = Again::at_once, .once = &pool};
    std::lock_guard const guard{mutex_};
    doubtful_ = true;
    if (!slots_.empty()) slots_[told->slot] = index_of(pool);
    return {.again = &pool == &from ? Again::later : Again::at_once, .moved = true};
  }
  // The second: a key that a script makes up as it goes has not arrived yet.
  if (has_code(refusal, "TRYAGAIN") || refusal.find("non local key in a cluster node") != std::string_view::npos) return {.again = Again::later};
  bool const ended = has_code(refusal, "UNBLOCKED");
  bool const fails = ended || has_code(refusal, "CLUSTERDOWN") || has_code(refusal, "READONLY") || has_code(refusal, "LOADING") || has_code(refusal, "MASTERDOWN");
  if (!fails) return {};
  {
    std::lock_guard const guard{mutex_};
    doubtful_ = true;
    unwell_ = &from;
  }
  return {.again = ended ? Again::at_once : Again::later, .moved = !has_code(refusal, "LOADING")};
}

/// `MOVED 3999 host:port`, `ASK 3999 host:port`. The slot is one of ours: a redirection says nothing about another key.
inline auto Cluster::redirection(std::string_view text, Pool const& from) const -> std::optional<Redirection> {
  text.remove_prefix(std::min(text.find(' ') + 1, text.size()));
  auto const space = text.find(' ');
  auto const colon = text.rfind(':');  // an IPv6 address stands without brackets
  if (space == std::string_view::npos || colon == std::string_view::npos || colon < space) return std::nullopt;
  auto const slot = number(text.substr(0, space), slot_count - 1);
  auto const port = number(text.substr(colon + 1), 65535);
  if (!slot || !port || *port == 0) return std::nullopt;
  std::string host{text.substr(space + 1, colon - space - 1)};
  if (host.empty() || host == "?") host = from.address().host;  // it does not know its own: the one it was reached by
  return Redirection{static_cast<std::uint16_t>(*slot), {.host = std::move(host), .port = static_cast<int>(*port)}};
}

/// Asks one node after the other for the map, those first that are not known to be broken.
inline void Cluster::refresh(TimePoint deadline, Wake* interrupt) {
  std::string said;
  std::optional<Error> refused;
  auto const candidates = whom_to_ask();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto& pool = *candidates[i];
    auto const until = share(deadline, candidates.size() - i);
    try {
      auto lent = pool.lend(until, interrupt);
      lent->expect_up_to(longest_map);
      lent->append({"CLUSTER", "SLOTS"});
      lent->send(until);
      auto const reply = lent->receive(until, interrupt);
      if (!reply) throw Error{Errc::connect_failed, pool.endpoint() + ": interrupted"};
      if ((*reply)->is_error()) throw server_error((*reply)->text(), pool.endpoint());
      take_map(reply->view(), pool);
      lent->expect_up_to(Connection::usual_reply);
      lent.give_back();
      return;
    } catch (Error const& error) {
      if (error.errc() != Errc::server_refused) pool.note_broken();
      said += (said.empty() ? "" : "; ") + std::string{error.what()};
      if (!error.retryable() && !refused) refused = error;
    }
  }
  if (refused) throw Error{*refused};
  throw Error{Errc::connect_failed, "no node of the cluster tells its slots: " + said};
}

inline std::vector<Pool*> Cluster::whom_to_ask() {
  std::vector<Pool*> all;
  std::vector<Address> others;
  Pool const* unwell = nullptr;
  {
    std::lock_guard const guard{mutex_};
    auto const used = in_use();
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (used[i]) all.push_back(nodes_[i]);
    others = replicas_;
    unwell = unwell_;
  }
  others.insert(others.end(), seeds_.begin(), seeds_.end());
  for (auto const& address : others)
    if (auto* const pool = &pool_at(address); std::find(all.begin(), all.end(), pool) == all.end()) all.push_back(pool);
  std::stable_partition(all.begin(), all.end(), [&](Pool const* pool) { return pool != unwell && !pool->broken(); });
  return all;
}

/// An array of {first slot, last slot, {host, port, …} of the primary, … of its replicas}.
inline void Cluster::take_map(ReplyView reply, Pool const& asked) {
  auto const wrong = [&](char const* what) { return Error{Errc::connection_lost, asked.endpoint() + ": protocol error: " + what}; };
  auto const address_in = [&](ReplyView node) {
    auto const port = node[1].integer();
    if (port < 1 || port > 65535) throw wrong("a port out of range");
    std::string host{node[0].is_nil() ? std::string_view{} : node[0].text()};
    if (host.empty() || host == "?") host = asked.address().host;
    return Address{.host = std::move(host), .port = static_cast<int>(port)};
  };
  struct Range {
    std::int64_t first, last;
    Pool* pool;
  };
  std::vector<Range> ranges;
  std::vector<Address> replicas;
  for (std::size_t i = 0; i < reply.size(); ++i) {
    auto const range = reply[i];
    auto const first = range[0].integer();
    auto const last = range[1].integer();
    if (first < 0 || last < first || last >= slot_count) throw wrong("a slot out of range");
    ranges.push_back({first, last, &pool_at(address_in(range[2]))});
    for (std::size_t replica = 3; replica < range.size() && replicas.size() < slot_count; ++replica) {
      auto address = address_in(range[replica]);
      if (std::none_of(replicas.begin(), replicas.end(), [&](auto const& known) { return known.text() == address.text(); }))
        replicas.push_back(std::move(address));
    }
  }
  if (ranges.empty()) throw Error{Errc::server_refused, asked.endpoint() + ": serves no slots of any cluster"};

  std::lock_guard const guard{mutex_};
  slots_.assign(slot_count, 0);
  for (auto const& range : ranges)
    std::fill(slots_.begin() + range.first, slots_.begin() + range.last + 1, index_of(*range.pool));
  replicas_ = std::move(replicas);
  doubtful_ = false;
  auto const used = in_use();
  for (std::size_t i = 0; i < nodes_.size(); ++i) used[i] ? nodes_[i]->revive() : nodes_[i]->retire();
}

inline std::vector<bool> Cluster::in_use() const {
  std::vector<bool> used(nodes_.size());
  for (auto const index : slots_)
    if (index != 0) used[index - 1U] = true;
  return used;
}

inline std::uint16_t Cluster::index_of(Pool& pool) {
  auto const found = std::find(nodes_.begin(), nodes_.end(), &pool);
  auto const index = static_cast<std::uint16_t>(found - nodes_.begin() + 1);
  if (found == nodes_.end()) nodes_.push_back(&pool);
  return index;
}

inline std::optional<std::uint32_t> Cluster::number(std::string_view text, std::uint32_t most) noexcept {
  std::uint32_t value = 0;
  auto const end = text.data() + text.size();
  auto const [parsed, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || parsed != end || value > most) return std::nullopt;
  return value;
}

}  // namespace mortise::inline v1::detail
