// SPDX-License-Identifier: MIT
// The scripted server: bytes, endings and slowness as told.
#include "support/catch.hpp"
#include "support/fake_server.hpp"
#include "support/raw_client.hpp"

using support::FakeReply;
using support::FakeServer;
using support::RawClient;
using Then = support::FakeReply::Then;
using namespace std::chrono_literals;

TEST_CASE("each request is answered by the script", "[fake_server]") {
  FakeServer server{[](FakeServer::Words const& words) { return FakeReply{.bytes = support::bulk(words.back())}; }};
  RawClient client{server.port()};
  RawClient other{server.port()};
  CHECK(client.command({"ECHO", "one"}).text == "one");
  CHECK(other.command({"ECHO", "two"}).text == "two");
  CHECK(server.connections_ever() == 2);
  CHECK(server.requests().size() == 2);
  CHECK(server.requests().front() == FakeServer::Words{"ECHO", "one"});
}

TEST_CASE("a reply can be cut short, by an end or by a reset", "[fake_server]") {
  auto const then = GENERATE(Then::close, Then::reset);
  FakeServer server{[then](auto const&) { return FakeReply{.bytes = "$10\r\nhalf", .then = then}; }};
  RawClient client{server.port()};
  client.send({"GET", "key"});
  CHECK_THROWS_AS(client.receive(), std::runtime_error);
}

TEST_CASE("a reply can be late and slow", "[fake_server]") {
  FakeServer server{[](auto const&) {
    return FakeReply{.bytes = support::number(42), .delay = 30ms, .trickle = 10ms};
  }};
  RawClient client{server.port()};
  auto const start = std::chrono::steady_clock::now();
  CHECK(client.command({"INCR", "n"}).integer == 42);
  CHECK(std::chrono::steady_clock::now() - start >= 70ms);
}

TEST_CASE("a server in the middle of a long silence ends at once", "[fake_server]") {
  auto const start = std::chrono::steady_clock::now();
  {
    FakeServer server{[](auto const&) { return FakeReply{.bytes = support::simple("OK"), .delay = 1h}; }};
    RawClient client{server.port()};
    client.send({"PING"});
    CHECK_FALSE(client.receive_within(20ms));
  }
  CHECK(std::chrono::steady_clock::now() - start < 30s);
}
