// SPDX-License-Identifier: MIT
// A private Redis server for one test, which can be frozen, killed, restarted and asked what it did.
#pragma once

#include "support/launch.hpp"
#include "support/raw_client.hpp"
#include "support/temporary_folder.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace support {

struct ServerOptions {
  /// requirepass, the password of the user `default`.
  std::string password{};
  /// ACL users, e.g. "alice on >secret ~lock:* +@all".
  std::vector<std::string> users{};
  /// Further lines of redis.conf; they win over the fixture's own.
  std::vector<std::string> config{};
  /// Further arguments, e.g. "--sentinel".
  std::vector<std::string> arguments{};
  /// Of the server process, e.g. from ClockShim::environment().
  Environment environment{};
  /// Every write goes to an append-only file with fsync, so that it survives kill().
  bool append_only = false;
};

/// A running server in a folder of its own, on 127.0.0.1 and on a unix socket. The binary is `redis-server` or what the
/// environment variable MORTISE_TEST_SERVER names. The fixture talks by one connection over the unix socket as a user
/// of its own ("kit"), so that passwords, ACLs and databases under test do not disturb it; that connection and what it
/// does are left out of commands_processed() and client_list(). Ended, frozen or not, by the destructor, and when the
/// test process dies. For one thread at a time; in a forked child it may be asked and told, but is never ended. It does
/// not move: the nodes of a quorum are a `std::deque<RedisServer> nodes(5)`.
class RedisServer {
public:
  explicit RedisServer(ServerOptions options = {});
  RedisServer(RedisServer const&) = delete;
  RedisServer& operator=(RedisServer const&) = delete;
  ~RedisServer();

  /// redis://127.0.0.1:port, with the default user's password if there is one.
  std::string uri() const;
  /// The same as another user; name and password are percent-encoded.
  std::string uri(std::string_view user, std::string_view password) const;
  /// unix:///path, without any password.
  std::string unix_uri() const { return "unix://" + socket_path(); }
  std::uint16_t port() const { return port_; }
  std::string socket_path() const { return (folder_.path() / "s").native(); }
  std::filesystem::path const& folder() const { return folder_.path(); }
  pid_t pid() const { return process_.pid(); }
  bool running() const { return process_.mine(); }
  /// What the server has logged so far.
  std::string log() const;

  /// SIGSTOP: accepts (in the kernel), never answers.
  void freeze() { process_.freeze(); }
  void thaw() { process_.thaw(); }
  /// kill -9, frozen or not.
  void kill();
  /// An orderly end by SIGTERM (-9 if it takes too long).
  void stop();

  /// What a restart finds: all that was there if the server still runs (by SAVE) or what its files hold; or nothing.
  enum class Data { kept, lost };
  /// Ends the server if it runs and starts it on the same port.
  void restart(Data data);

  /// One command by the fixture's connection; an error reply is an answer, a dead server an exception.
  Answer command(RawClient::Words const& words);
  /// A new connection by TCP, logged in as the default user.
  RawClient connect() const;

  void config_set(std::string const& name, std::string const& value);
  std::string config_get(std::string const& name);
  /// CLIENT PAUSE ms ALL; the fixture's own commands wait as well.
  void client_pause(std::int64_t ms);
  void flush_scripts();
  void flush_all();
  /// CLIENT KILL TYPE normal | pubsub | replica | master, except the fixture's own; returns how many.
  std::int64_t kill_clients(std::string const& type = "normal");
  /// Becomes a replica of `other` and waits until the first synchronisation is done.
  void replica_of(RedisServer const& other);
  /// Becomes a master again (REPLICAOF NO ONE).
  void promote();

  /// The fields of one section of INFO.
  std::map<std::string, std::string> info(std::string const& section);
  /// Commands run since start or reset_stats(), those of the fixture excluded, those called by scripts included.
  std::int64_t commands_processed();
  /// Calls per command ("set", "config|get"), by anybody, those called by scripts included.
  std::map<std::string, std::int64_t> commandstats();
  /// CONFIG RESETSTAT.
  void reset_stats();
  /// All keys of a database, sorted.
  std::vector<std::string> keys(int database = 0);
  /// The fields of each client's line.
  std::vector<std::map<std::string, std::string>> client_list();

private:
  void start();
  bool try_start();
  void write_config() const;
  Answer checked(RawClient::Words const& words);
  RawClient& control();

  ServerOptions options_;
  TemporaryFolder folder_;
  std::string kit_password_;
  std::uint16_t port_ = 0;
  Child process_;
  std::unique_ptr<RawClient> control_;
  pid_t control_owner_ = -1;
  std::int64_t own_commands_ = 0;
};

/// Percent-encodes everything but unreserved characters, for a URI.
std::string percent_encoded(std::string_view text);

}  // namespace support
