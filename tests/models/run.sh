#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Visits every state of the models of the protocol: the real one has to hold, each way to get it wrong has to be found, with
# the shortest way to it. Ends with 1 if anything is not as expected.
#
#   tests/models/run.sh            all of it: about a minute on two cores
#   tests/models/run.sh --quick    the small ones: seconds
#   --brief                        without the ways to the faults
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

arguments=(--trace)
quick=()
while (($#)); do
  case $1 in
    --quick) quick=(--quick) ;;
    --brief) arguments=() ;;
    *) sed -n '3,/^set -euo/ { /^set -euo/q; s/^# \{0,1\}//p; }' run.sh >&2 && exit 64 ;;
  esac
  shift
done

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
failed=false
running=()
for model in handoff quorum floor; do
  (
    "${CXX:-g++}" -std=c++20 -O2 -o "$build/$model" "${model}_model.cpp" || exit 2
    "$build/$model" "${quick[@]}" "${arguments[@]}" >"$build/$model.out"
  ) &
  running+=($!)
done
for model in handoff quorum floor; do
  wait "${running[0]}" || failed=true
  running=("${running[@]:1}")
  echo "== $model"
  if [[ -e $build/$model.out ]]; then cat "$build/$model.out"; fi
done
states=$(sed -n 's/^\(HOLDS\|BROKEN\).* \([0-9]*\) states.*/\2/p' "$build"/*.out | awk '{ all += $1 } END { print all }')
echo "== ${states:+$states states in all; }$($failed && echo 'NOT as expected' || echo 'everything as expected')"
if $failed; then exit 1; fi
