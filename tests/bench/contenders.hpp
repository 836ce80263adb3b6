// SPDX-License-Identifier: MIT
// The two contenders that every contest has: the floor, and the library with a Client for each thread.
#pragma once

#include "contention.hpp"

namespace bench {

/// One element that goes round: no lease, no fence, nothing when its owner dies.
MakeContender passed_element(Endpoint const& endpoint, std::string const& name);

/// A Client for each thread, or one for all of them.
MakeContender own_clients(Endpoint const& endpoint, std::string const& name);
MakeContender one_client(Endpoint const& endpoint, std::string const& name);

}  // namespace bench
