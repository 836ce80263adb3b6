// SPDX-License-Identifier: MIT
// The proxy's switches: each is a small task for its loop.
#include "support/proxy.hpp"

#include "support/proxy_loop.hpp"

#include <algorithm>
#include <unistd.h>

namespace support {

namespace {

constexpr Milliseconds connect_patience{1000};

ProxyLoop::Connect to_port(std::uint16_t port) {
  return [port] { return connect_tcp(port, Clock::now() + connect_patience); };
}

template <class Ask>
auto answer_of(ProxyLoop& loop, Ask const& ask) {
  decltype(ask()) answer{};
  loop.run([&] { answer = ask(); });
  return answer;
}

}  // namespace

Proxy::Proxy(std::uint16_t server_port) : loop_{std::make_unique<ProxyLoop>(to_port(server_port))} {}

Proxy::Proxy(std::string const& server_socket)
    : loop_{std::make_unique<ProxyLoop>(
          [server_socket] { return connect_unix(server_socket, Clock::now() + connect_patience); })} {}

Proxy::~Proxy() {
  if (loop_->owner() != ::getpid())
    static_cast<void>(loop_.release());  // the copy in a forked child has no thread to end
}

std::uint16_t Proxy::port() const {
  return loop_->port();
}

void Proxy::forward_to(std::uint16_t server_port) {
  loop_->run([&] { loop_->connect = to_port(server_port); });
}

void Proxy::delay(Direction direction, Milliseconds by) {
  loop_->run([&] { loop_->rules.lanes[index_of(direction)].delay = by; });
}

void Proxy::trickle(Direction direction, Milliseconds interval) {
  loop_->run([&] { loop_->rules.lanes[index_of(direction)].trickle = interval; });
}

void Proxy::hold(Direction direction) {
  loop_->run([&] { loop_->rules.lanes[index_of(direction)].held = true; });
}

void Proxy::resume(Direction direction) {
  loop_->run([&] { loop_->rules.lanes[index_of(direction)].held = false; });
}

void Proxy::black_hole(bool on) {
  loop_->run([&] { loop_->rules.black_hole = on; });
}

void Proxy::refuse(bool on) {
  loop_->run([&] { on ? loop_->stop_listening() : loop_->listen_again(); });
}

void Proxy::full_backlog(bool on) {
  loop_->run([&] { on ? loop_->fill_backlog() : loop_->drain_backlog(); });
}

void Proxy::swallow_replies(std::int64_t count, Predicate matches) {
  loop_->run([&] { loop_->rules.swallow = {.left = count, .matches = std::move(matches)}; });
}

void Proxy::stop_swallowing() {
  loop_->run([&] { loop_->rules.swallow.left = 0; });
}

void Proxy::cut_instead_of_reply(Predicate matches, std::int64_t count, Cut how) {
  loop_->run([&] { loop_->rules.cut = {.left = count, .matches = std::move(matches), .how = how}; });
}

void Proxy::replace_replies(std::string bytes, std::int64_t count, Predicate matches) {
  loop_->run([&] {
    loop_->rules.replace = {.left = count, .matches = std::move(matches), .bytes = std::move(bytes)};
  });
}

void Proxy::rewrite(Rewrite hook) {
  loop_->run([&] { loop_->rules.rewrite = std::move(hook); });
}

void Proxy::cut_all(Cut how) {
  loop_->run([&] {
    for (auto const& link : loop_->links)
      link->cut(how);
  });
}

void Proxy::half_close(Direction direction) {
  loop_->run([&] {
    for (auto const& link : loop_->links)
      link->half_close(direction);
  });
}

std::int64_t Proxy::connections_ever() const {
  return answer_of(*loop_, [&] { return loop_->connections_ever; });
}

std::int64_t Proxy::connections() const {
  return answer_of(*loop_, [&] {
    return std::int64_t{std::ranges::count_if(loop_->links, [](auto const& link) { return link->has_client(); })};
  });
}

std::int64_t Proxy::bytes(Direction direction) const {
  return answer_of(*loop_, [&] { return loop_->rules.lanes[index_of(direction)].bytes; });
}

std::int64_t Proxy::messages(Direction direction) const {
  return answer_of(*loop_, [&] { return loop_->rules.lanes[index_of(direction)].messages; });
}

void Proxy::record(bool on) {
  loop_->run([&] { loop_->rules.recording = on; });
}

std::vector<std::string> Proxy::recorded(Direction direction) const {
  return answer_of(*loop_, [&] { return loop_->rules.lanes[index_of(direction)].record; });
}

void Proxy::clear_record() {
  loop_->run([&] {
    for (auto& lane : loop_->rules.lanes)
      lane.record.clear();
  });
}

Proxy::Predicate Proxy::any() {
  return [](std::string const&, std::string const&) { return true; };
}

Proxy::Predicate Proxy::request_has(std::string part) {
  return [part = std::move(part)](std::string const& request, std::string const&) {
    return request.find(part) != std::string::npos;
  };
}

}  // namespace support
