// SPDX-License-Identifier: MIT
// Carries the precompiled header that all suites share; CMake wants a source for it.
