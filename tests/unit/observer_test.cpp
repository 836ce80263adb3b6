// SPDX-License-Identifier: MIT
// Events: every kind has a name.
#include <set>
#include <string>

#include <mortise/observer.hpp>

#include "support/catch.hpp"

using mortise::Event;
using mortise::to_string;

TEST_CASE("every kind of event has a name of its own, its enumerator's") {
  struct Row {
    Event::Kind kind;
    std::string name;
  };
  auto const row = GENERATE(values<Row>({
      {Event::Kind::granted, "granted"},
      {Event::Kind::busy, "busy"},
      {Event::Kind::waited, "waited"},
      {Event::Kind::handed_over, "handed_over"},
      {Event::Kind::renewed, "renewed"},
      {Event::Kind::renewal_failed, "renewal_failed"},
      {Event::Kind::lost, "lost"},
      {Event::Kind::released, "released"},
      {Event::Kind::release_failed, "release_failed"},
      {Event::Kind::reconnected, "reconnected"},
      {Event::Kind::orphan_possible, "orphan_possible"},
      {Event::Kind::dropped, "dropped"},
      {Event::Kind::no_quorum, "no_quorum"},
  }));
  CHECK(to_string(row.kind) == row.name);
}

TEST_CASE("no kind was added without a name") {
  std::set<std::string_view> names;
  int kinds = 0;
  for (; to_string(static_cast<Event::Kind>(kinds)) != "unknown"; ++kinds) names.insert(to_string(static_cast<Event::Kind>(kinds)));
  CHECK(kinds == static_cast<int>(Event::Kind::no_quorum) + 1);
  CHECK(names.size() == static_cast<std::size_t>(kinds));
}

TEST_CASE("an event starts out with nothing in it") {
  Event const event;
  CHECK(event.name.empty());
  CHECK(event.fence == mortise::Fence{});
  CHECK(event.duration == mortise::nanoseconds::zero());
  CHECK(event.endpoint.empty());
  CHECK(event.reason.empty());
}
