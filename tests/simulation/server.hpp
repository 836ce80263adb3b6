// SPDX-License-Identifier: MIT
// A simulated server: commands as bytes in, answers as bytes out, clients that are blocked, crashes and restarts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "network.hpp"
#include "store.hpp"
#include "world.hpp"

namespace simulation {

class Server {
 public:
  Server(World& world, Network& network, std::string path, Break broken);
  Server(Server const&) = delete;
  Server& operator=(Server const&) = delete;

  std::string const& path() const noexcept { return path_; }
  Store& store() noexcept;
  void set_rate(double rate) noexcept { rate_ = rate; }
  void set_ahead(Nanos by) noexcept { ahead_ = by; }
  bool up() const noexcept { return up_; }

  void freeze(Nanos for_true_time) { frozen_until_ = std::max(frozen_until_, world_.now() + for_true_time); }
  Nanos frozen_until() const noexcept { return frozen_until_; }
  enum class Data : std::uint8_t { kept, lost };
  /// All connections end; it is back after so long.
  void crash(Data data, Nanos for_true_time);

  // --- told by the network
  void accepted(WirePtr const& wire);
  void arrived(WirePtr const& wire, std::string const& bytes);
  void ended(WirePtr const& wire);
  std::vector<WirePtr> const& clients() const noexcept { return clients_; }

 private:
  using Words = std::vector<std::string>;

  void work_off(WirePtr const& wire);
  void carry_out(WirePtr const& wire, Words const& words);
  void run_script(WirePtr const& wire, Words const& words, std::size_t which);
  void block(WirePtr const& wire, Words const& words);
  void serve(std::string const& list);
  std::int64_t microseconds() const noexcept;
  std::string info();

  World& world_;
  Network& network_;
  std::string path_;
  Break broken_;
  Store store_;
  double rate_{1.0};
  Nanos ahead_{0};
  bool up_{true};
  Nanos frozen_until_{0};
  Nanos born_{-3600 * second};
  std::uint64_t life_{1};
  std::uint64_t blocks_{0};
  std::array<bool, 3> knows_{};  // scripts, by verb
  std::vector<WirePtr> clients_{};
  std::vector<WirePtr> line_{};  // blocked, longest first
};

}  // namespace simulation
