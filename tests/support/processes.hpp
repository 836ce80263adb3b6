// SPDX-License-Identifier: MIT
// All that a test with several processes needs, in one include.
#pragma once

#include "support/child_process.hpp"
#include "support/shared_memory.hpp"
#include "support/wait_until.hpp"
