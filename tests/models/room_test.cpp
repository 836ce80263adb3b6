// SPDX-License-Identifier: MIT
// Every state of small rooms with a crash in them: exclusion, the order of arrival, and nobody who waits for ever.
#include "models/room_model.hpp"

#include "support/catch.hpp"

using models::Flaw;
using models::RoomModel;
using models::visit_all;

TEST_CASE("in every state of small rooms with crashes nobody is in who must not be, nobody is passed, nobody waits for ever") {
  struct Row {
    char const* kinds;
    std::size_t permits;
  };
  auto const row = GENERATE(Row{"rw", 0}, Row{"rrw", 0}, Row{"rww", 0}, Row{"www", 0}, Row{"rrww", 0}, Row{"rrrw", 0}, Row{"rwww", 0},
                            Row{"ppp", 1}, Row{"pppp", 2}, Row{"pppp", 3});
  auto const verdict = visit_all(RoomModel{row.kinds, row.permits, 2});
  INFO(row.kinds << ", " << row.permits << " permits: " << verdict.states << " states");
  CHECK(verdict.states > 50);
  CHECK(verdict.wrong.value_or("") == "");
}

TEST_CASE("the visit of all states finds each way to get a room wrong") {
  auto const found = [](char const* kinds, std::size_t permits, Flaw flaw) {
    return visit_all(RoomModel{kinds, permits, 1, flaw}).wrong.value_or("");
  };
  CHECK(found("rrw", 0, Flaw::newcomers_pass) == "somebody was passed");
  CHECK(found("ppp", 2, Flaw::one_permit_too_many) == "more are in than there are permits");
  CHECK(found("rww", 0, Flaw::a_lost_place_is_not_told) == "somebody waits for ever");
  CHECK(found("ww", 0, Flaw::nudge_does_not_serve) == "somebody waits for ever");
}
