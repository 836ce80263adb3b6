// SPDX-License-Identifier: MIT
// The foreign client: hiredis' reader over our own socket.
#include "support/raw_client.hpp"

#include <hiredis/hiredis.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <sys/socket.h>
#include <system_error>

namespace support {

RawClient::RawClient(std::uint16_t port, Milliseconds timeout)
    : RawClient{connect_tcp(port, Clock::now() + timeout), timeout} {}

RawClient::RawClient(std::string const& socket_path, Milliseconds timeout)
    : RawClient{connect_unix(socket_path, Clock::now() + timeout), timeout} {}

RawClient::RawClient(Descriptor socket, Milliseconds timeout)
    : socket_{std::move(socket)}, timeout_{timeout}, reader_{redisReaderCreate(), &redisReaderFree} {
  if (!reader_)
    throw std::bad_alloc{};
}

Answer RawClient::command(Words const& words) {
  send(words);
  return receive();
}

void RawClient::send(Words const& words) {
  send_bytes(wire_format(words));
}

void RawClient::send_bytes(std::string_view bytes) {
  send_all(socket_.get(), bytes, Clock::now() + timeout_);
}

Answer RawClient::receive() {
  if (auto answer = receive_within(timeout_))
    return *std::move(answer);
  throw std::runtime_error{"no answer in time"};
}

std::optional<Answer> RawClient::receive_within(Milliseconds timeout) {
  auto const deadline = Clock::now() + timeout;
  for (;;) {
    if (auto answer = parsed())
      return answer;
    std::string bytes;
    try {
      if (receive_some(socket_.get(), bytes, deadline) == 0)
        throw std::runtime_error{"the server closed the connection"};
    } catch (std::system_error const& error) {
      if (error.code() == std::errc::timed_out)
        return std::nullopt;
      throw;
    }
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
  }
}

std::optional<Answer> RawClient::parsed() {
  void* reply = nullptr;
  if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
    throw std::runtime_error{std::string{"not a reply: "} + reader_->errstr};
  if (reply == nullptr)
    return std::nullopt;
  std::unique_ptr<void, decltype(&freeReplyObject)> const owner{reply, &freeReplyObject};
  return to_answer(static_cast<redisReply const*>(reply));
}

bool RawClient::set_nx_px(std::string const& key, std::string const& value, std::int64_t ttl_ms) {
  auto const answer = command({"SET", key, value, "NX", "PX", std::to_string(ttl_ms)});
  if (answer.is_error())
    throw std::runtime_error{answer.text};
  return answer.is_ok();
}

bool RawClient::compare_and_delete(std::string const& key, std::string const& value) {
  auto const* script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
  auto const answer = command({"EVAL", script, "1", key, value});
  if (answer.is_error())
    throw std::runtime_error{answer.text};
  return answer.integer == 1;
}

bool RawClient::closed_by_peer() const {
  char byte = 0;
  auto const got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

std::string wire_format(std::vector<std::string> const& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (auto const& word : words)
    bytes.append("$").append(std::to_string(word.size())).append("\r\n").append(word).append("\r\n");
  return bytes;
}

}  // namespace support
