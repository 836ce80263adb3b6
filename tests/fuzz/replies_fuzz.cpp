// SPDX-License-Identifier: MIT
// Any bytes are what a server answers: a defined answer or a defined error, by the connection that the library uses.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <mortise/connection.hpp>
#include <mortise/wire.hpp>

namespace {

using namespace mortise::detail;
using mortise::Clock;
using mortise::milliseconds;

/// Listens at a unix socket; answers each connection with the login's OK and the bytes of the moment, and ends it.
class Peer {
 public:
  Peer() {
    char folder[] = "/tmp/mortise-fuzz-XXXXXX";
    if (::mkdtemp(folder) == nullptr) std::abort();
    folder_ = folder;
    path_ = folder_ + "/s";
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path_.data(), path_.size());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(listener_, 8) != 0) std::abort();
    std::atexit([] {
      ::unlink(instance().path_.c_str());
      ::rmdir(instance().folder_.c_str());
    });
    std::thread{[this] { serve(); }}.detach();
  }

  static Peer& instance() {
    static auto* const peer = new Peer;
    return *peer;
  }

  Address address() const { return {.path = path_}; }
  void answer_with(std::string_view bytes) {
    std::lock_guard const guard{mutex_};
    bytes_ = "+OK\r\n";
    bytes_ += bytes;
  }

 private:
  void serve() {
    for (;;) {
      int const socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) std::abort();
      std::string bytes;
      {
        std::lock_guard const guard{mutex_};
        bytes = bytes_;
      }
      for (std::size_t sent = 0; sent < bytes.size();) {
        auto const count = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<std::size_t>(count);
      }
      ::shutdown(socket, SHUT_WR);
      char sink[512];
      while (::recv(socket, sink, sizeof sink, 0) > 0) {
      }
      ::close(socket);
    }
  }

  std::string folder_{};
  std::string path_{};
  int listener_{-1};
  std::mutex mutex_{};
  std::string bytes_{};
};

/// What the library looks at in a reply, by whatever was asked.
void look_at(ReplyView reply, Verb verb) {
  try {
    if (reply.is_error()) throw server_error(reply.text(), "peer");
    auto const answer = to_answer(verb, reply);
    if (verb == Verb::acquire && answer.yes && answer.value < 1) std::abort();
  } catch (mortise::Error const& error) {
    if (error.errc() == mortise::Errc{}) std::abort();
  }
  try {
    auto const keys = reply[2];  // as of an invalidation
    for (std::size_t i = 0; i < keys.size(); ++i) static_cast<void>(keys[i].text());
    static_cast<void>(reply[1].text());
  } catch (mortise::Error const&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto& peer = Peer::instance();
  peer.answer_with({reinterpret_cast<char const*>(data), size});
  SocketLedger ledger;
  auto const deadline = after(Clock::now(), milliseconds{5000});
  try {
    Connection connection{peer.address(), {.client_name = "fuzz"}, ledger, deadline};
    try {
      for (int i = 0;; ++i) {
        if (size % 3 == 0) {  // as whoever listens to invalidations does
          auto const message = connection.push();
          if (message) look_at(**message, Verb::keep);
          else await_descriptor(connection.descriptor(), POLLIN, deadline, nullptr);
          continue;
        }
        connection.append({"PING"});
        connection.send(deadline);
        auto const reply = connection.receive(deadline);
        look_at(**reply, static_cast<Verb>(i % 3));
      }
    } catch (mortise::Error const& error) {
      // The stream ends at the latest: then the connection is closed, and says so.
      if (error.errc() != mortise::Errc::connection_lost || !connection.closed()) std::abort();
    }
  } catch (mortise::Error const& error) {
    if (error.errc() != mortise::Errc::connect_failed) std::abort();
  }
  return 0;
}
