#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and tests mortise from nothing: on Debian 12 or newer it installs what is missing, elsewhere it takes what is there.
#
#   tests/run.sh              the legs default, asan, tsan
#   tests/run.sh --quick      the leg default alone
#   tests/run.sh --leg NAME   one leg alone: default, valkey, asan, tsan or debian13
#   tests/run.sh --matrix     also the leg debian13: the legs default and valkey in a fresh Debian 13 below a scratch folder.
#                             Needs root; where MORTISE_TRIXIE_ROOT names a folder, the Debian is made there and kept.
# The leg valkey is what the leg default has built, those suites that talk to a server, with Valkey in the place of Redis.
#   --suites LIST             builds and runs only these directories below tests/, such as "support;unit;contract"
#   --jobs N         how many compilers at a time, and half as many more tests (default: the number of processors)
#
# What a leg leaves out: see the test presets in CMakePresets.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build pkg-config libhiredis-dev catch2 redis-server libsqlite3-dev libpq-dev
  postgresql libmariadb-dev mariadb-server-core dpkg-dev file libssl-dev openssl doxygen)

usage() {
  sed -n '3,/^$/ { /^set -euo/q; s/^# \{0,1\}//p; }' tests/run.sh
}

legs=(default asan tsan)
matrix=false
list=  # of suites, and the same for CMake
suites=()
jobs=$(nproc)
while (($#)); do
  case $1 in
    --quick) legs=(default) ;;
    --leg) legs=("${2:?--leg needs a name}") && shift ;;
    --suites) list=${2:?--suites needs a list} suites=("-DMORTISE_TEST_SUITES=$2")
      # The lessons are played by the suite examples: without it nobody would run them.
      [[ ";$2;" == *';examples;'* ]] || suites+=(-DMORTISE_BUILD_LESSONS=OFF)
      # And these call the command mortise.
      [[ ";$2;" =~ ";"(examples|integration|topology|consumer)";" ]] || suites+=(-DMORTISE_BUILD_EXAMPLES=OFF)
      shift ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift ;;
    --matrix) matrix=true ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 64 ;;
  esac
  shift
done
if $matrix && [[ " ${legs[*]} " != *" debian13 "* ]]; then legs+=(debian13); fi

cleanups=()
clean_up() {
  local index
  for ((index = ${#cleanups[@]} - 1; index >= 0; index--)); do eval "${cleanups[index]}"; done
  cleanups=()
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

as_root() {
  if ((EUID)); then sudo "$@"; else "$@"; fi
}

installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# install PACKAGE...: those of them that are missing. A server among them is neither started now nor at the next boot: the
# tests start their own.
install() {
  local package missing=() guard=/usr/sbin/policy-rc.d aside=
  command -v dpkg-query apt-get >/dev/null || return 0
  for package; do installed "$package" || missing+=("$package"); done
  ((${#missing[@]})) || return 0
  if ((EUID)) && ! command -v sudo >/dev/null; then
    echo "Please install, as root: ${missing[*]}" >&2
    return 1
  fi

  echo "== installing ${missing[*]}"
  if [[ -e $guard ]]; then
    aside=$guard.mortise-$$
    as_root mv "$guard" "$aside"
    cleanups+=("as_root mv '$aside' '$guard'")
  else
    cleanups+=("as_root rm -f '$guard'")
  fi
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$guard" >/dev/null
  as_root chmod 755 "$guard"

  as_root apt-get -q -o DPkg::Lock::Timeout=300 update || echo "apt-get update failed; going on with the lists there are" >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    install --no-install-recommends "${missing[@]}" || return 1
  for package in redis-server valkey-server postgresql; do
    if [[ " ${missing[*]} " == *" $package "* ]]; then as_root update-rc.d "$package" disable >/dev/null || true; fi
  done
  clean_up
}

# An emulator of DynamoDB for one of the lessons, where npm and a node that is new enough are there; without it that lesson is skipped.
fetch_dynalite() {
  local folder=$PWD/build/node
  export MORTISE_NODE_MODULES=${MORTISE_NODE_MODULES:-$folder/node_modules}
  if [[ -e $MORTISE_NODE_MODULES/dynalite ]] || ! command -v npm >/dev/null || ! command -v node >/dev/null; then return 0; fi
  mkdir -p "$folder"
  timeout 120 npm install --prefix "$folder" --silent --no-fund --no-audit --ignore-scripts dynalite@4.0.0 >/dev/null 2>&1 ||
    echo "npm has no dynalite for us; going on without" >&2
}

# build_and_test PRESET ARGUMENT...: with these arguments for ctest too.
build_and_test() {
  local preset=$1 run=()
  shift
  # ThreadSanitizer of older compilers does not know the address layout of newer kernels.
  if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then run=(setarch -R); fi
  cmake --preset "$preset" "${suites[@]}" &&
    "${run[@]}" cmake --build --preset "$preset" --parallel "$jobs" &&
    "${run[@]}" ctest --preset "$preset" --parallel $((jobs + jobs / 2)) "$@"  # most of a test's time is waiting
}

valkey() {
  if ! command -v valkey-server >/dev/null; then
    [[ $(apt-cache policy valkey-server 2>/dev/null) == *Candidate:\ [0-9]* ]] || { skip "this system has no package valkey-server" && return; }
    install valkey-server || { skip "valkey-server cannot be installed" && return; }
  fi
  MORTISE_TEST_SERVER=valkey-server build_and_test default -L '^(contract|integration|topology|faults)$'
}

# With AddressSanitizer, and then a minute of bytes nobody thought of.
sanitized() {
  build_and_test asan && tests/fuzz/run.sh 30
}

skip() {
  echo "skipped: leg $leg: $*"
  skipped=true
}

# The base of a Debian 13 in the folder $1, from where this machine takes its own packages.
bootstrap() {
  local root=$1 log=$2 mirror proxy
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n '/^Debian Debian http/ { s/^Debian Debian //p; q; }') || true
  proxy=$(apt-config dump Acquire::http::Proxy 2>/dev/null | sed -n 's/.*"\(http.*\)".*/\1/p') || true
  if [[ $proxy && $proxy != DIRECT ]]; then export http_proxy=${http_proxy:-$proxy}; fi
  # In a mount namespace of its own: what debootstrap mounts is gone with it, however it ends.
  unshare --mount debootstrap --variant=minbase trixie "$root" ${mirror:+"$mirror"} >"$log" 2>&1
}

debian13() {
  local root=${MORTISE_TRIXIE_ROOT:-} scratch log
  if ((EUID)); then skip "needs root" && return; fi
  install debootstrap || { skip "debootstrap cannot be installed" && return; }
  command -v debootstrap >/dev/null || { skip "no debootstrap" && return; }
  unshare --mount --pid --fork true 2>/dev/null || { skip "this root may not mount" && return; }

  scratch=$(mktemp -d)
  cleanups+=("rm -rf --one-file-system '$scratch'")
  log=$scratch/debootstrap.log
  root=${root:-$scratch/root}
  if [[ ! -x $root/usr/bin/apt-get ]]; then
    echo "== making a Debian 13"
    mkdir -p "$root"
    bootstrap "$root" "$log" || { skip "debootstrap: $(tail -n 1 "$log")" && clean_up && return; }
  fi

  # The working tree as git sees it, or all of it where git does not know it.
  rm -rf --one-file-system "$root/mortise"
  mkdir -p "$root/mortise"
  if git -c safe.directory='*' ls-files -z --cached --others --exclude-standard >"$scratch/files" 2>/dev/null; then
    while IFS= read -r -d '' file; do
      if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
    done <"$scratch/files" | tar -c --null -T - | tar -x -C "$root/mortise"
  else
    tar -c --exclude=./build . | tar -x -C "$root/mortise"
  fi
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date) ' >"$root/etc/apt/apt.conf.d/90host" || true

  # Namespaces of its own: no mount and no process outlives the leg, and none is seen by the rest of the machine.
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
      bash -euc "/mortise/tests/run.sh --leg default \"\$@\"; /mortise/tests/run.sh --leg valkey \"\$@\"" bash --jobs "$2" ${3:+--suites "$3"}' \
    bash "$root" "$jobs" "$list"
  local result=$?
  clean_up
  return $result
}

if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}
fi

install "${packages[@]}"
fetch_dynalite

summary=()
failed=false
for leg in "${legs[@]}"; do
  echo
  echo "== leg $leg"
  started=$SECONDS
  skipped=false
  case $leg in
    debian13) command=(debian13) ;;
    valkey) command=(valkey) ;;
    asan) command=(sanitized) ;;
    *) command=(build_and_test "$leg") ;;
  esac
  if ! "${command[@]}"; then
    failed=true
    result=FAILED
  elif $skipped; then
    result=skipped
  else
    result=passed
  fi
  summary+=("$(printf '%-9s %s, %d s' "$leg" "$result" $((SECONDS - started)))")
done

echo
printf '%s\n' "${summary[@]}"
if $failed; then exit 1; fi
