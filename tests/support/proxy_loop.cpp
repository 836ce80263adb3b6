// SPDX-License-Identifier: MIT
// The proxy's poll loop.
#include "support/proxy_loop.hpp"

#include "support/quiet_thread.hpp"

#include <algorithm>
#include <exception>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace support {

namespace {

constexpr int usual_backlog = 128;
constexpr int most_fillers = 16;

std::uint16_t port_of(int fd, int (*which)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  which(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

}  // namespace

ProxyLoop::ProxyLoop(Connect how)
    : connect{std::move(how)}, owner_{::getpid()}, listener_{listen_on_free_port(port_, usual_backlog)},
      wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, thread_{quiet_thread([this] { loop(); })} {}

ProxyLoop::~ProxyLoop() {
  run([this] {
    for (auto const& link : links)
      link->cut(Cut::fin);
    ended_ = true;
  });
  thread_.join();
}

void ProxyLoop::run(std::function<void()> const& task) {
  if (std::this_thread::get_id() == thread_.get_id())
    return task();
  std::exception_ptr failure;
  std::function<void()> const safe = [&] {
    try {
      task();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  std::unique_lock lock{mutex_};
  done_.wait(lock, [this] { return task_ == nullptr; });
  task_ = &safe;
  std::uint64_t const one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
  done_.wait(lock, [&] { return task_ != &safe; });
  if (failure)
    std::rethrow_exception(failure);
}

void ProxyLoop::run_task() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_.get(), &count, sizeof count));
  accept_all();  // for the client these connections are there already, so that the task is about them too
  std::lock_guard const lock{mutex_};
  if (task_ != nullptr)
    (*task_)();
  task_ = nullptr;
  done_.notify_all();
}

void ProxyLoop::loop() {
  while (!ended_)
    turn();
}

void ProxyLoop::turn() {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}, {accepting_ ? listener_.get() : -1, POLLIN, 0}};
  for (auto const& link : links)
    for (auto const& entry : link->wanted(rules))
      entries.push_back(entry);
  ::poll(entries.data(), entries.size(), static_cast<int>(patience().count()));

  auto const polled = links.size();
  if ((entries[0].revents & POLLIN) != 0)
    run_task();
  for (std::size_t index = 0; index < polled; ++index)
    links[index]->serve({entries[2 * index + 2], entries[2 * index + 3]}, rules);
  accept_all();
  std::erase_if(links, [](auto const& link) { return link->over(); });
}

Milliseconds ProxyLoop::patience() const {
  auto patience = Milliseconds{60'000};
  for (auto const& link : links)
    if (auto const due = link->due(rules))
      patience = std::min(patience, std::max(Milliseconds{0}, std::chrono::ceil<Milliseconds>(*due - Clock::now())));
  return patience;
}

void ProxyLoop::accept_all() {
  while (accepting_) {
    Descriptor client{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!client)
      return;
    forward(std::move(client));
  }
}

void ProxyLoop::forward(Descriptor client) {
  int const on = 1;
  ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ++connections_ever;
  Descriptor server;
  try {
    server = connect();
  } catch (std::system_error const&) {
    if (!rules.black_hole)
      return close_with_reset(client);
  }
  links.push_back(std::make_unique<ProxyLink>(std::move(client), std::move(server)));
}

void ProxyLoop::stop_listening() {
  listener_.reset();
  accepting_ = false;
}

void ProxyLoop::listen_again() {
  if (!listener_)
    listener_ = listen_tcp(port_, usual_backlog);
  accepting_ = true;
}

// Linux drops the SYN of a connection when the accept queue is full: the last of these fillers hangs like any client.
void ProxyLoop::fill_backlog() {
  if (!listener_ || !accepting_)
    return;
  accepting_ = false;
  ::listen(listener_.get(), 0);
  try {
    while (fillers_.size() < most_fillers)
      fillers_.push_back(connect_tcp(port_, Clock::now() + Milliseconds{50}));
  } catch (std::system_error const&) {
  }
}

void ProxyLoop::drain_backlog() {
  if (fillers_.empty())
    return;
  ::listen(listener_.get(), usual_backlog);
  accepting_ = true;
  while (!fillers_.empty()) {
    Descriptor const queued{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!queued)
      break;
    auto const peer = port_of(queued.get(), ::getpeername);
    std::erase_if(fillers_, [peer](auto const& filler) { return port_of(filler.get(), ::getsockname) == peer; });
  }
  fillers_.clear();
}

}  // namespace support
