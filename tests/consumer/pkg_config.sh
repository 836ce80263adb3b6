#!/bin/sh
# SPDX-License-Identifier: MIT
# pkg_config.sh PROGRAM SOURCE…: compiles files with what pkg-config says of mortise and nothing else, and runs the program.
set -eu
program=$1
shift
mkdir -p "$(dirname "$program")"
# The flags are several words.
# shellcheck disable=SC2046
"$CXX" -std=c++20 "$@" -o "$program" $("$PKG_CONFIG" --cflags --libs mortise)
"$program"

if "$PKG_CONFIG" --exists openssl; then
  # shellcheck disable=SC2046
  "$CXX" -std=c++20 -DWITH_TLS "$@" -o "$program-tls" $("$PKG_CONFIG" --cflags --libs mortise-tls)
  "$program-tls"
fi
