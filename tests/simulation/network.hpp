// SPDX-License-Identifier: MIT
// Simulated descriptors and connections: bytes that take their time, get lost with their connection, or arrive twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "world.hpp"

namespace simulation {

class Server;

/// One connection, seen from both sides.
struct Wire {
  Process* client{nullptr};
  Server* server{nullptr};
  std::uint64_t number{0};

  // the client's side
  bool client_open{true};
  bool connected{false};
  bool ended{false};   // the peer has closed
  int error{0};        // what the next call says
  std::string inbox{};
  std::vector<Fiber*> pollers{};

  // the server's side
  bool server_open{false};
  bool blocked{false};
  std::uint64_t block_number{0};
  std::string waits_on{};
  std::string pending{};

  // on the way
  Nanos next_to_server{0}, next_to_client{0};
  bool cut_to_server{false}, cut_to_client{false};
};
using WirePtr = std::shared_ptr<Wire>;

/// How rough the network is; times are true.
struct Weather {
  Nanos least_delay{20 * microsecond}, most_delay{200 * microsecond};
  unsigned slow_per_thousand{0};  ///< of chunks, late by up to `slowest`
  Nanos slowest{0};
  unsigned break_per_thousand{0};  ///< of chunks that take their connection with them
  unsigned twice_per_thousand{0};  ///< of chunks to a server that arrive there once more, at any later time
  Nanos latest_copy{0};
};

/// What a process's descriptors stand for, and the way between processes and servers.
class Network {
 public:
  explicit Network(World& world) : world_{world} { current_ = this; }
  Network(Network const&) = delete;
  Network& operator=(Network const&) = delete;
  ~Network() { current_ = nullptr; }
  static Network* current() noexcept { return current_; }

  Weather weather{};
  void add(Server& server) { servers_.push_back(&server); }

  // --- descriptors, as the system's functions would do it: negative errno where it fails
  static constexpr int first_descriptor = 1 << 20;
  static bool owns(int descriptor) noexcept { return descriptor >= first_descriptor; }
  int open_socket();
  int open_event();
  int open_timer();
  int close(int descriptor);
  int connect(int descriptor, std::string_view path);
  long send(int descriptor, std::string_view bytes);
  long receive(int descriptor, char* to, std::size_t most, bool peek);
  int take_error(int descriptor);
  void shut_down(int descriptor);
  void ring(int descriptor);
  long read(int descriptor);
  void set_timer(int descriptor, Nanos true_time);  ///< 0: off
  bool is_socket(int descriptor) const noexcept;
  /// What can be done without waiting, as poll() says it.
  short ready(int descriptor, short wanted) const noexcept;
  void watch(int descriptor, Fiber& fiber);
  void unwatch(int descriptor, Fiber& fiber);
  std::size_t open_descriptors() const noexcept { return open_; }

  // --- the servers' side
  void reply(WirePtr const& wire, std::string bytes);
  /// The server goes away with this connection: at once, or its end is on the way.
  void server_closes(WirePtr const& wire, int error);

  // --- faults
  enum class Seen : std::uint8_t { now, late, never };
  /// The client's side breaks; the server sees it now, late, or never.
  void break_wire(WirePtr const& wire, Seen seen);
  void break_one();
  /// Its host is gone: nothing more arrives there, and the servers are told or not.
  void host_gone(Process& process, bool told);
  void everything_lost(Process& process);

 private:
  struct Handle {
    enum class Kind : std::uint8_t { free, socket, event, timer } kind{Kind::free};
    WirePtr wire{};
    std::uint64_t count{0};
    Nanos due{0};
    std::uint64_t armed{0};
    std::vector<Fiber*> pollers{};
    Process* owner{nullptr};
  };

  int open(Handle::Kind kind);
  Handle& at(int descriptor) noexcept { return handles_[static_cast<std::size_t>(descriptor - first_descriptor)]; }
  Handle const& at(int descriptor) const noexcept { return handles_[static_cast<std::size_t>(descriptor - first_descriptor)]; }
  Nanos delay();
  void wake(std::vector<Fiber*>& pollers);
  void hang_up(WirePtr const& wire);
  void deliver(WirePtr const& wire, std::string bytes, Nanos when);
  void server_sees_end(WirePtr const& wire, Nanos when);

  static Network* current_;

  World& world_;
  std::vector<Server*> servers_{};
  std::vector<Handle> handles_{};
  std::vector<int> free_{};
  std::vector<std::weak_ptr<Wire>> wires_{};
  std::size_t open_{0};
  std::uint64_t wire_count_{0};
};

}  // namespace simulation
