#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Feeds each target of this folder with bytes nobody thought of, under AddressSanitizer and UndefinedBehaviorSanitizer.
# Needs clang with libFuzzer; without it, says so and is content.
#
#   tests/fuzz/run.sh [SECONDS]     for each target (default 30)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-30}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compile=(clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Iinclude)

printf 'extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }\n' >"$scratch/trial.cpp"
if ! "${compile[@]}" "$scratch/trial.cpp" -o "$scratch/trial" >/dev/null 2>&1; then
  echo "skipped: fuzzing: no clang++ with libFuzzer here"
  exit 0
fi
read -ra libraries < <(pkg-config --cflags --libs hiredis)
for source in tests/fuzz/*_fuzz.cpp; do
  target=$(basename "$source" _fuzz.cpp)
  echo "== fuzzing $target for $seconds s"
  "${compile[@]}" "$source" "${libraries[@]}" -lpthread -o "$scratch/$target"
  mkdir "$scratch/$target.new"
  if ! "$scratch/$target" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=1024 -artifact_prefix="$scratch/" \
    -print_final_stats=1 "$scratch/$target.new" "tests/fuzz/corpus/$target" >"$scratch/log" 2>&1; then
    cat "$scratch/log"
    for found in "$scratch"/crash-* "$scratch"/timeout-* "$scratch"/oom-* "$scratch"/leak-*; do
      if [[ -e $found ]]; then echo "the input, in base64: $(base64 -w0 "$found")"; fi
    done
    exit 1
  fi
  grep -E 'number_of_executed_units|cov:' "$scratch/log" | tail -n 2
done
