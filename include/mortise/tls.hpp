// SPDX-License-Identifier: MIT
// TLS for rediss:// URIs, by OpenSSL: include this header, link mortise::tls, and set ClientOptions::tls.
#pragma once

#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mortise/detail/printable.hpp>
#include <mortise/detail/secure.hpp>
#include <mortise/error.hpp>
#include <mortise/options.hpp>

namespace mortise::inline v1 {
namespace detail {
std::shared_ptr<SecureContext const> make_tls(TlsOptions const& options);
}

/// How a server is trusted, and who we are to it. The defaults trust what the system's certificate authorities have signed
/// for the host of the URI; TLS 1.2 is the least that is spoken. The Client reads the files when it is made, and a forked
/// child reads them again at its first use.
struct TlsOptions {
  detail::SecureHook hook{&detail::make_tls};  ///< the library's own: leave it as it is
  std::string ca_file{};                       ///< PEM: the authorities to trust, in place of the system's
  std::string ca_directory{};                  ///< the same as a folder that `openssl rehash` has prepared
  std::string certificate_file{};              ///< PEM: our certificate and what links it to its authority; with key_file
  std::string key_file{};                      ///< PEM: its private key, not encrypted
  std::string server_name{};                   ///< name or address the certificate must be for, and SNI; default: the URI's host
  bool verify{true};                           ///< false: anybody in between can read and change everything
};

/// For ClientOptions::tls: `mortise::Client redis{"rediss://cache.example", {.tls = mortise::tls({.ca_file = "ca.pem"})}};`
[[nodiscard]] inline std::shared_ptr<TlsOptions> tls(TlsOptions options = {}) {
  return std::make_shared<TlsOptions>(std::move(options));
}

namespace detail {

static_assert(std::is_standard_layout_v<TlsOptions>, "SecureHook is found as the first member");

/// Says what OpenSSL noted last, and leaves nothing of it behind.
inline std::string openssl_reason() {
  auto const code = ::ERR_peek_last_error();
  auto const* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

/// One connection's TLS, between two buffers in memory: the Connection does the I/O, so its deadlines hold during the
/// handshake too, and OpenSSL never writes to a socket (it would raise SIGPIPE).
class TlsSession final : public SecureSession {
 public:
  TlsSession(SSL_CTX* context, TlsOptions const& options, Address const& server)
      : endpoint_{server.text()},
        name_{without_root(options.server_name.empty() ? server.host.substr(0, server.host.find('%')) : options.server_name)},
        verify_{options.verify},
        shows_certificate_{!options.certificate_file.empty()},
        ssl_{::SSL_new(context)} {
    if (!ssl_) throw std::bad_alloc{};
    in_ = ::BIO_new(::BIO_s_mem());
    out_ = ::BIO_new(::BIO_s_mem());
    if (in_ == nullptr || out_ == nullptr) {
      ::BIO_free(in_);
      ::BIO_free(out_);
      throw std::bad_alloc{};
    }
    ::SSL_set_bio(ssl_.get(), in_, out_);  // owns both
    ::SSL_set_connect_state(ssl_.get());
    expect_name();
  }

  bool shake_hands() override {
    ::ERR_clear_error();
    auto const result = ::SSL_do_handshake(ssl_.get());
    if (result == 1) return true;
    if (::SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return false;
    throw refusal();
  }

  void take(std::string_view wire) override {
    std::size_t taken = 0;
    if (::BIO_write_ex(in_, wire.data(), wire.size(), &taken) != 1 || taken != wire.size()) throw std::bad_alloc{};
  }

  std::size_t read(std::span<char> plain) override {
    ::ERR_clear_error();
    std::size_t count = 0;
    auto const result = ::SSL_read_ex(ssl_.get(), plain.data(), plain.size(), &count);
    if (result == 1) return count;
    switch (::SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ: return 0;
      case SSL_ERROR_ZERO_RETURN: throw Error{Errc::connection_lost, endpoint_ + ": the server closed the connection"};
      default: throw refusal();
    }
  }

  void write(std::string_view plain) override {
    ::ERR_clear_error();
    std::size_t count = 0;
    if (::SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &count) != 1 || count != plain.size())
      throw Error{Errc::connection_lost, endpoint_ + ": TLS: " + openssl_reason()};
  }

  void drain(std::string& wire) override {
    auto const before = wire.size();
    wire.resize(before + ::BIO_ctrl_pending(out_));
    std::size_t taken = 0;
    if (wire.size() > before) ::BIO_read_ex(out_, wire.data() + before, wire.size() - before, &taken);
    wire.resize(before + taken);
  }

 private:
  struct Free {
    void operator()(SSL* ssl) const noexcept { ::SSL_free(ssl); }
  };

  /// `cache.example.` is in DNS what certificates and SNI call `cache.example` (RFC 6066, section 3).
  static std::string without_root(std::string name) {
    if (name.ends_with('.')) name.pop_back();
    return name;
  }

  bool name_is_address() const noexcept {
    in6_addr address{};
    return ::inet_pton(AF_INET, name_.c_str(), &address) == 1 || ::inet_pton(AF_INET6, name_.c_str(), &address) == 1;
  }

  /// Without this OpenSSL takes a certificate of any name.
  void expect_name() {
    auto* const expected = ::SSL_get0_param(ssl_.get());
    ::X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    bool set = false;
    if (name_is_address())
      set = ::X509_VERIFY_PARAM_set1_ip_asc(expected, name_.c_str()) == 1;
    else
      set = ::X509_VERIFY_PARAM_set1_host(expected, name_.data(), name_.size()) == 1 &&
            ::SSL_set_tlsext_host_name(ssl_.get(), name_.c_str()) == 1;
    if (!set) throw std::bad_alloc{};
  }

  /// Why the handshake or what followed it failed, and what to do about it.
  Error refusal() const {
    auto const because = [&](std::string const& what, char const* advice) {
      return Error{Errc::connect_failed, endpoint_ + ": TLS: " + what + " (" + advice + ")"}.permanent();
    };
    if (auto const verdict = ::SSL_get_verify_result(ssl_.get()); verify_ && verdict != X509_V_OK) {
      ::ERR_clear_error();
      auto const what = "the server's certificate is refused: " + std::string{::X509_verify_cert_error_string(verdict)};
      switch (verdict) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
          return because(what + ": it is not for " + printable(name_),
                         "connect by the name it is for, or name that in TlsOptions::server_name");
        case X509_V_ERR_CERT_HAS_EXPIRED:
        case X509_V_ERR_CERT_NOT_YET_VALID:
          return because(what, "the server needs a new one, unless the clock of this machine is wrong");
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
          return because(what, "its authority is not trusted: name that authority's file in TlsOptions::ca_file");
        default: return because(what, "mend the certificate of the server or the authorities in TlsOptions");
      }
    }
    auto const reason = ERR_GET_REASON(::ERR_peek_last_error());
    auto const what = openssl_reason();
    switch (reason) {
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_WRONG_SSL_VERSION:
      case SSL_R_PACKET_LENGTH_TOO_LONG:
      case SSL_R_HTTP_REQUEST:
      case SSL_R_UNKNOWN_PROTOCOL: return because("no TLS answer: " + what, "does the server speak TLS on this port?");
      case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return because(what, shows_certificate_ ? "the server refuses our certificate: see TlsOptions::certificate_file"
                                                : "the server wants a certificate: see TlsOptions::certificate_file and key_file");
      case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
      case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        return because(what, "the server refuses our certificate: see TlsOptions::certificate_file");
      case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      case SSL_R_UNSUPPORTED_PROTOCOL: return because(what, "the server must speak TLS 1.2 or newer");
      default: return Error{Errc::connection_lost, endpoint_ + ": TLS: " + what};
    }
  }

  std::string endpoint_;
  std::string name_;
  bool verify_;
  bool shows_certificate_;
  std::unique_ptr<SSL, Free> ssl_;
  BIO* in_{nullptr};   // from the socket
  BIO* out_{nullptr};  // into it
};

/// What the options say, read and checked once.
class TlsContext final : public SecureContext {
 public:
  explicit TlsContext(TlsOptions options) : options_{std::move(options)} {
    check_server_name();
    // Not torn down at exit: library threads may still be at work then.
    ::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
    ::ERR_clear_error();
    context_.reset(::SSL_CTX_new(::TLS_client_method()));
    if (!context_) throw std::bad_alloc{};
    auto* const context = context_.get();
    if (::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) invalid("tls: this OpenSSL cannot speak TLS 1.2: " + openssl_reason());
    ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    ::SSL_CTX_set_verify(context, options_.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    ::SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });  // the default asks at the terminal
    trust();
    identify();
  }

  std::unique_ptr<SecureSession> session(Address const& server) const override {
    return std::make_unique<TlsSession>(context_.get(), options_, server);
  }
  std::shared_ptr<SecureContext const> anew() const override { return std::make_shared<TlsContext>(options_); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const noexcept { ::SSL_CTX_free(context); }
  };

  void check_server_name() const {
    auto const& name = options_.server_name;
    if (name.size() > 255) invalid("tls: server_name has " + std::to_string(name.size()) + " bytes: at most 255");
    for (char const c : name)
      if (c < '!' || c > '~') invalid("tls: server_name " + printable(name) + ": must be a name or an address, of visible ASCII without spaces");
    if (name == ".") invalid("tls: server_name is the root: must be a name or an address");
  }

  static char const* readable(char const* option, std::string const& path) {
    if (path.empty()) return nullptr;
    if (path.find('\0') != std::string::npos || ::access(path.c_str(), R_OK) != 0)
      invalid("tls: " + std::string{option} + ' ' + printable(path) + ": must be readable: " + std::generic_category().message(errno));
    return path.c_str();
  }

  void trust() {
    auto const* const file = readable("ca_file", options_.ca_file);
    auto const* const directory = readable("ca_directory", options_.ca_directory);
    // OpenSSL takes anything for one, and would then trust nobody.
    if (struct stat about {}; directory != nullptr && (::stat(directory, &about) != 0 || !S_ISDIR(about.st_mode)))
      invalid("tls: ca_directory " + printable(options_.ca_directory) + ": must be a directory, prepared by `openssl rehash`");
    if (file == nullptr && directory == nullptr) {
      if (::SSL_CTX_set_default_verify_paths(context_.get()) != 1) invalid("tls: the system's authorities: " + openssl_reason());
    } else if (::SSL_CTX_load_verify_locations(context_.get(), file, directory) != 1) {
      unusable(file != nullptr ? "ca_file" : "ca_directory", file != nullptr ? options_.ca_file : options_.ca_directory,
               "must hold certificates as PEM");
    }
  }

  void identify() {
    auto const* const certificate = readable("certificate_file", options_.certificate_file);
    auto const* const key = readable("key_file", options_.key_file);
    if ((certificate == nullptr) != (key == nullptr)) invalid("tls: certificate_file and key_file: give both or none");
    if (certificate == nullptr) return;
    if (::SSL_CTX_use_certificate_chain_file(context_.get(), certificate) != 1)
      unusable("certificate_file", options_.certificate_file, "must hold certificates as PEM, ours first");
    if (::SSL_CTX_use_PrivateKey_file(context_.get(), key, SSL_FILETYPE_PEM) != 1)
      unusable("key_file", options_.key_file, "must hold the certificate's private key as PEM, not encrypted");
  }

  [[noreturn]] static void unusable(char const* option, std::string const& path, char const* rule) {
    invalid("tls: " + std::string{option} + ' ' + printable(path) + ": " + openssl_reason() + ": " + rule);
  }

  TlsOptions options_;
  std::unique_ptr<SSL_CTX, Free> context_{};
};

inline std::shared_ptr<SecureContext const> make_tls(TlsOptions const& options) { return std::make_shared<TlsContext>(options); }

}  // namespace detail
}  // namespace mortise::inline v1
