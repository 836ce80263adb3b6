// SPDX-License-Identifier: MIT
// From the command line to the options of a Client.
#pragma once

#include <memory>
#include <string>

#include <mortise/options.hpp>
#include <mortise/uri.hpp>
#if defined(MORTISE_COMMAND_TLS)
#include <mortise/tls.hpp>
#endif

#include "arguments.hpp"

namespace command {

/// With TLS where the URI asks for it. Throws UsageError, and what parse_uri() throws.
inline mortise::ClientOptions client_options(Arguments const& arguments) {
  mortise::ClientOptions options;
  auto const& files = arguments.tls;
  bool const asked = mortise::detail::parse_uri(arguments.redis).tls;
  bool const given = files != Arguments::Tls{};
  if (!asked && given) throw UsageError{"--cacert, --cert, --key, --sni and --insecure need a URI that begins with rediss"};
#if defined(MORTISE_COMMAND_TLS)
  if (asked)
    options.tls = mortise::tls({.ca_file = files.ca_file,
                                .certificate_file = files.certificate_file,
                                .key_file = files.key_file,
                                .server_name = files.server_name,
                                .verify = files.verify});
#else
  if (asked) throw UsageError{"this mortise was built without TLS"};
#endif
  return options;
}

}  // namespace command
