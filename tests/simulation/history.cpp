// SPDX-License-Identifier: MIT
#include "history.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <mortise/client.hpp>
#include <mortise/lock.hpp>
#include <mortise/quorum.hpp>

#include "network.hpp"
#include "server.hpp"
#include "world.hpp"

namespace simulation {
namespace {

using mortise::Client;
using mortise::Errc;
using mortise::Error;
using mortise::Lease;
using mortise::Lock;
using mortise::Quorum;
using std::chrono::milliseconds;

constexpr char lock_name[] = "lock:simulated";
constexpr Nanos longest_ttl = 3;  // in TTLs: so far a lease is extended

class History {
 public:
  History(std::uint64_t seed, Break broken, bool traced) : world_{seed}, network_{world_}, broken_{broken}, traced_{traced} {}

  Outcome run();

 private:
  /// A lease in somebody's hands.
  struct Held {
    Process* process;
    Lease const* lease;
    std::uint64_t fence;
    unsigned losses;  // of data, before it was asked for
  };
  struct Granted {
    std::uint64_t fence;
    Nanos at;
  };

  void set_up();
  void plan_faults();
  void fault();
  void foreigner();
  void end_a_lease();
  template <class Backend>
  void live(Process& process, Backend& backend);
  template <class Backend>
  void work(Process& process, Lock<Backend>& lock, unsigned works);
  template <class Backend>
  std::optional<Lease> take(Process& process, Lock<Backend>& lock);
  template <class Backend>
  void guarded_section(Process& process, Lock<Backend>& lock);
  /// When a call began, and how much had been lost by then.
  struct Began {
    Nanos at;
    unsigned losses;
  };
  Began begin() const { return {world_.now(), data_losses_}; }
  void hold(Process& process, Lease& lease, Began began);
  void use(Process& process, Lease& lease);
  void granted(Process& process, Lease const& lease, Began began);
  void lost(Process& process, Lease const& lease);
  void failed(Process& process, Error const& error);
  template <class Call>
  auto timed(Process& process, char const* name, Nanos limit, Call&& call);
  void check_leftovers();
  void wrong(std::string what) {
    if (outcome_.wrong.empty()) {
      outcome_.wrong = std::move(what);
      note(nullptr, "WRONG: " + outcome_.wrong);
    }
  }
  void note(Process const* process, std::string const& what);

  World world_;
  Network network_;
  Break broken_;
  bool traced_;
  Outcome outcome_{};

  // what the seed says
  bool quorum_{false};
  bool calm_{false};          // no faults: then no call fails
  bool loses_data_{false};    // then all clocks agree
  bool untimed_{false};       // leases end at servers whenever they like: of a quorum's promises, those about fences are left
  Nanos ttl_{0};
  Nanos span_{0};             // in which faults happen
  Nanos command_timeout_{0};
  Nanos node_timeout_{0};
  bool renews_{true};
  unsigned threads_{1}, works_{1};

  std::deque<Server> servers_{};
  std::size_t living_{0};
  std::deque<Held*> held_{};
  std::vector<Granted> fences_{};
  unsigned data_losses_{0};
  std::uint64_t foreign_{0};
  Nanos foreign_until_{0};
};

milliseconds in_ms(Nanos time) { return milliseconds{time / millisecond}; }

void History::note(Process const* process, std::string const& what) {
  if (!traced_) return;
  char when[48];
  std::snprintf(when, sizeof when, "%12.3f ms  %s", static_cast<double>(world_.now()) / 1e6, process == nullptr ? "  " : "p");
  outcome_.trace.push_back(when + (process == nullptr ? std::string{} : std::to_string(process->id)) + "  " + what);
}

void History::set_up() {
  auto& random = world_.random();
  quorum_ = broken_ == Break::no_raise || broken_ == Break::vote_after_data_loss || random.chance(400);
  if (broken_ == Break::nudge_takes_empty_value || broken_ == Break::no_nudge) quorum_ = false;
  calm_ = random.chance(100);
  loses_data_ = !calm_ && (broken_ == Break::vote_after_data_loss || random.chance(quorum_ ? 400 : 100));
  untimed_ = quorum_ && !calm_ && !loses_data_ && random.chance(200);
  ttl_ = (random.chance(800) ? random.between(20, 250) : random.between(250, 3000)) * millisecond;
  span_ = random.between(1, 6) * ttl_;
  command_timeout_ = random.between(100, 1000) * millisecond;
  node_timeout_ = random.between(20, 100) * millisecond;
  renews_ = random.chance(600);
  threads_ = static_cast<unsigned>(random.between(1, 2));
  works_ = static_cast<unsigned>(random.between(1, 3));

  auto& weather = network_.weather;
  weather.most_delay = calm_ || random.chance(700) ? random.between(50, 500) * microsecond : random.between(1, 8) * millisecond;
  if (!calm_) {
    if (random.chance(500)) weather.slow_per_thousand = static_cast<unsigned>(random.between(1, 60));
    weather.slowest = random.between(1, 2 * ttl_ / millisecond) * millisecond;
    if (random.chance(400)) weather.break_per_thousand = static_cast<unsigned>(random.between(1, 30));
    if (random.chance(400)) weather.twice_per_thousand = static_cast<unsigned>(random.between(1, 80));
    weather.latest_copy = random.between(1, 2 * ttl_ / millisecond) * millisecond;
    if (broken_ == Break::repeat_sets_expiry) {  // a renewal would make it good again
      renews_ = false;
      weather.twice_per_thousand = static_cast<unsigned>(random.between(50, 400));
    }
    if (untimed_ && random.chance(500)) {  // late requests and copies of them are what their fences have to survive
      weather.slow_per_thousand = static_cast<unsigned>(random.between(50, 400));
      weather.twice_per_thousand = static_cast<unsigned>(random.between(50, 400));
      weather.slowest = weather.latest_copy = node_timeout_ / 2;
    }
  }

  // Rates differ by less than the drift allowance: 1 %, and 0.1 % where there are hand-offs.
  double const apart = quorum_ ? 0.004 : 0.0004;
  auto const rate = [&] { return 1 + apart * (static_cast<double>(random.between(-1000, 1000)) / 1000); };
  auto const count = !quorum_ ? 1 : random.chance(800) ? 3 : 5;
  for (int i = 0; i < count; ++i) {
    auto& server = servers_.emplace_back(world_, network_, "/node/" + std::to_string(i), broken_);
    server.set_rate(broken_ == Break::clocks_run_apart ? 1.06 : rate());
    if (!loses_data_) server.set_ahead(random.between(-20, 20) * second);
  }
  auto const processes = random.between(2, 4);
  for (int i = 0; i < processes; ++i) {
    auto& process = world_.add_process();
    process.rate = rate();
    process.clock_base = random.between(1, 1'000'000) * second;
    if (!loses_data_) process.wall_ahead = random.between(-50, 50) * second;
  }
}

void History::plan_faults() {
  if (calm_) return;
  auto& random = world_.random();
  if (untimed_) end_a_lease();
  auto const count = random.between(0, 6);
  for (int i = 0; i < count; ++i) world_.at(random.between(0, span_), [this] { fault(); });
  world_.at(span_, [this] {  // and then everybody who waits has to get in
    auto& weather = network_.weather;
    weather.slow_per_thousand = weather.break_per_thousand = weather.twice_per_thousand = 0;
  });
}

void History::end_a_lease() {
  auto& random = world_.random();
  servers_[random.below(servers_.size())].store().remove(lock_name);
  if (world_.now() < span_) world_.at(world_.now() + random.between(1, ttl_ / 8), [this] { end_a_lease(); });
}

void History::fault() {
  auto& random = world_.random();
  auto& server = servers_[random.below(servers_.size())];
  auto& process = *world_.processes()[random.below(world_.processes().size())];
  auto const some_time = [&](Nanos most) { return random.between(1, most / microsecond) * microsecond; };
  ++outcome_.faults;
  switch (loses_data_ && random.chance(300) ? 2 : random.below(9)) {
    case 0:
      note(nullptr, server.path() + " is frozen");
      return server.freeze(some_time(2 * ttl_));
    case 1:
      note(nullptr, server.path() + " crashes and comes back with its data");
      return server.crash(Server::Data::kept, some_time(2 * ttl_));
    case 2: {
      if (!loses_data_) return;
      // Of a quorum a minority: where all of it is young at once, who has never seen it before takes it for new.
      auto& emptied = servers_[random.below(quorum_ ? servers_.size() / 2 : 1)];
      note(nullptr, emptied.path() + " crashes and comes back empty");
      if (!quorum_) ++data_losses_;
      return emptied.crash(Server::Data::lost, some_time(quorum_ ? 100 * millisecond : 2 * ttl_));
    }
    case 3:
      note(nullptr, "a connection breaks");
      return network_.break_one();
    case 4:
    case 5:
      note(&process, "is paused");
      return world_.pause(process, some_time(2 * ttl_));
    case 6:
      if (process.dead || living_ < 2) return;
      note(&process, "dies");
      network_.host_gone(process, random.chance(600));
      world_.kill(process);
      --living_;
      return;
    case 7:
      if (loses_data_) return;
      note(&process, "has its wall clock set");
      process.wall_ahead = random.between(-50, 50) * second;
      return;
    default:
      if (!quorum_) foreigner();
  }
}

/// Somebody else's SET NX, with a value that is as good as any: nothing at all.
void History::foreigner() {
  auto& store = servers_.front().store();
  auto const time = in_ms(ttl_).count();
  auto const value = world_.random().chance(500) ? std::string{} : "foreign" + std::to_string(++foreign_);
  if (!servers_.front().up() || !store.set(lock_name, value, time, true)) return;
  note(nullptr, "a foreign client takes the lock");
  foreign_until_ = world_.now() + world_.random().between(1, time - 1) * (millisecond - microsecond * 100);
  auto const losses = data_losses_;
  world_.at(foreign_until_, [this, value, losses] {
    foreign_until_ = 0;
    if (losses != data_losses_) return;
    if (!servers_.front().store().compare_and_delete(lock_name, value)) wrong("a foreign lock was taken");
    note(nullptr, "the foreign client deletes the lock");
  });
}

template <class Call>
auto History::timed(Process& process, char const* name, Nanos limit, Call&& call) {
  auto const began = process.local(world_.now());
  auto const pauses = process.pauses;
  struct Check {
    History& history;
    Process& process;
    char const* name;
    Nanos limit, began;
    unsigned pauses;
    ~Check() {
      auto const took = process.local(history.world_.now()) - began;
      if (process.pauses != pauses || process.dead || took <= limit + 50 * millisecond) return;
      history.wrong("L2: " + std::string{name} + " took " + std::to_string(took / microsecond) + " us, allowed were " +
                    std::to_string(limit / microsecond) + " us and 50 ms");
    }
  } const check{*this, process, name, limit, began, pauses};
  return call();
}

void History::failed(Process& process, Error const& error) {
  if (process.dead) return;
  ++outcome_.errors;
  if (traced_) note(&process, std::string{"error: "} + error.what());
  switch (error.errc()) {
    case Errc::invalid_option:
    case Errc::auth_failed:
    case Errc::no_permission:
    case Errc::wrong_type:
    case Errc::not_held:
    case Errc::closed: return wrong(std::string{"an error that cannot be: "} + error.what());
    case Errc::timeout:
    case Errc::connect_failed:
    case Errc::connection_lost:
    case Errc::in_doubt:
    case Errc::server_refused:
    case Errc::no_quorum: break;
  }
  if (calm_) wrong(std::string{"an error without a fault: "} + error.what());
}

/// S1 and S2, in the moment of a grant.
void History::granted(Process& process, Lease const& lease, Began began) {
  ++outcome_.grants;
  auto const fence = lease.fence().value;
  auto const rest = lease.remaining();  // asked whether it is traced or not: reading a clock takes time
  if (traced_) note(&process, "holds it, fence " + std::to_string(fence) + ", for " + std::to_string(rest.count()) + " ms");
  if (!lease.held()) return;  // paused before it came back: it believes in nothing
  for (auto* const other : held_) {
    if (other->process->dead || other->losses != data_losses_ || began.losses != data_losses_ || untimed_) continue;
    bool const still = world_.as(*other->process, [&] { return other->lease->held(); });
    if (still)
      wrong("S1: process " + std::to_string(process.id) + " holds the lock with fence " + std::to_string(fence) + " while process " +
            std::to_string(other->process->id) + " holds it with fence " + std::to_string(other->fence));
  }
  // Where data may be lost, or leases end at any moment, fences tell what ended before something else began.
  bool const overlaps = loses_data_ || untimed_;
  for (auto const& [before, at] : fences_)
    if (before == fence || (before > fence && (!overlaps || at < began.at)))
      wrong("S2: fence " + std::to_string(fence) + " was granted after fence " + std::to_string(before));
  if (foreign_until_ != 0 && servers_.front().up() && broken_ == Break::nudge_takes_empty_value)
    wrong("a foreign lock was taken");
  fences_.push_back({fence, world_.now()});
}

/// S3: who holds it no more is told so, by the clock.
void History::lost(Process& process, Lease const& lease) {
  ++outcome_.losses;
  note(&process, "has lost it");
  auto const pauses = process.pauses;
  world_.sleep(5 * millisecond);
  if (process.dead || process.pauses != pauses) return;
  if (!lease.lost().stop_requested()) wrong("S3: a lost lease is not told of");
}

void History::use(Process& process, Lease& lease) {
  auto& random = world_.random();
  auto const steps = random.between(1, 3);
  for (int i = 0; i < steps && !process.dead; ++i) {
    world_.sleep(random.chance(500) ? random.between(0, 2000) * microsecond : random.between(0, ttl_));
    if (process.dead) return;
    if (!lease.held()) return lost(process, lease);
    switch (random.below(6)) {
      case 0:
        if (!timed(process, "confirm", command_timeout_, [&] { return lease.confirm(); }) && lease.held())
          wrong("confirm() says no, and held() still yes");
        break;
      case 1:
        timed(process, "extend", command_timeout_, [&] { return random.chance(500) ? lease.extend() : lease.extend(in_ms(longest_ttl * ttl_)); });
        break;
      default: break;
    }
  }
}

/// To the end of the lease, one way or another.
void History::hold(Process& process, Lease& lease, Began began) {
  Held entry{&process, &lease, lease.fence().value, began.losses};
  granted(process, lease, began);
  held_.push_back(&entry);
  struct Forget {
    std::deque<Held*>& held;
    Held* entry;
    ~Forget() { std::erase(held, entry); }
  } const forget{held_, &entry};
  try {
    use(process, lease);
  } catch (Error const& error) {
    failed(process, error);
  }
  auto& random = world_.random();
  if (!process.dead && random.chance(200)) {  // forgets about it
    world_.sleep(random.between(0, 2 * ttl_));
    if (!process.dead && !lease.held()) lost(process, lease);
  }
  if (process.dead || random.chance(300)) return;  // its destructor releases it
  try {
    auto const released = timed(process, "release", command_timeout_, [&] { return lease.release(); });
    note(&process, released ? "has released it" : "found it was not its own any more");
  } catch (Error const& error) {
    failed(process, error);
  }
}

template <class Backend>
std::optional<Lease> History::take(Process& process, Lock<Backend>& lock) {
  auto& random = world_.random();
  switch (random.below(5)) {
    case 0: return timed(process, "try_acquire", command_timeout_, [&] { return lock.try_acquire(); });
    case 1: {
      std::stop_source cancel;
      world_.spawn(process, [this, cancel, time = random.between(1, 2 * ttl_)]() mutable {
        world_.sleep(time);
        cancel.request_stop();
      });
      return lock.acquire(cancel.get_token());
    }
    case 2: return lock.acquire();
    default: {
      auto const time = random.between(calm_ ? 10 : 1, 3 * ttl_ / millisecond) * millisecond;  // calm: time for an answer
      return timed(process, "acquire_for", time, [&] { return lock.acquire_for(in_ms(time)); });
    }
  }
}

/// The same through the standard's face.
template <class Backend>
void History::guarded_section(Process& process, Lock<Backend>& lock) {
  auto& random = world_.random();
  auto const began = begin();
  auto const time = random.between(calm_ ? 10 : 1, 3 * ttl_ / millisecond) * millisecond;
  std::unique_lock const guard{lock, in_ms(time)};
  if (!guard.owns_lock()) return;
  auto const& lease = lock.lease();
  Held entry{&process, &lease, lease.fence().value, began.losses};
  granted(process, lease, began);
  held_.push_back(&entry);
  world_.sleep(random.between(0, ttl_));
  std::erase(held_, &entry);
}

template <class Backend>
void History::work(Process& process, Lock<Backend>& lock, unsigned works) {
  auto& random = world_.random();
  for (unsigned i = 0; i < works && !process.dead; ++i) {
    world_.sleep(random.between(0, ttl_ / 2));
    if (process.dead) return;
    try {
      if (random.chance(150)) {
        guarded_section(process, lock);
        continue;
      }
      auto const began = begin();
      if (auto lease = take(process, lock); lease && !process.dead) hold(process, *lease, began);
    } catch (Error const& error) {
      failed(process, error);
    }
  }
}

template <class Backend>
void History::live(Process& process, Backend& backend) {
  // Two Lock objects of one name: their threads meet at the local line, those of one Lock before its gate.
  Lock<Backend> one{backend, lock_name, {.ttl = in_ms(ttl_), .renew = renews_}};
  Lock<Backend> other{backend, lock_name, {.ttl = in_ms(ttl_), .renew = !renews_}};
  std::vector<std::jthread> threads;
  for (unsigned i = 1; i < threads_; ++i)
    threads.emplace_back([&, i] { work(process, world_.random().chance(500) ? one : other, works_ + i % 2); });
  work(process, one, works_);
}

void History::check_leftovers() {
  for (auto& server : servers_)
    for (auto const& name : server.store().names())
      if (!name.ends_with(":~fence")) wrong("C1: " + name + " is left at " + server.path());
}

Outcome History::run() {
  if (traced_) world_.listener = [this](std::string const& what) { note(nullptr, what); };
  set_up();
  plan_faults();
  mortise::detail::random_stock() = {};  // of this history's own chance
  mortise::ClientOptions options{.command_timeout = in_ms(command_timeout_), .connect_timeout = in_ms(command_timeout_)};
  options.retry_for = in_ms(2 * ttl_ + second);
  std::size_t running = 0;
  for (auto const& process : world_.processes()) {
    ++running;
    ++living_;
    world_.spawn(*process, [this, &running, options, process = process.get()]() mutable {
      world_.sleep(world_.random().between(0, ttl_));
      options.client_name = "p" + std::to_string(process->id);
      if (quorum_) {
        std::vector<std::string> uris;
        for (auto const& server : servers_) uris.push_back("unix://" + server.path());
        Quorum quorum{std::move(uris), {.node_timeout = in_ms(node_timeout_), .quorum = 0, .quarantine = in_ms(longest_ttl * ttl_), .client = options}};
        live(*process, quorum);
      } else {
        Client client{"unix://" + servers_.front().path(), options};
        live(*process, client);
      }
      if (!process->dead) note(process, "has finished");
      --running;
    });
  }
  auto const alive = [this, &running] {
    std::size_t dead = 0;
    for (auto const& process : world_.processes()) dead += process->dead ? 1U : 0U;
    return !outcome_.wrong.empty() || running <= dead;
  };
  auto const limit = span_ + 60 * second + 20 * ttl_;
  if (!world_.run(limit, alive) && outcome_.wrong.empty()) wrong("L1: somebody waits for ever");

  if (outcome_.wrong.empty()) {
    auto const quiet = world_.now() + 2 * longest_ttl * ttl_ + 4 * second + 2 * network_.weather.latest_copy + 2 * network_.weather.slowest;
    world_.run(quiet, [] { return false; });
    check_leftovers();
  }
  outcome_.fingerprint = world_.fingerprint();
  outcome_.events = world_.events();

  // Whatever a failed or dead process still owns is freed: all of them run on, without a network.
  for (auto const& process : world_.processes())
    if (process->dead || !outcome_.wrong.empty()) {
      world_.kill(*process);
      network_.host_gone(*process, false);
    }
  world_.afterlife();
  for (auto const& process : world_.processes()) network_.everything_lost(*process);
  world_.run(world_.now() + 3600 * second, [&] { return world_.unfinished() == 0; });
  if (world_.unfinished() != 0) wrong("C1: a thread does not end: " + world_.describe_unfinished());
  if (network_.open_descriptors() != 0) wrong("C1: a descriptor is left open");
  return std::move(outcome_);
}

}  // namespace

Outcome run_history(std::uint64_t seed, Break broken, bool traced) {
  History history{seed, broken, traced};
  return history.run();
}

}  // namespace simulation
