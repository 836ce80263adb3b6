// SPDX-License-Identifier: MIT
// The private server: what it can be told and asked while it runs.
#include "support/redis_server.hpp"

#include "support/wait_until.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>
#include <stdexcept>

namespace support {

namespace {

std::int64_t number_in(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "name=value name=value …", as in CLIENT LIST
std::map<std::string, std::string> assignments(std::string const& line) {
  std::map<std::string, std::string> fields;
  std::istringstream words{line};
  for (std::string word; words >> word;)
    if (auto const equals = word.find('='); equals != std::string::npos)
      fields[word.substr(0, equals)] = word.substr(equals + 1);
  return fields;
}

}  // namespace

void RedisServer::config_set(std::string const& name, std::string const& value) {
  checked({"CONFIG", "SET", name, value});
}

std::string RedisServer::config_get(std::string const& name) {
  auto const answer = checked({"CONFIG", "GET", name});
  return answer.items.size() > 1 ? answer.items[1].text : "";
}

void RedisServer::client_pause(std::int64_t ms) {
  checked({"CLIENT", "PAUSE", std::to_string(ms), "ALL"});
}

void RedisServer::flush_scripts() {
  checked({"SCRIPT", "FLUSH"});
}

void RedisServer::flush_all() {
  checked({"FLUSHALL"});
}

std::int64_t RedisServer::kill_clients(std::string const& type) {
  return checked({"CLIENT", "KILL", "TYPE", type, "SKIPME", "yes"}).integer;
}

void RedisServer::replica_of(RedisServer const& other) {
  if (!other.options_.password.empty())
    config_set("masterauth", other.options_.password);
  checked({"REPLICAOF", "127.0.0.1", std::to_string(other.port_)});
  if (!wait_until([this] { return info("replication")["master_link_status"] == "up"; }))
    throw std::runtime_error{"the replica does not synchronise:\n" + log()};
}

void RedisServer::promote() {
  checked({"REPLICAOF", "NO", "ONE"});
}

std::map<std::string, std::string> RedisServer::info(std::string const& section) {
  std::map<std::string, std::string> fields;
  std::istringstream lines{checked({"INFO", section}).text};
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    if (auto const colon = line.find(':'); colon != std::string::npos)
      fields[line.substr(0, colon)] = line.substr(colon + 1);
  }
  return fields;
}

std::int64_t RedisServer::commands_processed() {
  control();  // a fresh log-in counts before the number is read
  auto const own_before = own_commands_;
  return number_in(info("stats").at("total_commands_processed")) - own_before;
}

std::map<std::string, std::int64_t> RedisServer::commandstats() {
  constexpr std::string_view prefix = "cmdstat_";
  constexpr std::string_view calls = "calls=";
  std::map<std::string, std::int64_t> counts;
  for (auto const& [name, value] : info("commandstats"))
    if (name.starts_with(prefix) && value.starts_with(calls))
      counts[name.substr(prefix.size())] = number_in(std::string_view{value}.substr(calls.size()));
  return counts;
}

void RedisServer::reset_stats() {
  checked({"CONFIG", "RESETSTAT"});
  own_commands_ = 1;  // the reset itself is counted after it has run
}

std::vector<std::string> RedisServer::keys(int database) {
  checked({"SELECT", std::to_string(database)});
  std::vector<std::string> names;
  for (auto const& item : checked({"KEYS", "*"}).items)
    names.push_back(item.text);
  checked({"SELECT", "0"});
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::map<std::string, std::string>> RedisServer::client_list() {
  auto const own_id = std::to_string(checked({"CLIENT", "ID"}).integer);
  std::vector<std::map<std::string, std::string>> clients;
  std::istringstream lines{checked({"CLIENT", "LIST"}).text};
  for (std::string line; std::getline(lines, line);)
    if (auto fields = assignments(line); !fields.empty() && fields["id"] != own_id)
      clients.push_back(std::move(fields));
  return clients;
}

}  // namespace support
