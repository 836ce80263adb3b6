// SPDX-License-Identifier: MIT
// The private server: its configuration, start and end.
#include "support/redis_server.hpp"

#include "support/wait_until.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace support {

namespace {

constexpr int start_attempts = 10;
constexpr auto* kit_user = "kit";

std::string binary() {
  auto const* named = std::getenv("MORTISE_TEST_SERVER");
  return named != nullptr && *named != '\0' ? named : "redis-server";
}

std::string random_word() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

std::string config_string(std::string_view text) {
  std::string made = "\"";
  for (char const letter : text) {
    auto const byte = static_cast<unsigned char>(letter);
    constexpr auto* digits = "0123456789abcdef";
    if (std::isalnum(byte) != 0)
      made += letter;
    else
      made.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  return made + '"';
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  std::string made;
  for (char const letter : text) {
    auto const byte = static_cast<unsigned char>(letter);
    constexpr auto* digits = "0123456789ABCDEF";
    if (std::isalnum(byte) != 0 || std::string_view{"-._~"}.find(letter) != std::string_view::npos)
      made += letter;
    else
      made.append("%").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  return made;
}

RedisServer::RedisServer(ServerOptions options) : options_{std::move(options)}, kit_password_{random_word()} {
  start();
}

RedisServer::~RedisServer() = default;

std::string RedisServer::uri() const {
  auto const login = options_.password.empty() ? "" : ":" + percent_encoded(options_.password) + "@";
  return "redis://" + login + "127.0.0.1:" + std::to_string(port_);
}

std::string RedisServer::uri(std::string_view user, std::string_view password) const {
  return "redis://" + percent_encoded(user) + ":" + percent_encoded(password) + "@127.0.0.1:" + std::to_string(port_);
}

std::string RedisServer::log() const {
  std::ifstream file{folder_.path() / "log"};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void RedisServer::kill() {
  control_.reset();
  process_.end();
}

void RedisServer::stop() {
  control_.reset();
  process_.thaw();
  process_.signal(SIGTERM);
  process_.wait(Clock::now() + soon);
  process_.end();
}

void RedisServer::restart(Data data) {
  if (running() && data == Data::kept) {
    process_.thaw();
    checked({"SAVE"});
  }
  kill();
  if (data == Data::lost)
    for (auto const* name : {"dump.rdb", "appendonly.aof", "appendonlydir"})
      std::filesystem::remove_all(folder_.path() / name);
  start();
}

void RedisServer::start() {
  bool const first = port_ == 0;
  for (int attempt = 0; attempt < start_attempts; ++attempt) {
    if (first)
      port_ = free_port();
    if (try_start())
      return;
    if (log().find("Address already in use") == std::string::npos)
      break;
    if (!first)
      std::this_thread::sleep_for(Milliseconds{50});
  }
  throw std::runtime_error{binary() + " does not start:\n" + log()};
}

void RedisServer::write_config() const {
  std::ofstream file{folder_.path() / "conf"};
  file << "bind 127.0.0.1\nport " << port_ << "\nunixsocket " << socket_path() << "\nsave \"\"\nlogfile log\n"
       << "daemonize no\nrepl-diskless-sync-delay 0\nappendfsync always\n"
       << "appendonly " << (options_.append_only ? "yes" : "no") << '\n'
       << "user " << kit_user << " on >" << kit_password_ << " ~* &* +@all\n";
  if (!options_.password.empty())
    file << "requirepass " << config_string(options_.password) << '\n';
  for (auto const& user : options_.users)
    file << "user " << user << '\n';
  for (auto const& line : options_.config)
    file << line << '\n';
}

bool RedisServer::try_start() {
  std::filesystem::remove(folder_.path() / "log");
  std::filesystem::remove(socket_path());
  write_config();
  Descriptor const nowhere{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  std::vector<std::string> words{binary(), "conf"};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  try {
    process_ = execute({.words = words, .environment = options_.environment, .folder = folder_.path(),
                        .input = nowhere.get(), .output = nowhere.get(), .errors = nowhere.get()});
  } catch (std::system_error const& error) {
    if (error.code() == std::errc::no_such_file_or_directory)
      throw std::runtime_error{binary() + " is not installed: install the package redis-server (or valkey-server), or "
                               "name the binary in MORTISE_TEST_SERVER"};
    throw;
  }
  own_commands_ = 0;
  bool const answers = wait_until([this] {
    if (process_.wait(Clock::now()))
      return true;
    try {
      return command({"PING"}).text == "PONG";
    } catch (std::runtime_error const&) {
      return false;
    }
  });
  return answers && running();
}

RawClient& RedisServer::control() {
  if (control_ && control_owner_ == ::getpid() && !control_->closed_by_peer())
    return *control_;
  if (control_ && control_owner_ != ::getpid())
    control_->close();  // our copy of the parent's; its connection stays
  control_ = std::make_unique<RawClient>(socket_path());
  control_owner_ = ::getpid();
  if (auto const answer = control_->command({"AUTH", kit_user, kit_password_}); !answer.is_ok()) {
    control_.reset();
    throw std::runtime_error{"the kit cannot log in: " + answer.text};
  }
  ++own_commands_;
  return *control_;
}

Answer RedisServer::command(RawClient::Words const& words) {
  try {
    auto answer = control().command(words);
    if (!answer.is_error())
      ++own_commands_;
    return answer;
  } catch (...) {
    control_.reset();  // an answer that comes late must never be the answer of another command
    throw;
  }
}

Answer RedisServer::checked(RawClient::Words const& words) {
  auto answer = command(words);
  if (answer.is_error())
    throw std::runtime_error{words.at(0) + ": " + answer.text};
  return answer;
}

RawClient RedisServer::connect() const {
  RawClient client{port_};
  if (!options_.password.empty() && !client.command({"AUTH", options_.password}).is_ok())
    throw std::runtime_error{"the default user cannot log in"};
  return client;
}

}  // namespace support
