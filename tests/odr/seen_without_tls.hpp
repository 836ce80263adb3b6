// SPDX-License-Identifier: MIT
// What a file that does not include <mortise/tls.hpp> sees and does.
#pragma once

#include <cstddef>

#include <mortise/options.hpp>

std::size_t client_size();
std::size_t options_size();
/// Whether a Client of a rediss:// URI can be made with these options.
bool makes_client(mortise::ClientOptions const& options);
