#!/bin/sh
# SPDX-License-Identifier: MIT
# deb.sh BUILD FOLDER VERSION SOURCE…: packs the .deb files of a build tree, looks at what they say, unpacks them, runs the
# command, and compiles the sources against the unpacked headers.
set -eu
build=$1 folder=$2 version=$3
shift 3
for tool in cpack dpkg-deb dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed (packages cmake, dpkg, dpkg-dev, file)"; exit 77; }
done
rm -rf "$folder"
mkdir -p "$folder/root"
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder"

library=$(ls "$folder"/libmortise-dev_*_all.deb)
command=$(ls "$folder"/mortise_*.deb)
says() {  # PACKAGE FIELD TEXT
  dpkg-deb -f "$1" "$2" | grep -q -- "$3" || { echo "$1: $2 is '$(dpkg-deb -f "$1" "$2")' and lacks '$3'"; exit 1; }
}
says "$library" Version "^$version"
says "$library" Depends libhiredis-dev
says "$command" Version "^$version"
says "$command" Architecture "^$(dpkg --print-architecture)\$"
says "$command" Depends libhiredis
says "$command" Depends libstdc++6

for package in "$library" "$command"; do dpkg-deb -x "$package" "$folder/root"; done
"$folder/root/usr/bin/mortise" --version | grep -qx "mortise $version"
PKG_CONFIG_PATH=$folder/root/usr/share/pkgconfig:${PKG_CONFIG_PATH-} sh "$(dirname "$0")/pkg_config.sh" "$folder/consumer" "$@"
