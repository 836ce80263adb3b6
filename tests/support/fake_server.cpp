// SPDX-License-Identifier: MIT
// The scripted server's threads.
#include "support/fake_server.hpp"

#include "support/quiet_thread.hpp"
#include "support/resp_frame.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <system_error>

namespace support {

namespace {

// How soon a thread sees that the server has ended.
constexpr Milliseconds glance{20};

}  // namespace

FakeServer::FakeServer(Script script)
    : script_{std::move(script)}, listener_{listen_on_free_port(port_)}, thread_{quiet_thread([this] { listen(); })} {}

FakeServer::~FakeServer() {
  ended_ = true;
  thread_.join();
  for (auto& talker : talkers_)
    talker.join();
}

std::vector<FakeServer::Words> FakeServer::requests() const {
  std::lock_guard const lock{mutex_};
  return requests_;
}

void FakeServer::listen() {
  while (!ended_) {
    if (!wait_ready(listener_.get(), POLLIN, Clock::now() + glance))
      continue;
    Descriptor socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket)
      continue;
    ++connections_;
    talkers_.push_back(quiet_thread([this, held = std::move(socket)]() mutable { talk(std::move(held)); }));
  }
}

void FakeServer::talk(Descriptor socket) {
  std::string bytes;
  try {
    while (!ended_) {
      if (!wait_ready(socket.get(), POLLIN, Clock::now() + glance))
        continue;
      if (receive_some(socket.get(), bytes, Clock::now() + glance) == 0)
        return;
      while (auto const length = bytes.empty() ? std::nullopt : first_frame(bytes)) {
        auto words = words_of(std::string_view{bytes}.substr(0, *length));
        bytes.erase(0, *length);
        {
          std::lock_guard const lock{mutex_};
          requests_.push_back(words);
        }
        if (!answer(socket, script_(words)))
          return;
      }
    }
  } catch (std::system_error const&) {
    // the client has gone
  }
}

bool FakeServer::answer(Descriptor& socket, FakeReply const& reply) const {
  auto const nap = [this](Milliseconds time) {
    for (auto const end = Clock::now() + time; !ended_ && Clock::now() < end;)
      std::this_thread::sleep_for(std::min<Clock::duration>(glance, end - Clock::now()));
  };
  nap(reply.delay);
  auto const step = reply.trickle.count() > 0 ? 1 : std::max<std::size_t>(1, reply.bytes.size());
  for (std::size_t at = 0; at < reply.bytes.size() && !ended_; at += step) {
    if (at > 0)
      nap(reply.trickle);
    send_all(socket.get(), std::string_view{reply.bytes}.substr(at, step), Clock::now() + Milliseconds{30'000});
  }
  if (reply.then == FakeReply::Then::reset)
    close_with_reset(socket);
  return reply.then == FakeReply::Then::go_on;
}

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string{text} + "\r\n";
}

std::string simple(std::string_view text) {
  return "+" + std::string{text} + "\r\n";
}

std::string number(std::int64_t value) {
  return ":" + std::to_string(value) + "\r\n";
}

}  // namespace support
