// SPDX-License-Identifier: MIT
// The Quorum: locks at N independent servers that have to agree by majority, with fences that rise across majorities.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <mortise/backend.hpp>
#include <mortise/client.hpp>
#include <mortise/detail/quorum_acquisition.hpp>
#include <mortise/detail/quorum_authority.hpp>
#include <mortise/detail/quorum_prober.hpp>
#include <mortise/uri.hpp>

namespace mortise::inline v1 {

/// How a Quorum decides. `client` holds for each node; a user, a password and a database may stand in each URI.
struct QuorumOptions {
  milliseconds node_timeout{100};  ///< how long an answer of one node is waited for before the node is taken off
  int quorum{0};                   ///< so many nodes have to agree: 0 = a majority; never less than that
  milliseconds quarantine{0};      ///< so long a restarted node's vote is void; 0 = the largest TTL in use
  ClientOptions client{};          ///< how each node is talked to
};

namespace detail {

/// The core of a Quorum.
class QuorumCore final : public Core {
 public:
  QuorumCore(std::vector<NodeConfig> const& nodes, std::size_t needed, QuorumOptions const& options, std::string label)
      : QuorumCore{std::make_shared<QuorumNodes>(nodes, needed,
                                                 QuorumNodes::Times{options.node_timeout, options.client.connect_timeout, options.quarantine}),
                   options.client, std::move(label)} {}
  ~QuorumCore() override { prober_->stop(); }

  void close() noexcept override { queue_.close(); }
  /// In a forked child, for the core it inherited.
  void close_inherited() noexcept { nodes_->ledger().close_inherited(); }

 protected:
  Acquired acquire(LeaseState& lease, Patience const& patience, Grant& grant) override {
    if (queue_.closed()) throw closed(lease);
    nodes_->note_ttl(lease.spec->options.ttl);
    QuorumContext const context{*nodes_, pool_, queue_, keeper(), herald(), options_, label_};
    if (!patience.waits) return QuorumAcquisition{context, lease, patience, nullptr}.run(grant);
    auto [turn, place] = queue_.enter(lease, patience.deadline, patience.cancel);
    switch (turn) {
      case LocalQueue::Turn::first: break;
      case LocalQueue::Turn::timed_out: return Acquired::busy;
      case LocalQueue::Turn::cancelled: return Acquired::cancelled;
      case LocalQueue::Turn::closed: throw closed(lease);
    }
    return QuorumAcquisition{context, lease, patience, &*place}.run(grant);
  }

  Reached ask(Request const& request, TimePoint deadline) override {
    if (request.verb == Verb::keep) nodes_->note_ttl(request.lease);
    auto lanes = pool_.lend();
    // Each connection may just have been idle for too long: that is seen when it is used.
    for (std::size_t broken = 0;; ++broken) {
      Reached reached;
      QuorumTally tally{*nodes_, *lanes, request};
      auto const verdict = tally.run(deadline, reached.sent);
      if (verdict) {
        reached.answer.yes = *verdict;
        reached.repeated = broken > 0;
        if (request.verb == Verb::release) queue_.hint(request.keys->lock);
        return reached;
      }
      if (broken == nodes_->size() || !tally.broke() || Clock::now() >= deadline) throw tally.error();
    }
  }

  std::string const& label() const noexcept override { return label_; }

 private:
  QuorumCore(std::shared_ptr<QuorumNodes> nodes, ClientOptions const& options, std::string label)
      : Core{std::make_shared<QuorumAuthority>(nodes), options.command_timeout, options.observer,
             wall_microseconds() ^ static_cast<std::uint64_t>(::getpid())},
        options_{options},
        label_{std::move(label)},
        nodes_{std::move(nodes)},
        pool_{nodes_},
        prober_{std::make_shared<Prober>(nodes_)} {
    nodes_->on_work([prober = std::weak_ptr{prober_}] {
      if (auto const rung = prober.lock()) rung->work();
    });
    nodes_->on_change([herald = std::weak_ptr{herald().weak_from_this()}](std::string const& endpoint, std::string const* reason) {
      auto const told = herald.lock();
      if (!told) return;
      if (reason != nullptr)
        told->post(Event::Kind::degraded, {}, Fence{}, {}, "asked in the background only, until it answers: " + *reason, endpoint);
      else
        told->post(Event::Kind::reconnected, {}, Fence{}, {}, {}, endpoint);
    });
  }

  static Error closed(LeaseState const& lease) {
    return Error{Errc::closed, "the Quorum of lock " + printable(lease.name()) + " has gone away"};
  }

  ClientOptions const options_;
  std::string const label_;
  std::shared_ptr<QuorumNodes> const nodes_;
  LanePool pool_;
  std::shared_ptr<Prober> const prober_;
  LocalQueue queue_{};
};

/// How many nodes have to agree. Refuses what would let two holders in at once.
inline std::size_t checked_quorum(int quorum, std::size_t nodes) {
  auto const least = majority(nodes);
  if (quorum == 0) return least;
  if (quorum < 0 || static_cast<std::size_t>(quorum) < least || static_cast<std::size_t>(quorum) > nodes)
    invalid("quorum is " + std::to_string(quorum) + " of " + std::to_string(nodes) + " nodes: must be a majority, " + std::to_string(least) +
            " to " + std::to_string(nodes) + ", for two smaller groups need not share a node");
  return static_cast<std::size_t>(quorum);
}

inline QuorumOptions checked(QuorumOptions options) {
  checked_positive("node_timeout", options.node_timeout);
  if (options.quarantine < milliseconds::zero()) invalid("quarantine is " + text(options.quarantine) + ": must not be negative");
  options.client = checked(std::move(options.client));
  if (options.client.tls) invalid("tls options are given, but a Quorum has no TLS: redis:// and unix:// only");
  if (options.client.replicas != 0)
    invalid("replicas is " + std::to_string(options.client.replicas) + ": a Quorum asks independent servers, and waits for no replicas of theirs");
  if (options.client.tracking) invalid("tracking is set: a Quorum finds a lost key at its next renewal");
  return options;
}

}  // namespace detail

/// Locks that N independent servers have to agree on (Redlock, with fences): a minority of them may be down, frozen or out
/// of reach, and costs nothing. Thread-safe; a forked child gets connections of its own. docs/quorum.md says what it rests on.
/// Every client of a lock must be given the same nodes and the same quorum.
class Quorum {
 public:
  /// Whether one server decides alone: what counts holders or keeps turns needs that.
  static constexpr bool one_authority = false;

  /// Checks URIs and options and does no I/O. Throws Errc::invalid_option, naming the part and the rule.
  explicit Quorum(std::vector<std::string> uris, QuorumOptions options = {}) {
    if (uris.empty()) detail::invalid("a quorum of no nodes: give at least one URI");
    std::vector<detail::Uri> parsed;
    for (auto const& uri : uris) {
      parsed.push_back(detail::parse_uri(uri));
      if (!parsed.back().servers.empty())
        detail::invalid(parsed.back().endpoint() + " is a group of servers: each node of a quorum is one server, redis:// or unix://");
      if (parsed.back().tls) detail::invalid("URI: rediss:// is for a Client: a Quorum has no TLS: redis:// and unix:// only");
      parsed.back().options.apply(options.client);
      for (auto other = parsed.begin(); other + 1 != parsed.end(); ++other)
        if (other->endpoint() == parsed.back().endpoint())
          detail::invalid(other->endpoint() + " is given twice: a quorum needs independent servers, each listed once");
    }
    if (!options.client.sentinel_username.empty() || !options.client.sentinel_password.empty())
      detail::invalid("sentinel_username or sentinel_password is given: no node of a quorum has Sentinels");
    auto const needed = detail::checked_quorum(options.quorum, uris.size());
    options = detail::checked(std::move(options));
    auto const label = options.client.client_name.empty() ? detail::default_label() : options.client.client_name;
    std::vector<detail::NodeConfig> nodes;
    for (auto const& uri : parsed) {
      auto own = options.client;
      detail::apply(uri, own);
      nodes.push_back({{.host = uri.host, .path = uri.path, .port = uri.port},
                       {.username = own.username, .password = own.password, .database = uri.db, .client_name = label}});
    }
    handle_ = std::make_shared<detail::CoreHandle>([nodes, needed, options, label](detail::Core* inherited) {
      if (inherited != nullptr) static_cast<detail::QuorumCore*>(inherited)->close_inherited();
      auto const own = options.client.client_name.empty() && inherited != nullptr ? detail::default_label() : label;
      return std::make_shared<detail::QuorumCore>(nodes, needed, options, own);
    });
  }
  Quorum(Quorum const&) = delete;
  Quorum& operator=(Quorum const&) = delete;

  /// Wakes whoever waits, with Errc::closed. Leases go on. Never hangs.
  ~Quorum() {
    if (auto const core = handle_->peek()) core->close();
  }

 private:
  friend detail::Access;
  std::shared_ptr<detail::CoreHandle> handle_;
};

}  // namespace mortise::inline v1
