// SPDX-License-Identifier: MIT
// The Client: thread-safe access to one Redis or Valkey deployment.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <mortise/acquisition.hpp>
#include <mortise/backend.hpp>
#include <mortise/together_script.hpp>
#include <mortise/topologies.hpp>
#include <mortise/uri.hpp>

namespace mortise::inline v1 {
namespace detail {

/// The core of a Client: one deployment, any number of threads.
class ClientCore final : public Core {
 public:
  ClientCore(Uri const& uri, ClientOptions const& options, std::shared_ptr<SecureContext const> secure)
      : ClientCore{options, make_link(uri, options, std::move(secure))} {}

  void close() noexcept override { queue_.close(); }

  /// One command about a key, whose repetition is harmless; throws for an error reply, and if nobody answers within the command timeout.
  template <class Use>
  auto with_connection(std::string_view key, Use&& use) {
    auto const deadline = after(Clock::now(), options_.command_timeout);
    bool repeated = false;
    return link_->with_connection(key_slot(key), deadline, repeated, [&](Connection& connection, Pool&) { return use(connection, deadline); });
  }
  Reply command(std::string_view key, std::initializer_list<std::string_view> arguments) {
    return with_connection(key, [&](Connection& connection, TimePoint deadline) {
      connection.append(arguments);
      connection.send(deadline);
      return connection.expect(deadline);
    });
  }

  /// In a forked child, for the core it inherited: closes the child's copies of the parent's sockets, and nothing else.
  void close_inherited() noexcept { link_->topology().close_inherited(); }

  /// Refuses a key whose siblings could not be reached.
  void check_reachable(std::string_view key, std::string const& what) const {
    if (link_->topology().by_slot()) check_same_slot(key, what);
  }

 protected:
  Acquired acquire(LeaseState& lease, Patience const& patience, Grant& grant) override {
    if (queue_.closed()) throw closed(lease);
    check_reachable(lease.name(), "lock name");
    AcquisitionContext const context{*link_, keeper(), queue_, options_, label_};
    if (!patience.waits) return Acquisition{context, lease, patience, nullptr}.run(grant);
    auto const [turn, place] = queue_.enter(lease, patience.deadline, patience.cancel);
    switch (turn) {
      case LocalQueue::Turn::first: break;
      case LocalQueue::Turn::timed_out: return Acquired::busy;
      case LocalQueue::Turn::cancelled: return Acquired::cancelled;
      case LocalQueue::Turn::closed: throw closed(lease);
    }
    auto const acquired = acquire_as_first(Acquisition{context, lease, patience, place.get()}, *place, grant);
    if (acquired == Acquired::granted && serves_next(lease)) {
      place->hold();
      lease.place = place;
    }
    return acquired;
  }

  Reached ask(Request const& request, TimePoint deadline) override { return link_->ask(request, deadline); }

  /// Asks for the lock in the name of the next thread in line, if one waits here for this release.
  Reached give_up(LeaseState& lease, Request const& release, TimePoint deadline) override {
    auto const place = std::static_pointer_cast<LocalQueue::Place>(std::exchange(lease.place, nullptr));
    auto next = place ? place->next(deadline) : LocalQueue::Next{};
    if (!next) return link_->ask(release, deadline);
    struct Serve {
      LocalQueue::Place const& place;
      LocalQueue::Next const& next;
      ~Serve() { place.serve(next); }
    } const serve{*place, next};
    auto const& spec = *next.lease->spec;
    return link_->release_and_ask(release, acquire_request(spec.keys, next.token, spec.options.ttl, retention_for(spec.options.ttl), waiting_life),
                                  next.asked, deadline);
  }

  /// In a cluster what lies in one slot: a request is carried out by one node.
  bool in_one_request(std::vector<std::shared_ptr<LockSpec const>> const& specs) const noexcept override {
    auto const beside = [&](auto const& spec) { return spec->keys.same_slot && spec->keys.slot == specs.front()->keys.slot; };
    return options_.replicas == 0 && (!link_->topology().by_slot() || std::ranges::all_of(specs, beside));
  }
  std::optional<std::size_t> acquire_together(std::vector<std::shared_ptr<LeaseState>> const& leases, std::vector<Grant>& grants) override;
  std::string const& label() const noexcept override { return label_; }

 private:
  Acquired acquire_as_first(Acquisition acquisition, LocalQueue::Place const& place, Grant& grant) {
    struct Unwatch {
      Keeper& keeper;
      Line& line;
      ~Unwatch() { keeper.unwatch(line); }
    } const unwatch{keeper(), place.line()};
    return acquisition.run(grant);
  }

  /// Whether the next in line may be asked for on the holder's connection. A WAIT speaks of the writes of its own.
  bool serves_next(LeaseState const& lease) const noexcept { return lease.spec->keys.hold == Hold::mutex && options_.replicas == 0; }

  ClientCore(ClientOptions const& options, std::shared_ptr<Link> link)
      : Core{link, options.command_timeout, options.observer, wall_microseconds() ^ static_cast<std::uint64_t>(::getpid())},
        options_{options},
        label_{label_of(options)},
        link_{std::move(link)} {
    link_->on_degraded([herald = std::weak_ptr{herald().weak_from_this()}](std::string const& reason) {
      if (auto const told = herald.lock()) told->post(Event::Kind::degraded, {}, Fence{}, {}, reason);
    });
    link_->topology().on_reconnect([herald = std::weak_ptr{herald().weak_from_this()}](std::string const& endpoint) {
      if (auto const told = herald.lock()) told->post(Event::Kind::reconnected, {}, Fence{}, {}, {}, endpoint);
    });
  }

  void undo(std::vector<std::shared_ptr<LeaseState>> const& leases, TimePoint deadline, int copies) noexcept;

  static Error closed(LeaseState const& lease) {
    return Error{Errc::closed, "the Client of lock " + printable(lease.name()) + " has gone away"};
  }

  static std::string label_of(ClientOptions const& options) {
    return options.client_name.empty() ? default_label() : options.client_name;
  }

  static std::shared_ptr<Link> make_link(Uri const& uri, ClientOptions const& options, std::shared_ptr<SecureContext const> secure) {
    return std::make_shared<Link>(make_topology(uri, options, label_of(options), std::move(secure)), options.tracking);
  }

  ClientOptions const options_;
  std::string const label_;
  std::shared_ptr<Link> const link_;
  LocalQueue queue_{};
};

// --- below: bodies

inline std::optional<std::size_t> ClientCore::acquire_together(std::vector<std::shared_ptr<LeaseState>> const& leases, std::vector<Grant>& grants) {
  if (queue_.closed()) throw closed(*leases.front());
  std::vector<Request> requests;
  for (auto const& lease : leases)
    requests.push_back(acquire_request(lease->spec->keys, lease->token.stored(), lease->spec->options.ttl, retention_for(lease->spec->options.ttl), {}));
  auto const deadline = after(Clock::now(), options_.command_timeout);
  bool repeated = false;
  TimePoint sent{};
  int copies = 0;  // of the request that may be carried out without anybody hearing of it
  Together together;
  try {
    together = link_->with_connection(leases.front()->spec->keys.slot, deadline, repeated, [&](Connection& connection, Pool&) {
      ++copies;
      auto const reply = call_script(connection, deadline, requests.front().keys->lock, [&](ScriptBy by) {
        sent = Clock::now();
        append_together(connection, requests, by);
      });
      --copies;
      return to_together(requests.size(), *reply);
    });
  } catch (Error const& error) {
    bool const refused = !error.in_doubt() && error.errc() != Errc::connection_lost && error.errc() != Errc::timeout;
    if (refused && copies > 0) --copies;  // an error reply is an answer too
    if (copies > 0) undo(leases, deadline, copies);
    throw;
  }
  if (together.fences.empty()) {
    if (copies > 0) undo(leases, deadline, copies);
    return together.busy;
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    auto const ttl = leases[i]->spec->options.ttl;
    grants[i] = Grant{together.fences[i], sent, valid_until(sent, ttl), false, false};
    leases[i]->may_live_until(after(deadline, ttl));
    leases[i]->loose_copies.store(copies);
  }
  if (std::ranges::all_of(grants, [](Grant const& grant) { return grant.until > Clock::now(); })) return std::nullopt;
  undo(leases, deadline, copies);
  throw Error{Errc::timeout, "granted, but its validity was over before it could be used: the TTL is too short for this server"};
}

inline void ClientCore::undo(std::vector<std::shared_ptr<LeaseState>> const& leases, TimePoint deadline, int copies) noexcept {
  for (auto const& lease : leases)
    keeper().settle(*lease, after(deadline, lease->spec->options.ttl), copies);
}

}  // namespace detail

/// Thread-safe access to one deployment, told by its URI: `redis://[user[:password]@]host[:port][/db][?option=value]`,
/// `unix:///path[?db=n]`, `redis+sentinel://host[:port],…/service[/db]` or `redis+cluster://host[:port],…`; with TLS, by
/// <mortise/tls.hpp>: `rediss://…`, `rediss+sentinel://…`, `rediss+cluster://…`. One per process is enough: threads get connections
/// on loan, at most one waits for each name.
/// It reconnects by itself, and a forked child gets connections of its own.
class Client {
 public:
  static constexpr bool one_authority = true;  ///< for what cannot be decided by majority: SharedLock, Semaphore

  /// Checks URI and options and talks to nobody. Throws Errc::invalid_option, naming the part and the rule.
  explicit Client(std::string_view uri, ClientOptions options = {}) {
    auto const parsed = detail::parse_uri(uri);
    detail::apply(parsed, options);
    options = detail::checked(std::move(options));
    detail::check_tls(parsed, options);
    detail::check_options_for(parsed, options);
    auto secure = options.tls ? detail::make_secure(*options.tls) : nullptr;
    handle_ = std::make_shared<detail::CoreHandle>([parsed, options = std::move(options), secure = std::move(secure)](detail::Core* inherited) {
      if (inherited != nullptr) static_cast<detail::ClientCore*>(inherited)->close_inherited();
      return std::make_shared<detail::ClientCore>(parsed, options, inherited != nullptr && secure ? secure->anew() : secure);
    });
  }
  Client(Client const&) = delete;
  Client& operator=(Client const&) = delete;

  /// Wakes whoever waits, with Errc::closed. Leases go on: they share what keeps them alive. Never hangs.
  ~Client() {
    if (auto const core = handle_->peek()) core->close();
  }

 private:
  friend detail::Access;
  std::shared_ptr<detail::CoreHandle> handle_;
};

}  // namespace mortise::inline v1
