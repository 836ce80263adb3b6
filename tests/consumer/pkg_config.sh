#!/bin/sh
# SPDX-License-Identifier: MIT
# pkg_config.sh SOURCE PROGRAM: compiles one file with what pkg-config says of mortise and nothing else, and runs it.
set -eu
mkdir -p "$(dirname "$2")"
# The flags are several words.
# shellcheck disable=SC2046
"$CXX" -std=c++20 "$1" -o "$2" $("$PKG_CONFIG" --cflags --libs mortise)
"$2"
