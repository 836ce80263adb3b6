#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures mortise against raw hiredis and against other clients, on a Redis server of its own: Markdown tables on standard
# output, a CSV file, and plots of it.
#
#   tests/bench/run.sh [--quick] [--csv FILE] [--plots FOLDER] [--program FILE]
#                      [footprint|pair|handoff|rooms|threads|renewal|quorum|others|compile]...
#
#   others            redis-py (python3-redis) and node-redlock (by npm), where they are installed or can be
#
#   --quick           only whether everything can be measured; the figures mean nothing
#   --csv FILE        default: build/bench/bench.csv, written anew
#   --plots FOLDER    default: beside the CSV file; needs python3
#   --program FILE    takes this mortise-bench; otherwise it is built in build/bench
#
# Figures of different runs or machines cannot be compared, but for the ratios.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { printf 'run.sh: %s\n' "$*" >&2; exit 1; }

program=
csv=build/bench/bench.csv
plots=
quick=()
wanted=()
while (($#)); do
  case $1 in
    --quick) quick=(--quick) ;;
    --csv) csv=${2:?--csv needs a file} && shift ;;
    --plots) plots=${2:?--plots needs a folder} && shift ;;
    --program) program=${2:?--program needs a file} && shift ;;
    footprint | pair | handoff | rooms | threads | renewal | quorum | others | compile) wanted+=("$1") ;;
    *) fail 'usage: see the head of this file' ;;
  esac
  shift
done
((${#wanted[@]})) || wanted=(footprint pair handoff rooms threads renewal quorum others compile)

mkdir -p "$(dirname "$csv")"
rm -f "$csv"

# --- a server of our own

folder=$(mktemp -d "${TMPDIR:-/tmp}/mortise-bench.XXXXXX")
server=
nodes=()  # the servers of a quorum, and their ports
node_ports=()
clean_up() {
  local one
  for one in $server "${nodes[@]}"; do
    kill -CONT "$one" 2>/dev/null
    kill "$one" 2>/dev/null && wait "$one" 2>/dev/null
  done
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() {
  local _
  for _ in {1..20}; do
    port=$((20000 + RANDOM % 20000))
    redis-server --bind 127.0.0.1 --port $port --unixsocket "$folder/s" --dir "$folder" --save '' --appendonly no \
      --loglevel warning --logfile "$folder/log" &
    server=$!
    for _ in {1..100}; do
      # Its socket comes last: then the port is its own as well.
      if [[ -S $folder/s ]]; then return; fi
      kill -0 $server 2>/dev/null || break
      sleep 0.05
    done
    kill $server 2>/dev/null || true
    wait $server 2>/dev/null || true
  done
  fail "no redis-server: $(cat "$folder/log")"
}

start_nodes() {  # five
  local first=$port first_server=$server
  mv "$folder/s" "$folder/first"  # the name is wanted again; who listens there goes on
  local _
  for _ in 1 2 3 4 5; do
    start_server
    nodes+=("$server")
    node_ports+=(--node "$port")
    rm -f "$folder/s"
  done
  port=$first
  server=$first_server
  mv "$folder/first" "$folder/s"
}

# --- other clients, in a folder of this run

get_others() {
  mkdir "$folder/others"
  cp tests/bench/others/* "$folder/others/"
  command -v npm >/dev/null || return 0
  (cd "$folder/others" && timeout 120 npm install --silent --no-fund --no-audit ioredis@5 redlock@5.0.0-beta.2 >/dev/null 2>&1) || true
}

# --- what a program pays for the #include

lines_of() {  # SOURCE: preprocessed, without line markers and blank lines
  "${CXX:-g++}" -std=c++20 -I include -E "$1" | grep -v '^#' | grep -c '[^[:space:]]'
}

compile_cost() {
  local own ours floor ratio missed=
  printf '#include <mortise/mortise.hpp>\n' >"$folder/ours.cpp"
  own=$("${CXX:-g++}" -std=c++20 -I include -MM "$folder/ours.cpp" | grep -o '[^ ]*\.hpp')
  # shellcheck disable=SC2086
  grep -hE '^ *# *include <' $own | grep -v '<mortise/' | sort -u >"$folder/floor.cpp"
  ours=$(lines_of "$folder/ours.cpp")
  floor=$(lines_of "$folder/floor.cpp")
  ratio=$(awk "BEGIN { printf \"%.2f\", $ours / $floor }")
  awk "BEGIN { exit !($ratio > 1.3) }" && missed=' (missed)'
  printf '\n### Compile cost\n\nTo reach: at most 1.3 × its std, system and hiredis headers.\n\n'
  printf '| | preprocessed lines |\n|---|---:|\n| its std, system and hiredis headers | %s |\n| mortise.hpp | %s / %s ×%s |\n' \
    "$floor" "$ours" "$ratio" "$missed"
  [[ -s $csv ]] || echo 'table,what,measure,value,ratio' >>"$csv"
  printf '"Compile cost","mortise.hpp","preprocessed lines",%s,%s\n' "$ours" "$ratio" >>"$csv"
}

# --- all of it

printf '%s, %s processors, load %s\n' "$(redis-server --version | cut -d ' ' -f 1-3)" "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
measured=()
for name in "${wanted[@]}"; do [[ $name == compile ]] || measured+=("$name"); done
if ((${#measured[@]})); then
  if [[ -z $program ]]; then
    cmake -S . -B build/bench -DCMAKE_BUILD_TYPE=Release -DMORTISE_TEST_SUITES=bench -DMORTISE_BUILD_EXAMPLES=OFF >&2
    cmake --build build/bench --target mortise-bench >&2
    program=$(find build/bench -name mortise-bench -type f)
  fi
  start_server
  if [[ " ${measured[*]} " == *' quorum '* ]]; then start_nodes; fi
  program=$(realpath "$program")
  csv=$(realpath -m "$csv")
  others=()
  if [[ " ${wanted[*]} " == *' others '* ]]; then
    if ((${#quick[@]})); then echo 'skipped: other clients, in a quick run'; else get_others && others=(--others "$folder/others"); fi
  fi
  (cd "$folder" && exec "$program" --port "$port" --socket "$folder/s" "${quick[@]}" "${others[@]}" "${node_ports[@]}" --csv "$csv" "${measured[@]}")
fi
if [[ " ${wanted[*]} " == *' compile '* ]]; then compile_cost; fi
if command -v python3 >/dev/null; then
  printf '\n'
  python3 tests/bench/plot.py "$csv" "${plots:-$(dirname "$csv")}"
fi
