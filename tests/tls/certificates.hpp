// SPDX-License-Identifier: MIT
// Certificates made on the spot, and servers that show them.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <mortise/mortise.hpp>
#include <mortise/tls.hpp>

#include "../integration/lock_server.hpp"
#include "support/launch.hpp"
#include "support/temporary_folder.hpp"

/// A certificate and its key, as files.
struct Identity {
  std::string certificate{};
  std::string key{};
};

/// What a certificate says.
struct Claims {
  std::string names{"DNS:localhost,IP:127.0.0.1,IP:::1"};
  bool expired{false};
};

/// A certificate authority of its own.
class Authority {
 public:
  Authority() { run({"req", "-x509", "-subj", "/CN=authority", "-days", "2", "-out", file()}, "ca"); }

  std::string file() const { return path("ca.pem"); }
  /// The same as a folder, as `openssl rehash` prepares it.
  std::string directory() const {
    std::filesystem::create_directory(path("hashed"));
    std::filesystem::copy_file(file(), path("hashed/ca.pem"), std::filesystem::copy_options::overwrite_existing);
    run({"rehash", path("hashed")});
    return path("hashed");
  }
  Identity issue(Claims const& claims = {}) {
    auto const name = "issued" + std::to_string(++issued_);
    std::ofstream{path(name + ".ext")} << "subjectAltName=" << claims.names << '\n';
    run({"req", "-new", "-subj", "/CN=issued", "-out", path(name + ".csr")}, name);
    auto const sign = [&](std::vector<std::string> const& validity) {
      std::vector<std::string> words{"x509", "-req", "-in", path(name + ".csr"), "-CA", file(), "-CAkey", path("ca.key"), "-CAcreateserial",
                                     "-extfile", path(name + ".ext"), "-out", path(name + ".pem")};
      words.insert(words.end(), validity.begin(), validity.end());
      run(words);
    };
    if (!claims.expired) {
      sign({"-days", "2"});
    } else {
      try {
        sign({"-not_before", "20200101000000Z", "-not_after", "20200102000000Z"});
      } catch (std::runtime_error const&) {  // OpenSSL before 3.4, which takes a negative number of days instead
        sign({"-days", "-1"});
      }
    }
    return {path(name + ".pem"), path(name + ".key")};
  }

 private:
  std::string path(std::string const& name) const { return (folder_.path() / name).native(); }

  /// openssl with these words and, if it is named, with a new key.
  void run(std::vector<std::string> words, std::string const& key = {}) const {
    words.insert(words.begin(), "openssl");
    if (!key.empty())
      words.insert(words.end(), {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path(key + ".key")});
    support::Descriptor const nowhere{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    auto made = support::execute({.words = words, .output = nowhere.get(), .errors = nowhere.get()});
    if (made.wait(support::Clock::now() + 20s) != 0) throw std::runtime_error{"openssl made no certificate"};
  }

  support::TemporaryFolder folder_{};
  int issued_{0};
};

struct TlsServerOptions {
  Claims claims{};
  bool wants_certificate{false};      ///< of its clients
  std::vector<std::string> config{};
};

/// A server that speaks TLS on a port of its own, and plainly on the other.
class TlsServer : public LockServer {
 public:
  explicit TlsServer(Authority& authority, TlsServerOptions const& options = {})
      : TlsServer{authority, authority.issue(options.claims), options, support::free_port()} {}

  std::string tls_uri(std::string const& host = "localhost") const { return "rediss://" + host + ":" + std::to_string(tls_port_); }
  std::uint16_t tls_port() const { return tls_port_; }

 private:
  TlsServer(Authority const& authority, Identity const& identity, TlsServerOptions const& options, std::uint16_t port)
      : LockServer{{.config = config(authority, identity, options, port)}}, tls_port_{port} {}

  static std::vector<std::string> config(Authority const& authority, Identity const& identity, TlsServerOptions const& options,
                                         std::uint16_t port) {
    std::vector<std::string> lines{"tls-port " + std::to_string(port), "tls-cert-file " + identity.certificate,
                                   "tls-key-file " + identity.key, "tls-ca-cert-file " + authority.file(),
                                   std::string{"tls-auth-clients "} + (options.wants_certificate ? "yes" : "no")};
    lines.insert(lines.end(), options.config.begin(), options.config.end());
    return lines;
  }

  std::uint16_t tls_port_;
};
