// SPDX-License-Identifier: MIT
// One connection through the proxy: reading, judging, delivering.
#include "support/proxy_link.hpp"

#include "support/resp_frame.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

namespace support {

namespace {

constexpr std::array both{Direction::request, Direction::reply};

}  // namespace

ProxyLink::ProxyLink(Descriptor client, Descriptor server) : sockets_{std::move(client), std::move(server)} {}

bool ProxyLink::waits_for_room(Direction direction, ProxyRules const& rules) const {
  auto const& lane = lanes_[index_of(direction)];
  auto const& rule = rules.lanes[index_of(direction)];
  auto const now = Clock::now();
  return !rule.held && !lane.closed && !lane.parcels.empty() && lane.parcels.front().due <= now &&
         (rule.trickle.count() == 0 || lane.next_byte <= now);
}

std::array<pollfd, 2> ProxyLink::wanted(ProxyRules const& rules) const {
  std::array<pollfd, 2> entries{};
  for (auto const direction : both) {
    auto const side = index_of(direction);
    entries[side].fd = sockets_[side].get();
    if (!lanes_[side].source_ended)
      entries[side].events = POLLIN;
    if (waits_for_room(direction == Direction::request ? Direction::reply : Direction::request, rules))
      entries[side].events = static_cast<short>(entries[side].events | POLLOUT);
    if (entries[side].events == 0)
      entries[side].fd = -1;  // poll would report a hang-up for ever
  }
  return entries;
}

std::optional<Clock::time_point> ProxyLink::due(ProxyRules const& rules) const {
  std::optional<Clock::time_point> soonest;
  for (auto const direction : both) {
    auto const& lane = lanes_[index_of(direction)];
    if (rules.lanes[index_of(direction)].held || lane.parcels.empty())
      continue;
    auto const at = std::max(lane.parcels.front().due, lane.next_byte);
    if (!waits_for_room(direction, rules))
      soonest = std::min(soonest.value_or(at), at);
  }
  return soonest;
}

void ProxyLink::serve(std::array<pollfd, 2> const& ready, ProxyRules& rules) {
  for (auto const direction : both)
    if ((ready[index_of(direction)].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
      read(direction, rules);
  for (auto const direction : both)
    deliver(direction, rules);
  close_if_done(rules);
}

void ProxyLink::read(Direction direction, ProxyRules& rules) {
  auto& lane = lanes_[index_of(direction)];
  if (!source(direction) || lane.source_ended)
    return;
  char chunk[65536];
  auto const got = ::recv(source(direction).get(), chunk, sizeof chunk, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return;
  if (got <= 0)
    return end_of_source(direction, got == 0 ? Action::finish : Action::cut_reset, rules);
  auto const size = static_cast<std::size_t>(got);
  rules.lanes[index_of(direction)].bytes += got;
  lane.partial.append(chunk, size);
  while (auto const length = lane.partial.empty() ? std::nullopt : first_frame(lane.partial)) {
    auto message = lane.partial.substr(0, *length);
    lane.partial.erase(0, *length);
    take(direction, std::move(message), rules);
  }
}

void ProxyLink::end_of_source(Direction direction, Action how, ProxyRules& rules) {
  auto& lane = lanes_[index_of(direction)];
  lane.source_ended = true;
  if (rules.black_hole) {
    lane.muted = true;
    source(direction).reset();
    return;
  }
  if (!lane.partial.empty())
    put(direction, {.bytes = std::exchange(lane.partial, {})}, rules);
  put(direction, {.action = lane.muted ? Action::finish : how}, rules);
}

void ProxyLink::take(Direction direction, std::string message, ProxyRules& rules) {
  auto& seen = rules.lanes[index_of(direction)];
  ++seen.messages;
  if (rules.recording)
    seen.record.push_back(message);
  if (rules.black_hole)
    lanes_[index_of(direction)].muted = true;
  if (rules.rewrite && !lanes_[index_of(direction)].muted)
    message = rules.rewrite(direction, std::move(message));
  if (direction == Direction::reply)
    return judge_reply(std::move(message), rules);
  unanswered_.push_back(message);
  put(direction, {.bytes = std::move(message)}, rules);
}

void ProxyLink::judge_reply(std::string reply, ProxyRules& rules) {
  std::string request;
  if (!unanswered_.empty() && !reply.starts_with('>')) {
    request = std::move(unanswered_.front());
    unanswered_.pop_front();
  }
  auto& lane = lanes_[index_of(Direction::reply)];
  if (lane.muted)
    return;
  if (rules.cut.catches(request, reply))
    return put(Direction::reply, {.action = rules.cut.how == Cut::fin ? Action::cut_fin : Action::cut_reset}, rules);
  if (rules.swallow.catches(request, reply)) {
    lane.muted = true;
    return;
  }
  if (rules.replace.catches(request, reply))
    reply = rules.replace.bytes;
  put(Direction::reply, {.bytes = std::move(reply)}, rules);
}

void ProxyLink::put(Direction direction, Parcel parcel, ProxyRules const& rules) {
  auto& lane = lanes_[index_of(direction)];
  if (lane.muted && parcel.action == Action::deliver)
    return;
  parcel.due = Clock::now() + rules.lanes[index_of(direction)].delay;
  if (!lane.parcels.empty())
    parcel.due = std::max(parcel.due, lane.parcels.back().due);
  lane.parcels.push_back(std::move(parcel));
}

void ProxyLink::deliver(Direction direction, ProxyRules& rules) {
  auto& lane = lanes_[index_of(direction)];
  while (waits_for_room(direction, rules)) {
    auto& parcel = lane.parcels.front();
    if (parcel.action == Action::deliver && rules.black_hole)
      lane.muted = true;
    else if (parcel.action == Action::deliver && !send_some(direction, parcel, rules))
      return;
    else if (parcel.action == Action::finish && (lane.muted || rules.black_hole))
      lane.closed = true;
    else if (parcel.action == Action::finish)
      half_close(direction);
    else if (parcel.action != Action::deliver)
      return cut(parcel.action == Action::cut_fin ? Cut::fin : Cut::reset);
    lane.parcels.pop_front();
  }
}

// True when the parcel is done with.
bool ProxyLink::send_some(Direction direction, Parcel& parcel, ProxyRules const& rules) {
  auto const interval = rules.lanes[index_of(direction)].trickle;
  auto const size = interval.count() > 0 ? std::min<std::size_t>(1, parcel.bytes.size()) : parcel.bytes.size();
  if (!target(direction))
    return true;
  auto const sent = ::send(target(direction).get(), parcel.bytes.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      cut(Cut::reset);
    return false;
  }
  parcel.bytes.erase(0, static_cast<std::size_t>(sent));
  if (interval.count() > 0)
    lanes_[index_of(direction)].next_byte = Clock::now() + interval;
  return parcel.bytes.empty();
}

void ProxyLink::half_close(Direction direction) {
  lanes_[index_of(direction)].closed = true;
  if (target(direction))
    ::shutdown(target(direction).get(), SHUT_WR);
}

void ProxyLink::cut(Cut how) {
  for (auto& socket : sockets_)
    if (how == Cut::reset && socket) {
      close_with_reset(socket);
    } else {
      ::shutdown(socket.get(), SHUT_RDWR);  // ends the connection even when a forked child has a copy of the socket
      socket.reset();
    }
}

void ProxyLink::close_if_done(ProxyRules const& rules) {
  bool const orphaned = !rules.black_hole && (!sockets_[0] || !sockets_[1]);
  bool const both_ended = lanes_[0].closed && lanes_[1].closed && lanes_[0].source_ended && lanes_[1].source_ended;
  if (orphaned || both_ended)
    cut(Cut::fin);
}

}  // namespace support
