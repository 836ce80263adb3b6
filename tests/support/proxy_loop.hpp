// SPDX-License-Identifier: MIT
// The proxy's thread: it owns the listener and the connections, and runs what it is told between two polls.
#pragma once

#include "support/proxy_link.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <sys/types.h>
#include <thread>

namespace support {

class ProxyLoop {
public:
  using Connect = std::function<Descriptor()>;

  explicit ProxyLoop(Connect connect);
  ProxyLoop(ProxyLoop const&) = delete;
  ProxyLoop& operator=(ProxyLoop const&) = delete;
  ~ProxyLoop();

  /// Runs `task` on the loop's thread and returns when it has run.
  void run(std::function<void()> const& task);
  std::uint16_t port() const { return port_; }
  pid_t owner() const { return owner_; }

  // For tasks only.
  void listen_again();
  void stop_listening();
  void fill_backlog();
  void drain_backlog();

  ProxyRules rules{};
  std::vector<std::unique_ptr<ProxyLink>> links{};
  Connect connect;
  std::int64_t connections_ever = 0;

private:
  void loop();
  void turn();
  void run_task();
  void accept_all();
  void forward(Descriptor client);
  Milliseconds patience() const;

  pid_t owner_;
  std::uint16_t port_ = 0;
  Descriptor listener_;
  Descriptor wake_;
  bool accepting_ = true;
  std::vector<Descriptor> fillers_{};
  bool ended_ = false;
  std::mutex mutex_;
  std::condition_variable done_;
  std::function<void()> const* task_ = nullptr;
  std::thread thread_;
};

}  // namespace support
