// SPDX-License-Identifier: MIT
// Where a server is and how to log in there, read from a URI.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <mortise/detail/printable.hpp>
#include <mortise/detail/uri_options.hpp>
#include <mortise/options.hpp>

namespace mortise::inline v1::detail {

/// `redis://[user[:password]@]host[:port][/db][?option=value&…]` or `unix://[user[:password]@]/path[?option=value&…]`,
/// taken apart; or `redis+sentinel://[user[:password]@]host[:port],…/service[/db][?…]`, `redis+cluster://[user[:password]@]host[:port],…[?…]`.
/// Reserved characters of a part are written as %XX and decoded once; a '+' stays one.
struct Uri {
  enum class Scheme : std::uint8_t { tcp, unix_socket, sentinel, cluster };

  /// One of several servers.
  struct Server {
    std::string host{};
    std::uint16_t port{};
    friend bool operator==(Server const&, Server const&) = default;
    std::string text() const {
      auto const bracketed = host.find(':') == std::string::npos ? host : '[' + host + ']';
      return escaped(bracketed) + ':' + std::to_string(port);
    }
  };

  Scheme scheme{Scheme::tcp};
  bool tls{false};           ///< rediss://
  std::string username{};    ///< `redis://name@host` is a user without a password (RFC 3986)
  std::string password{};    ///< any bytes
  std::string host{};        ///< name or address; IPv6 without its brackets
  std::uint16_t port{6379};
  std::string path{};        ///< of a unix socket
  std::vector<Server> servers{};  ///< sentinel: the Sentinels; cluster: some of its nodes; each once, in the URI's order
  std::string service{};     ///< sentinel: what the primary is called there
  int db{0};
  UriOptions options{};      ///< what stood behind the '?'

  /// The server for messages: host:port, [v6]:port or unix:/path, without user or password.
  std::string endpoint() const {
    if (scheme == Scheme::unix_socket) return "unix:" + escaped(path);
    if (scheme == Scheme::tcp) return Server{host, port}.text();
    std::string all;
    for (auto const& server : servers) all.append(all.empty() ? 0 : 1, ',').append(server.text());
    return scheme == Scheme::sentinel ? all + '/' + escaped(service) : all;
  }
};

/// Reads one URI. A message of this class names the part and the rule, and never shows what stood there: in a URI that is
/// written wrongly, any part may be a piece of the password.
class UriParser {
 public:
  explicit UriParser(std::string_view text) : text_{text} {}

  Uri parse() {
    auto rest = after_scheme();
    check_characters(rest);
    auto const authority = rest.substr(0, std::min(rest.find_first_of("/?"), rest.size()));
    rest.remove_prefix(authority.size());
    auto const path = rest.substr(0, std::min(rest.find('?'), rest.size()));
    auto const query = rest.substr(path.size());
    auto const at = authority.find('@');
    check_at_signs(authority, at, path, query);

    if (at != npos) take_user(authority.substr(0, at));
    auto const server = authority.substr(at == npos ? 0 : at + 1);
    switch (uri_.scheme) {
      case Uri::Scheme::tcp:
        take_server(server);
        if (path.size() > 1) uri_.options.take_db(path.substr(1));
        break;
      case Uri::Scheme::unix_socket:
        if (!server.empty()) invalid("URI: a unix socket has no host: write unix:///path, with three slashes");
        take_socket(path);
        break;
      case Uri::Scheme::sentinel:
        take_servers(server, 26379);
        take_service(path);
        break;
      case Uri::Scheme::cluster:
        take_servers(server, 6379);
        if (path.size() > 1) uri_.options.take_db(path.substr(1));
        break;
    }
    if (query.size() > 1) uri_.options.take_all(query.substr(1));
    uri_.db = uri_.options.db.value_or(0);
    if (uri_.scheme == Uri::Scheme::cluster && uri_.db != 0)
      invalid("URI: db is " + std::to_string(uri_.db) + ": a cluster has only database 0");
    return uri_;
  }

 private:
  static constexpr auto npos = std::string_view::npos;

  std::string_view after_scheme() {
    auto const end = text_.find("://");
    auto const plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
    };
    std::string scheme{text_.substr(0, end == npos ? 0 : end)};
    for (char& c : scheme)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (scheme.empty() || !std::all_of(scheme.begin(), scheme.end(), plain))
      invalid("URI: must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://");
    if (scheme.starts_with("rediss")) {
      uri_.tls = true;
      scheme.erase(sizeof "redis" - 1, 1);
    }
    if (scheme == "unix")
      uri_.scheme = Uri::Scheme::unix_socket;
    else if (scheme == "redis+sentinel")
      uri_.scheme = Uri::Scheme::sentinel;
    else if (scheme == "redis+cluster")
      uri_.scheme = Uri::Scheme::cluster;
    else if (scheme != "redis")
      invalid("URI: unknown scheme " + printable(text_.substr(0, end)) + ": must be redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://");
    return text_.substr(end + 3);
  }

  static void check_characters(std::string_view rest) {
    for (char const c : rest) {
      if (c == '#') invalid("URI: a '#' must be written %23");
      if ((c >= 0 && c <= ' ') || c == 0x7F)
        invalid("URI: a space or control character must be percent-encoded (a space: %20)");
    }
  }

  /// Passwords hold '@', '/' and '?' more often than anything else does, and an unencoded one would make the next part of
  /// the password a host, a path or an option.
  void check_at_signs(std::string_view authority, std::size_t at, std::string_view path, std::string_view query) const {
    bool const in_path = uri_.scheme != Uri::Scheme::unix_socket && path.find('@') != npos;
    if (in_path || query.find('@') != npos)
      invalid("URI: an '@' behind the host; in a user name, password or option write '@' %40, '/' %2F, '?' %3F");
    if (at != npos && authority.find('@', at + 1) != npos)
      invalid("URI: more than one '@'; in a user name or password it must be written %40");
  }

  void take_user(std::string_view info) {
    auto const colon = info.find(':');
    uri_.username = percent_decoded(info.substr(0, colon), "user name");
    if (colon != npos) uri_.password = percent_decoded(info.substr(colon + 1), "password");
  }

  /// `host[:port],…`: a server that is named twice counts once.
  void take_servers(std::string_view servers, std::uint16_t default_port) {
    for (;;) {
      auto const end = std::min(servers.find(','), servers.size());
      uri_.port = default_port;
      take_server(servers.substr(0, end));
      Uri::Server server{uri_.host, uri_.port};
      if (std::find(uri_.servers.begin(), uri_.servers.end(), server) == uri_.servers.end()) uri_.servers.push_back(std::move(server));
      if (end == servers.size()) break;
      servers.remove_prefix(end + 1);
    }
    uri_.host.clear();
  }

  void take_service(std::string_view path) {
    auto const name = path.substr(std::min<std::size_t>(path.size(), 1));
    auto const end = std::min(name.find('/'), name.size());
    uri_.service = percent_decoded(name.substr(0, end), "service");
    if (uri_.service.empty()) invalid("URI: service: is empty: write redis+sentinel://host:port/service, as the Sentinels call the primary");
    if (end + 1 < name.size()) uri_.options.take_db(name.substr(end + 1));
  }

  void take_server(std::string_view server) {
    std::string_view rest;
    if (server.starts_with('[')) {
      auto const close = server.find(']');
      if (close == npos) invalid("URI: host: '[' without ']'");
      uri_.host = percent_decoded(server.substr(1, close - 1), "host");
      in6_addr address{};
      auto const zone = uri_.host.find('%');  // fe80::1%eth0
      if (uri_.host.find('\0') != npos || ::inet_pton(AF_INET6, uri_.host.substr(0, zone).c_str(), &address) != 1)
        invalid("URI: host: what stands in brackets must be an IPv6 address");
      rest = server.substr(close + 1);
      if (!rest.empty() && !rest.starts_with(':')) invalid("URI: port: only :port may follow the host");
    } else {
      auto const colon = server.find(':');
      if (server.rfind(':') != colon) invalid("URI: host: has more than one ':'; an IPv6 address must stand in brackets");
      uri_.host = server.substr(0, colon);
      rest = colon == npos ? std::string_view{} : server.substr(colon);
      check_host(uri_.host);
    }
    if (rest.empty()) return;
    rest.remove_prefix(1);
    auto const port = uri_number(rest, 65535);
    // What stands there is not shown: where the host was forgotten, it is the password.
    if (!port || *port == 0) invalid("URI: port: must be a number from 1 to 65535");
    uri_.port = static_cast<std::uint16_t>(*port);
  }

  static void check_host(std::string_view host) {
    if (host.empty()) invalid("URI: host: is empty: write one, such as redis://localhost");
    if (host.size() > 255) invalid("URI: host: has " + std::to_string(host.size()) + " bytes: at most 255");
    for (char const c : host)
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_'))
        invalid("URI: host: must be one name or address of letters, digits, '-', '.', '_', or an IPv6 address in brackets");
  }

  void take_socket(std::string_view path) {
    uri_.path = percent_decoded(path, "path");
    if (uri_.path.empty()) invalid("URI: path: is empty: write unix:///path");
    if (uri_.path.find('\0') != npos) invalid("URI: path: holds a NUL byte");
    constexpr auto longest = sizeof(sockaddr_un::sun_path) - 1;
    if (uri_.path.size() > longest)
      invalid("URI: path: has " + std::to_string(uri_.path.size()) + " bytes: a unix socket's has at most " +
              std::to_string(longest));
  }

  std::string_view text_;
  Uri uri_{};
};

/// Takes a URI apart. Throws Errc::invalid_option, with a message that never holds the user name or password.
inline Uri parse_uri(std::string_view text) { return UriParser{text}.parse(); }

/// Fills the options that still have their default values from the URI: what a program sets wins over its URI.
inline void apply(Uri const& uri, ClientOptions& options) {
  uri.options.apply(options);
  if (options.username.empty()) options.username = uri.username;
  if (options.password.empty()) options.password = uri.password;
}

/// TLS is asked for by the URI and made possible by the options: one without the other is a mistake.
inline void check_tls(Uri const& uri, ClientOptions const& options) {
  if (uri.tls && !options.tls)
    invalid("URI: rediss:// needs TLS: #include <mortise/tls.hpp>, link mortise::tls, and set ClientOptions::tls = mortise::tls()");
  if (!uri.tls && options.tls) invalid("tls options are given, but the URI does not ask for TLS: it must begin with rediss://");
}

}  // namespace mortise::inline v1::detail
