// SPDX-License-Identifier: MIT
// From a URI to the topology it tells.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mortise/cluster.hpp>
#include <mortise/sentinel.hpp>
#include <mortise/topology.hpp>
#include <mortise/uri.hpp>

namespace mortise::inline v1::detail {

/// Refuses options that mean nothing for the topology of a URI, instead of passing over them.
inline void check_options_for(Uri const& uri, ClientOptions const& options) {
  if (uri.scheme != Uri::Scheme::sentinel && !(options.sentinel_username.empty() && options.sentinel_password.empty()))
    invalid("sentinel_username or sentinel_password is given: they are for redis+sentinel:// URIs");
  if (uri.scheme == Uri::Scheme::cluster && options.tracking)
    invalid("tracking is on: it needs all keys on one server, and a cluster has several: leave it off");
}

inline std::unique_ptr<Topology> make_topology(Uri const& uri, ClientOptions const& options, std::string const& client_name,
                                               std::shared_ptr<SecureContext const> secure) {
  Login login{.username = options.username, .password = options.password, .database = uri.db, .client_name = client_name, .secure = secure};
  std::vector<Address> servers;
  for (auto const& server : uri.servers) servers.push_back({.host = server.host, .port = server.port});
  switch (uri.scheme) {
    case Uri::Scheme::sentinel: {
      SentinelOptions group{.sentinels = std::move(servers), .service = uri.service, .login = {}};
      group.login = {.username = options.sentinel_username, .password = options.sentinel_password, .client_name = client_name, .secure = std::move(secure)};
      return std::make_unique<SentinelGroup>(std::move(group), std::move(login), options.connect_timeout);
    }
    case Uri::Scheme::cluster: return std::make_unique<Cluster>(std::move(servers), std::move(login), options.connect_timeout);
    case Uri::Scheme::tcp:
    case Uri::Scheme::unix_socket: break;
  }
  return std::make_unique<Standalone>(Address{.host = uri.host, .path = uri.path, .port = uri.port}, std::move(login), options.connect_timeout);
}

}  // namespace mortise::inline v1::detail
