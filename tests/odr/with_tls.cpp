// SPDX-License-Identifier: MIT
// A file that knows <mortise/tls.hpp>, and options that it hands to one that does not.
#include <mortise/mortise.hpp>
#include <mortise/tls.hpp>

#include "seen_without_tls.hpp"

#include <iostream>

int main() {
  if (sizeof(mortise::Client) != client_size() || sizeof(mortise::ClientOptions) != options_size()) {
    std::cerr << "two files of one program see different classes\n";
    return 1;
  }
  if (!makes_client({.tls = mortise::tls()}) || makes_client({}) || makes_client({.tls = mortise::tls({.ca_file = "/nowhere"})})) {
    std::cerr << "the options do not carry what the other file needs\n";
    return 1;
  }
  return 0;
}
