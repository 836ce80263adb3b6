// SPDX-License-Identifier: MIT
// One connection through the proxy: two sockets and the messages on their way between them.
#pragma once

#include "support/proxy_rules.hpp"

#include <deque>
#include <optional>
#include <poll.h>

namespace support {

/// Driven by the proxy's loop: poll entries out, poll results in. Never blocks.
class ProxyLink {
public:
  ProxyLink(Descriptor client, Descriptor server);

  /// What to poll for now: the client's and the server's entry (descriptor -1: nothing).
  std::array<pollfd, 2> wanted(ProxyRules const& rules) const;
  /// When something falls due, if anything does.
  std::optional<Clock::time_point> due(ProxyRules const& rules) const;
  /// Reads, judges and delivers.
  void serve(std::array<pollfd, 2> const& ready, ProxyRules& rules);
  void cut(Cut how);
  void half_close(Direction direction);
  /// Both sides are closed.
  bool over() const { return !sockets_[0] && !sockets_[1]; }
  /// Its client is still connected.
  bool has_client() const { return static_cast<bool>(sockets_[0]); }

private:
  enum class Action { deliver, finish, cut_fin, cut_reset };
  struct Parcel {
    Action action = Action::deliver;
    Clock::time_point due{};
    std::string bytes{};
  };
  struct Lane {
    std::string partial{};
    std::deque<Parcel> parcels{};
    Clock::time_point next_byte{};
    bool source_ended = false;
    bool muted = false;
    bool closed = false;
  };

  void read(Direction direction, ProxyRules& rules);
  void end_of_source(Direction direction, Action how, ProxyRules& rules);
  void take(Direction direction, std::string message, ProxyRules& rules);
  void judge_reply(std::string reply, ProxyRules& rules);
  void put(Direction direction, Parcel parcel, ProxyRules const& rules);
  void deliver(Direction direction, ProxyRules& rules);
  bool send_some(Direction direction, Parcel& parcel, ProxyRules const& rules);
  void close_if_done(ProxyRules const& rules);
  Descriptor& source(Direction direction) { return sockets_[index_of(direction)]; }
  Descriptor& target(Direction direction) { return sockets_[1 - index_of(direction)]; }
  bool waits_for_room(Direction direction, ProxyRules const& rules) const;

  std::array<Descriptor, 2> sockets_;
  std::array<Lane, 2> lanes_{};
  std::deque<std::string> unanswered_{};
};

}  // namespace support
