// SPDX-License-Identifier: MIT
// Replies of the wrong type or shape, impossible lengths, streams that end too early: a defined error, no crash, no flood.
#include "setting.hpp"
#include "support/catch.hpp"
#include "support/processes.hpp"
#include "support/resources.hpp"

using namespace faults;
using mortise::Client;
using mortise::Errc;
using mortise::Error;
using mortise::Lock;
using support::FakeReply;
using support::FakeServer;

namespace {

using Then = FakeReply::Then;

/// Logs everybody in and answers everything else with `reply`.
FakeServer::Script script_of(FakeReply reply) {
  return [reply = std::move(reply)](FakeServer::Words const& words) -> FakeReply {
    if (words.at(0) == "CLIENT") return {.bytes = "+OK\r\n"};
    return reply;
  };
}

}  // namespace

TEST_CASE("a reply that makes no sense is an error, and memory stays small") {
  auto const nonsense = GENERATE(values<std::string>({
      "",
      ":1\r\n",
      "+OK\r\n",
      "$-1\r\n",
      "*-1\r\n",
      "*0\r\n",
      "*1\r\n:1\r\n",
      "*2\r\n:1\r\n:1\r\n",
      "*3\r\n$1\r\n1\r\n:1\r\n:1\r\n",
      "*3\r\n:1\r\n$-1\r\n:1\r\n",
      "*3\r\n:1\r\n*0\r\n:1\r\n",
      "*3\r\n:1\r\n:-5\r\n:1\r\n",
      "*3\r\n:1\r\n:9223372036854775807\r\n:1700000000000000\r\n",
      "*3\r\n:1\r\n:0\r\n:1700000000000000\r\n",
      "*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n",
      "$999999999999999999999\r\n",
      "$9223372036854775807\r\n",
      "$2147483647\r\nx",
      "*9223372036854775807\r\n",
      "*4294967295\r\n",
      "*-9223372036854775808\r\n",
      "$-2\r\nx",
      ":not a number\r\n",
      "@nonsense\r\n",
      std::string("\0\0\0\0\r\n", 6),
      "-\r\n",
      "- \r\n",
      "-ERR\r\n",
      "-NOSCRIPT\r\n",
      "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
      "_\r\n",
      "*3\r\n:1\r\n:1",
  }));
  auto const then = GENERATE(Then::go_on, Then::close);
  CAPTURE(nonsense, then == Then::close);
  auto const before = support::resident_kib();
  FakeServer server{script_of({.bytes = nonsense, .then = then})};
  Client redis{server.uri(), {.command_timeout = 150ms}};
  Lock lock{redis, "name", {.ttl = 1s}};
  mortise::nanoseconds took{};
  auto const error = error_of([&] { took = time_of([&] { static_cast<void>(lock.try_acquire()); }); });
  CHECK(error);
  CHECK(took < 1500ms);
  CHECK(support::resident_kib() - before < 50'000);
}

TEST_CASE("an array of two hundred million elements is refused at once") {
  auto const before = support::resident_kib();
  FakeServer server{script_of({.bytes = "*200000000\r\n:1\r\n", .then = Then::close})};
  Client redis{server.uri(), {.command_timeout = 300ms}};
  Lock lock{redis, "name"};
  auto const took = time_of([&] { CHECK(error_of([&] { static_cast<void>(lock.try_acquire()); })); });
  CHECK(took < 3s);
  CHECK(support::resident_kib() - before < 50'000);
}

TEST_CASE("a reply that never ends does not fill the memory") {
  std::string endless = "*1000000\r\n";
  for (int i = 0; i < 900'000; ++i) endless += "$0\r\n\r\n";
  bool const array = GENERATE(true, false);
  auto const bytes = array ? endless : "$100000000\r\n" + std::string(20'000'000, 'x');
  // In a process of its own, for the server of this one copies what it sends; and forked while there is one thread.
  support::ChildProcess client{[](support::Channel& parent) {
    Client redis{parent.read_line(30s).value(), {.command_timeout = 1s}};
    Lock lock{redis, "name"};
    auto const before = support::resident_kib();
    if (!error_of([&] { static_cast<void>(lock.try_acquire()); })) return 1;
    return support::resident_kib() - before < 20'000 ? 0 : 2;
  }};
  FakeServer server{script_of({.bytes = bytes})};
  client.send_line(server.uri());
  CHECK(client.wait() == support::ExitStatus::exited(0));
}

TEST_CASE("times and fences beyond all reason do no harm to a waiter") {
  auto const busy = GENERATE(values<std::string>({
      "*3\r\n:0\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
      "*3\r\n:0\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n",
      "*3\r\n:0\r\n:1000\r\n:9223372036854775807\r\n",
      "*3\r\n:0\r\n:1000\r\n:-1\r\n",
  }));
  auto const granted = GENERATE(values<std::string>({
      "*3\r\n:1\r\n:7\r\n:9223372036854775807\r\n",
      "*3\r\n:1\r\n:7\r\n:-9223372036854775808\r\n",
      "*3\r\n:1\r\n:7\r\n:1\r\n",
  }));
  CAPTURE(busy, granted);
  FakeServer server{[&](FakeServer::Words const& words) -> FakeReply {
    switch (asks(words)) {
      case Asks::acquire: return {.bytes = busy};
      case Asks::pop: return {.bytes = "*2\r\n$1\r\nw\r\n$1\r\n7\r\n"};
      case Asks::claim: return {.bytes = granted};
      case Asks::keep: return {.bytes = ":1\r\n"};
      case Asks::nudge: return {.bytes = "*2\r\n:0\r\n:9223372036854775807\r\n"};
      case Asks::release: return {.bytes = "*2\r\n:1\r\n:-2\r\n"};
      case Asks::other: break;
    }
    return {.bytes = "+OK\r\n"};
  }};
  Client redis{server.uri(), {.command_timeout = 300ms}};
  Lock lock{redis, "name", {.ttl = 1s}};
  try {
    if (auto const lease = lock.acquire_for(200ms)) CHECK(lease->remaining() <= 1s);
  } catch (Error const& error) {
    CHECK(error.in_doubt());  // nobody can know what such a server did
  }
}
