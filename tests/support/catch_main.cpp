// SPDX-License-Identifier: MIT
// The main of Catch2 2.13, where it is installed as a single header only.
#define CATCH_CONFIG_MAIN
#include "support/catch.hpp"
