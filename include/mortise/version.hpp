// SPDX-License-Identifier: MIT
// The version, written once: CMake, packages and programs read it from here.
#pragma once

#define MORTISE_VERSION_MAJOR 0
#define MORTISE_VERSION_MINOR 1
#define MORTISE_VERSION_PATCH 0
