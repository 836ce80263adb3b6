// SPDX-License-Identifier: MIT
// What a lease will need of keeper and herald, reserved before anything is sent.
#pragma once

#include <mortise/herald.hpp>
#include <mortise/keeper.hpp>

namespace mortise::inline v1::detail {

/// Room that was promised by keeper and herald, given back unless it is used.
class PromisedRoom {
 public:
  PromisedRoom(Keeper& keeper, Herald& herald) : keeper_{keeper}, herald_{herald} {
    herald_.promise();
    try {
      keeper_.promise();
    } catch (...) {
      herald_.take_back_promise();
      throw;
    }
  }
  PromisedRoom(PromisedRoom const&) = delete;
  PromisedRoom& operator=(PromisedRoom const&) = delete;
  ~PromisedRoom() {
    if (!for_keeper_used) keeper_.take_back_promise();
    if (!for_herald_used) herald_.take_back_promise();
  }

  bool for_keeper_used{false};
  bool for_herald_used{false};

 private:
  Keeper& keeper_;
  Herald& herald_;
};

}  // namespace mortise::inline v1::detail
