// SPDX-License-Identifier: MIT
// What Leases share: taking, keeping and giving up a lock by the verbs of a backend, whatever kind it is.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <mortise/keeper.hpp>
#include <mortise/promised_room.hpp>

namespace mortise::inline v1::detail {

/// How long a caller waits for its turn.
struct Patience {
  bool waits{false};           ///< false: a try, one round trip
  TimePoint deadline{never};   ///< of a wait
  std::stop_token cancel{};
};

enum class Acquired : std::uint8_t { granted, busy, cancelled };

/// What a backend tells of a grant.
struct Grant {
  Fence fence{};
  TimePoint sent{};         ///< when the request was written that was granted
  TimePoint until{};        ///< how long it may be believed
  bool brief{false};        ///< under the short lease of a hand-off: KEEP has to follow
  bool handed_over{false};  ///< by a release, after a wait
};

/// The answer to a keep or release, and whether the request may have been carried out twice.
struct Reached {
  Answer answer{};
  TimePoint sent{};
  bool repeated{false};
  std::string const* endpoint{nullptr};  ///< of the server that answered, for events
};

/// The reference-counted heart of a Client, a Quorum or a MemoryBackend: it lives as long as they or any Lease of theirs.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Core const&) = delete;
  Core& operator=(Core const&) = delete;
  virtual ~Core() {
    keeper_->stop();
    herald_->stop();
  }

  /// Takes the lock. No lease: busy when the deadline came, or cancelled. Throws Error.
  std::shared_ptr<LeaseState> take(std::shared_ptr<LockSpec const> const& spec, Patience const& patience);

  /// Takes all of these by one try, or none: then the index of one that is busy. Leases come in the order of the specs.
  struct Joint {
    std::vector<std::shared_ptr<LeaseState>> leases{};
    std::size_t busy{};
  };
  Joint take_together(std::vector<std::shared_ptr<LockSpec const>> const& specs);

  /// Asks whether the lease still stands. False makes it lost.
  bool confirm(LeaseState& lease) { return prolong(lease, milliseconds{1}); }
  /// Lengthens it to `ttl` from now. False makes it lost; throws, its deadline unmoved, if nobody answered.
  bool prolong(LeaseState& lease, milliseconds ttl);
  /// Makes a writer's lease a reader's, without a gap. False makes it lost; throws if nobody answered.
  bool downgrade(LeaseState& lease);
  /// Gives it up. True: released by us; false: it was not ours any more; throws if nobody answered, and goes on trying.
  bool release(LeaseState& lease);
  /// The same by the keeper, without waiting for it.
  void release_later(LeaseState& lease) noexcept;
  /// The same without waiting for more than one call may take, and without throwing.
  void abandon(LeaseState& lease) noexcept;

  TimePoint now() const noexcept { return authority_->now(); }
  Herald& herald() noexcept { return *herald_; }

  /// Wakes everybody who waits, with Errc::closed; leases go on.
  virtual void close() noexcept = 0;

 protected:
  Core(std::shared_ptr<Authority> authority, milliseconds command_timeout, Herald::Observer observer, std::uint64_t seed)
      : authority_{std::move(authority)},
        herald_{std::make_shared<Herald>(authority_, std::move(observer))},
        keeper_{std::make_shared<Keeper>(authority_, herald_, command_timeout, seed)},
        command_timeout_{command_timeout} {}

  /// One acquisition: fills the grant, or says why there is none. `lease` gives the token.
  virtual Acquired acquire(LeaseState& lease, Patience const& patience, Grant& grant) = 0;
  /// Whether these can be asked for in one request, by the next function.
  virtual bool in_one_request(std::vector<std::shared_ptr<LockSpec const>> const&) const noexcept { return false; }
  /// One try for all: fills the grants, or gives the index of one that is busy. Throws as acquire() does.
  virtual std::optional<std::size_t> acquire_together(std::vector<std::shared_ptr<LeaseState>> const&, std::vector<Grant>&) { return std::nullopt; }
  /// One keep or release, said again where that is safe; throws if nobody answers by `deadline`.
  virtual Reached ask(Request const& request, TimePoint deadline) = 0;
  /// The release of a lease that this caller has in hand.
  virtual Reached give_up(LeaseState&, Request const& release, TimePoint deadline) { return ask(release, deadline); }
  /// The label of new owner tokens.
  virtual std::string const& label() const noexcept = 0;
  /// Starts the threads, where there are any. Throws.
  virtual void start() {
    herald_->start();
    keeper_->start();
  }

  milliseconds command_timeout() const noexcept { return command_timeout_; }
  Keeper& keeper() noexcept { return *keeper_; }

 private:
  bool keep(LeaseState& lease, Request const& request);
  Standing end(LeaseState& lease) noexcept;
  void settle_in(LeaseState& lease, Grant const& grant, PromisedRoom& room, TimePoint began) noexcept;
  void hold(LeaseState& lease, Grant const& grant, bool keep) noexcept;
  void lose(LeaseState& lease, char const* reason) noexcept;
  bool tracks(LeaseState const& lease) const noexcept { return authority_->tracks() && primitive(lease.spec->keys.hold).one_owner; }

  std::shared_ptr<Authority> authority_;
  std::shared_ptr<Herald> herald_;
  std::shared_ptr<Keeper> keeper_;
  milliseconds command_timeout_;
};

// --- below: bodies

inline std::shared_ptr<LeaseState> Core::take(std::shared_ptr<LockSpec const> const& spec, Patience const& patience) {
  auto const began = now();
  // Whatever can fail here for want of memory or threads fails before anything is sent.
  start();
  auto lease = std::make_shared<LeaseState>(shared_from_this(), spec, OwnerToken::fresh(label()));
  lease->unsettled = keeper_->room_to_settle(spec, lease->token.stored());
  PromisedRoom room{*keeper_, *herald_};

  Grant grant;
  auto const acquired = [&] {
    try {
      return acquire(*lease, patience, grant);
    } catch (Error const& error) {
      if (patience.waits) herald_->post(Event::Kind::waited, spec->name(), Fence{}, now() - began, error.errc() == Errc::closed ? "closed" : error.what());
      throw;
    }
  }();
  if (acquired != Acquired::granted) {
    auto const kind = patience.waits ? Event::Kind::waited : Event::Kind::busy;
    herald_->post(kind, spec->name(), Fence{}, now() - began, acquired == Acquired::cancelled ? "cancelled" : "deadline");
    return nullptr;
  }
  settle_in(*lease, grant, room, began);
  return lease;
}

/// Granted: looked after from here on.
inline void Core::settle_in(LeaseState& lease, Grant const& grant, PromisedRoom& room, TimePoint began) noexcept {
  room.for_herald_used = true;
  room.for_keeper_used = lease.spec->options.renew || grant.brief || tracks(lease);
  hold(lease, grant, room.for_keeper_used);
  herald_->post(grant.handed_over ? Event::Kind::handed_over : Event::Kind::granted, lease.name(), grant.fence, now() - began);
}

inline Core::Joint Core::take_together(std::vector<std::shared_ptr<LockSpec const>> const& specs) {
  Joint joint;
  if (specs.size() == 1 || !in_one_request(specs)) {  // one after the other, and all back if one is busy
    for (auto const& spec : specs) {
      if (auto lease = take(spec, {})) {
        joint.leases.push_back(std::move(lease));
        continue;
      }
      joint.busy = joint.leases.size();
      for (auto const& taken : joint.leases) abandon(*taken);
      joint.leases.clear();
      break;
    }
    return joint;
  }
  auto const began = now();
  start();
  std::vector<std::unique_ptr<PromisedRoom>> rooms;
  std::vector<Grant> grants(specs.size());
  for (auto const& spec : specs) {
    auto const& lease = joint.leases.emplace_back(std::make_shared<LeaseState>(shared_from_this(), spec, OwnerToken::fresh(label())));
    lease->unsettled = keeper_->room_to_settle(spec, lease->token.stored());
    rooms.push_back(std::make_unique<PromisedRoom>(*keeper_, *herald_));
  }
  if (auto const busy = acquire_together(joint.leases, grants)) {
    herald_->post(Event::Kind::busy, specs[*busy]->name(), Fence{}, now() - began, "deadline");
    joint.busy = *busy;
    joint.leases.clear();
    return joint;
  }
  for (std::size_t i = 0; i < specs.size(); ++i) settle_in(*joint.leases[i], grants[i], *rooms[i], began);
  return joint;
}

inline void Core::hold(LeaseState& lease, Grant const& grant, bool keep) noexcept {
  auto const& options = lease.spec->options;
  lease.fence = grant.fence;
  lease.granted = grant.sent;
  lease.first_keep = grant.brief;
  lease.verify = tracks(lease);  // the first look is what the server remembers
  lease.renew_until = !options.renew ? TimePoint::min() : options.max_hold ? after(grant.sent, *options.max_hold) : never;
  lease.validity.begin(grant.until);
  herald_->watch(lease);
  // Not at once: a lock that is held for less than this needs no KEEP at all.
  if (keep) keeper_->hold(lease, grant.brief || lease.verify ? after(now(), first_keep_delay(options.ttl)) : renewal_due(grant.sent, options.ttl));
}

inline void Core::lose(LeaseState& lease, char const* reason) noexcept {
  lease.gone.store(true);
  lease.loss_reason.store(reason);
  if (lease.validity.end(Standing::lost) == Standing::held) herald_->tell(lease);
  keeper_->drop(lease);
}

inline bool Core::prolong(LeaseState& lease, milliseconds ttl) {
  auto const retention = retention_for(std::max(ttl, lease.spec->options.ttl));
  return keep(lease, keep_request(lease.spec->keys, lease.token.stored(), ttl, lease.fence, retention));
}

inline bool Core::downgrade(LeaseState& lease) {
  auto const ttl = lease.spec->options.ttl;
  auto request = keep_request(lease.spec->keys, lease.token.stored(), ttl, lease.fence, retention_for(ttl));
  request.downgrade = true;
  if (!keep(lease, request)) return false;
  lease.downgraded.store(true);
  return true;
}

inline bool Core::keep(LeaseState& lease, Request const& request) {
  auto const ttl = request.lease;
  if (!lease.validity.held(now())) return false;
  lease.may_live_until(after(after(now(), command_timeout_), ttl));
  auto const reached = ask(request, after(now(), command_timeout_));
  if (reached.endpoint != nullptr) lease.endpoint.store(reached.endpoint, std::memory_order_relaxed);
  if (!reached.answer.yes) {
    lose(lease, "taken over or deleted");
    return false;
  }
  return lease.validity.prolong(valid_until(reached.sent, ttl), now());
}

/// It is held no more, and nobody renews it. Returns how it stood before.
inline Standing Core::end(LeaseState& lease) noexcept {
  auto const before = lease.validity.end(Standing::released);
  keeper_->drop(lease);
  if (before == Standing::lost)
    herald_->tell_and_forget(lease.shared_from_this());
  else
    herald_->drop(lease);
  return before;
}

inline bool Core::release(LeaseState& lease) {
  auto const deadline = after(now(), command_timeout_);
  auto const before = end(lease);
  if (before != Standing::held && now() >= lease.latest_end()) lease.gone.store(true);
  if (lease.gone.load()) {
    lease.place.reset();
    return false;
  }

  auto const& spec = *lease.spec;
  auto const request = release_request(spec.keys, lease.token.stored(), claim_time, retention_for(spec.options.ttl));
  try {
    auto const reached = give_up(lease, request, deadline);
    if (reached.endpoint != nullptr) lease.endpoint.store(reached.endpoint, std::memory_order_relaxed);
    lease.gone.store(true);
    if (int const copies = lease.loose_copies.load(); copies > 0) keeper_->settle(lease, lease.latest_end(), copies);
    // "Not yours" to a repeated request: the first copy, whose answer was lost, has released what we held until then.
    bool const ours = reached.answer.yes || (reached.repeated && before == Standing::held);
    if (ours) herald_->post(Event::Kind::released, spec.name(), lease.fence, now() - lease.granted);
    if (!ours && before == Standing::held)
      herald_->post(Event::Kind::lost, spec.name(), lease.fence, now() - lease.granted, "taken over or deleted", lease.endpoint_text());
    return ours;
  } catch (Error const& error) {
    if (!lease.settling.exchange(true)) keeper_->settle(lease, lease.latest_end(), lease.loose_copies.load());
    herald_->post(Event::Kind::release_failed, spec.name(), lease.fence, {}, error.what());
    throw;
  } catch (...) {  // no memory
    if (!lease.settling.exchange(true)) keeper_->settle(lease, lease.latest_end(), lease.loose_copies.load());
    throw;
  }
}

inline void Core::release_later(LeaseState& lease) noexcept {
  if (lease.settling.load() || lease.validity.standing() == Standing::released) return;
  auto const before = end(lease);
  lease.place.reset();
  if (lease.gone.load() || now() >= lease.latest_end() || lease.settling.exchange(true)) return;
  keeper_->settle(lease, lease.latest_end(), lease.loose_copies.load(), before == Standing::held);
}

inline void Core::abandon(LeaseState& lease) noexcept {
  try {
    auto const standing = lease.validity.standing();
    bool const unreachable = standing == Standing::lost && !lease.gone.load();
    if (lease.settling.load()) return;  // the keeper is at it
    if (!unreachable) {
      release(lease);
      return;
    }
    release_later(lease);  // lost because no renewal got through: trying now would only hold the caller up
  } catch (...) {  // told to the observer, and being settled
  }
}

}  // namespace mortise::inline v1::detail
