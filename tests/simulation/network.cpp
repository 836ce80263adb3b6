// SPDX-License-Identifier: MIT
#include "network.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>

#include "server.hpp"

namespace simulation {

Network* Network::current_ = nullptr;

int Network::open(Handle::Kind kind) {
  int descriptor = 0;
  if (free_.empty()) {
    descriptor = first_descriptor + static_cast<int>(handles_.size());
    handles_.emplace_back();
  } else {
    descriptor = free_.back();
    free_.pop_back();
  }
  auto& handle = at(descriptor);
  handle.kind = kind;
  handle.owner = world_.process();
  ++open_;
  return descriptor;
}

int Network::open_socket() {
  int const descriptor = open(Handle::Kind::socket);
  auto wire = std::make_shared<Wire>();
  wire->client = world_.process();
  wire->number = ++wire_count_;
  at(descriptor).wire = std::move(wire);
  return descriptor;
}
int Network::open_event() { return open(Handle::Kind::event); }
int Network::open_timer() { return open(Handle::Kind::timer); }

bool Network::is_socket(int descriptor) const noexcept { return at(descriptor).kind == Handle::Kind::socket; }

int Network::close(int descriptor) {
  auto& handle = at(descriptor);
  if (handle.kind == Handle::Kind::free) return -EBADF;
  if (handle.wire) hang_up(handle.wire);
  handle = Handle{};
  free_.push_back(descriptor);
  --open_;
  return 0;
}

Nanos Network::delay() {
  auto& random = world_.random();
  auto time = random.between(weather.least_delay, weather.most_delay);
  if (weather.slow_per_thousand != 0 && random.chance(weather.slow_per_thousand)) time += random.between(0, weather.slowest);
  return time;
}

void Network::wake(std::vector<Fiber*>& pollers) {
  for (auto* const fiber : pollers) world_.wake(*fiber);
}

int Network::connect(int descriptor, std::string_view path) {
  auto const wire = at(descriptor).wire;
  if (wire->connected) return -EISCONN;
  if (wire->server != nullptr) return -EALREADY;
  if (wire->client->dead) return -ECONNREFUSED;
  auto const found = std::find_if(servers_.begin(), servers_.end(), [&](Server* server) { return server->path() == path; });
  if (found == servers_.end() || !(*found)->up()) return -ECONNREFUSED;
  wire->server = *found;
  wires_.push_back(wire);
  auto const arrives = world_.now() + delay();
  wire->next_to_server = wire->next_to_client = arrives;
  world_.at(arrives, [this, wire] {
    if (!wire->client_open || wire->cut_to_server) return;
    if (wire->server->up()) {
      wire->connected = true;
      wire->server->accepted(wire);
    } else {
      wire->error = ECONNREFUSED;
      wire->ended = true;
    }
    wake(wire->pollers);
  });
  return -EINPROGRESS;
}

long Network::send(int descriptor, std::string_view bytes) {
  auto const wire = at(descriptor).wire;
  if (wire->client->dead) return -EPIPE;
  if (wire->error != 0) return -std::exchange(wire->error, 0);
  if (wire->ended) return -EPIPE;
  if (!wire->connected) return -ENOTCONN;
  auto& random = world_.random();
  wire->next_to_server = std::max(wire->next_to_server + 1, world_.now() + delay());
  if (weather.twice_per_thousand != 0 && random.chance(weather.twice_per_thousand)) {
    // As if an older connection had carried it too, and had been stuck somewhere: nobody hears the answers.
    auto ghost = std::make_shared<Wire>();
    ghost->client = wire->client;
    ghost->server = wire->server;
    ghost->number = ++wire_count_;
    ghost->client_open = false;
    ghost->cut_to_client = true;
    auto const when = world_.now() + delay() + random.between(0, weather.latest_copy);
    world_.at(when, [ghost] {
      if (ghost->server->up()) ghost->server->accepted(ghost);
    });
    deliver(ghost, std::string{bytes}, when + 1);
    server_sees_end(ghost, when + random.between(2, weather.latest_copy + 2));
  }
  deliver(wire, std::string{bytes}, wire->next_to_server);
  if (weather.break_per_thousand != 0 && random.chance(weather.break_per_thousand)) {
    auto const seen = static_cast<Seen>(random.below(3));
    world_.at(world_.now() + delay() + random.between(0, 2 * weather.most_delay), [this, wire, seen] { break_wire(wire, seen); });
  }
  return static_cast<long>(bytes.size());
}

void Network::deliver(WirePtr const& wire, std::string bytes, Nanos when) {
  world_.at(when, [this, wire, bytes = std::move(bytes)]() mutable {
    if (wire->cut_to_server) return;
    if (auto const thawed = wire->server->frozen_until(); thawed > world_.now()) return deliver(wire, std::move(bytes), thawed);
    wire->server->arrived(wire, bytes);
  });
}

void Network::server_sees_end(WirePtr const& wire, Nanos when) {
  world_.at(when, [this, wire] {
    if (auto const thawed = wire->server->frozen_until(); thawed > world_.now()) return server_sees_end(wire, thawed);
    wire->server->ended(wire);
  });
}

long Network::receive(int descriptor, char* to, std::size_t most, bool peek) {
  auto const& wire = at(descriptor).wire;
  if (wire->client->dead) return 0;
  if (!wire->inbox.empty()) {
    auto const count = std::min(most, wire->inbox.size());
    std::memcpy(to, wire->inbox.data(), count);
    if (!peek) wire->inbox.erase(0, count);
    return static_cast<long>(count);
  }
  if (wire->error != 0) return -(peek ? wire->error : std::exchange(wire->error, 0));
  if (wire->ended) return 0;
  return wire->connected ? -EAGAIN : -ENOTCONN;
}

int Network::take_error(int descriptor) { return std::exchange(at(descriptor).wire->error, 0); }

void Network::shut_down(int descriptor) { hang_up(at(descriptor).wire); }

/// In an orderly way: what was written before still arrives.
void Network::hang_up(WirePtr const& wire) {
  if (!wire->client_open) return;
  wire->client_open = false;
  wire->inbox.clear();
  if (wire->server == nullptr || wire->client->dead) return;
  if (!wire->connected) wire->cut_to_server = true;
  wire->next_to_server = std::max(wire->next_to_server + 1, world_.now() + delay());
  server_sees_end(wire, wire->next_to_server);
}

void Network::reply(WirePtr const& wire, std::string bytes) {
  if (wire->cut_to_client || !wire->client_open) return;
  wire->next_to_client = std::max(wire->next_to_client + 1, world_.now() + delay());
  world_.at(wire->next_to_client, [this, wire, bytes = std::move(bytes)] {
    if (wire->cut_to_client || !wire->client_open) return;
    wire->inbox += bytes;
    wake(wire->pollers);
  });
}

void Network::server_closes(WirePtr const& wire, int error) {
  wire->cut_to_server = true;
  if (!wire->client_open) return;
  wire->next_to_client = std::max(wire->next_to_client + 1, world_.now() + delay());
  world_.at(wire->next_to_client, [this, wire, error] {
    wire->error = error;
    wire->ended = true;
    wake(wire->pollers);
  });
}

void Network::break_wire(WirePtr const& wire, Seen seen) {
  if (wire->server == nullptr || !wire->client_open || wire->ended) return;
  wire->cut_to_client = true;
  wire->error = ECONNRESET;
  wire->ended = true;
  wake(wire->pollers);
  auto& random = world_.random();
  switch (seen) {
    case Seen::now:  // whatever is still on the way is lost with it
      wire->cut_to_server = true;
      server_sees_end(wire, world_.now());
      break;
    case Seen::late: server_sees_end(wire, world_.now() + random.between(weather.most_delay, 2 * second)); break;
    case Seen::never: break;  // half open: what is on the way arrives, and the server goes on believing in it
  }
}

void Network::break_one() {
  std::vector<WirePtr> open;
  std::erase_if(wires_, [&](std::weak_ptr<Wire> const& known) {
    auto const wire = known.lock();
    if (!wire || !wire->client_open || wire->ended) return true;
    if (wire->connected && !wire->client->dead) open.push_back(wire);
    return false;
  });
  auto& random = world_.random();
  if (!open.empty()) break_wire(open[random.below(open.size())], static_cast<Seen>(random.below(3)));
}

void Network::host_gone(Process& process, bool told) {
  for (auto const& known : wires_) {
    auto const wire = known.lock();
    if (!wire || wire->client != &process || !wire->client_open) continue;
    wire->cut_to_client = true;
    if (told && wire->server != nullptr) server_sees_end(wire, std::max(wire->next_to_server + 1, world_.now() + delay()));
  }
}

void Network::everything_lost(Process& process) {
  for (auto& handle : handles_)
    if (handle.owner == &process) {
      wake(handle.pollers);
      if (handle.wire) wake(handle.wire->pollers);
    }
}

void Network::ring(int descriptor) {
  auto& handle = at(descriptor);
  ++handle.count;
  wake(handle.pollers);
}

long Network::read(int descriptor) {
  auto& handle = at(descriptor);
  if (handle.kind != Handle::Kind::event || handle.count == 0) return -EAGAIN;
  handle.count = 0;
  return 8;
}

void Network::set_timer(int descriptor, Nanos true_time) {
  auto& handle = at(descriptor);
  handle.due = true_time;
  auto const armed = ++handle.armed;
  if (true_time == 0) return;
  world_.at(true_time, [this, descriptor, armed] {
    auto& due = at(descriptor);
    if (due.kind != Handle::Kind::timer || due.armed != armed) return;
    wake(due.pollers);
  });
}

short Network::ready(int descriptor, short wanted) const noexcept {
  auto const& handle = at(descriptor);
  int what = 0;
  switch (handle.kind) {
    case Handle::Kind::free: return POLLNVAL;
    case Handle::Kind::event: what = handle.count > 0 ? POLLIN : 0; break;
    case Handle::Kind::timer: what = handle.due != 0 && handle.due <= world_.now() ? POLLIN : 0; break;
    case Handle::Kind::socket: {
      auto const& wire = *handle.wire;
      bool const broken = wire.ended || wire.error != 0 || wire.client->dead;
      if (broken || !wire.inbox.empty()) what |= POLLIN;
      if (broken || wire.connected) what |= POLLOUT;
      if (broken) return static_cast<short>((what & wanted) | POLLHUP);
      break;
    }
  }
  return static_cast<short>(what & wanted);
}

void Network::watch(int descriptor, Fiber& fiber) {
  auto& handle = at(descriptor);
  (handle.wire ? handle.wire->pollers : handle.pollers).push_back(&fiber);
}

void Network::unwatch(int descriptor, Fiber& fiber) {
  auto& handle = at(descriptor);
  std::erase(handle.wire ? handle.wire->pollers : handle.pollers, &fiber);
}

}  // namespace simulation
