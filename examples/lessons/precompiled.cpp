// SPDX-License-Identifier: MIT
// Empty: what the lessons include is parsed once for all of them.
