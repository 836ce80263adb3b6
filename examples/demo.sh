#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a lock cannot promise and the fence does, with real processes: A holds the lock, is stopped for longer than its TTL,
# and writes when it wakes; B has the lock by then, and the store refuses A. First with SQLite, then with PostgreSQL if it
# is installed. Installs what is missing (Debian 12 or newer), starts a Redis of its own, and leaves nothing behind.
#
#   examples/demo.sh                  builds the two programs first
#   examples/demo.sh --programs DIR   takes fenced_sqlite (and fenced_postgres) from DIR
#
# Exit code 0 only if every step was verified.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'demo.sh: %s\n' "$*" >&2; exit 1; }

programs=
case "${1-}" in
  '') ;;
  --programs) programs=$(cd "${2:?--programs needs a folder}" && pwd) ;;
  *) fail 'usage: demo.sh [--programs DIR]' ;;
esac

# --- what must not outlive this script

base=${TMPDIR:-/tmp}
[[ $base =~ ^[A-Za-z0-9/._-]{1,60}$ ]] || base=/tmp  # sockets have short paths, and a URI knows other characters otherwise
folder=$(mktemp -d "$base/mortise-demo.XXXXXX")
declare -A running=()  # process -> the signal that ends it
launched=
policy=                # the file that keeps packages from starting services, while it is in place
policy_before=
as_root=()

launch() {  # SIGNAL LOG COMMAND…: in the background, as the leader of a group that can be ended whole; sets $launched
  if [ -n "$2" ]; then
    setsid "${@:3}" </dev/null >"$2" 2>&1 &
  else
    setsid "${@:3}" </dev/null &
  fi
  launched=$!
  running[$launched]=$1
}

end_process() {  # PID: politely first; one that is stopped, too
  local pid=$1
  kill -"${running[$pid]}" "$pid" 2>/dev/null || true
  kill -CONT "$pid" 2>/dev/null || true
  for _ in {1..100}; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL -- "-$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  unset "running[$pid]"
}

allow_services() {
  [ -n "$policy" ] || return 0
  "${as_root[@]}" rm -f "$policy"
  [ -z "$policy_before" ] || "${as_root[@]}" mv "$policy_before" "$policy"
  policy=
}

clean_up() {
  local code=$?
  trap '' INT TERM HUP
  local pid
  for pid in "${!running[@]}"; do end_process "$pid"; done
  allow_services
  rm -rf "$folder"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# --- what is needed

has_header() { echo "#include <$1>" | g++ -E -x c++ - >/dev/null 2>&1; }
find_server() { command -v redis-server || command -v valkey-server; }
find_client() { command -v redis-cli || command -v valkey-cli; }

install_missing() {
  local missing=()
  if [ -z "$programs" ]; then
    command -v g++ >/dev/null || missing+=(g++)
    has_header hiredis/hiredis.h || missing+=(libhiredis-dev)
    has_header sqlite3.h || missing+=(libsqlite3-dev)
  fi
  { find_server && find_client; } >/dev/null || missing+=(redis-server)
  [ ${#missing[@]} -gt 0 ] || return 0

  command -v apt-get >/dev/null || fail "please install: ${missing[*]} (these are Debian's names, and there is no apt-get here)"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "please install, as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  # A package that brings a service starts it, unless policy-rc.d says no (101).
  local file=/usr/sbin/policy-rc.d
  if [ -e "$file" ] || [ -L "$file" ]; then
    policy_before=$file.before-mortise-demo
    "${as_root[@]}" mv "$file" "$policy_before"
  fi
  policy=$file
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  if ! { "${as_root[@]}" "${apt[@]}" update &&
         "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$folder/apt.log" 2>&1; then
    cat "$folder/apt.log" >&2
    fail "apt-get could not install: ${missing[*]}"
  fi
  # … nor at the next boot.
  case " ${missing[*]} " in *' redis-server '*)
    "${as_root[@]}" deb-systemd-helper disable redis-server.service >/dev/null 2>&1 || true
    "${as_root[@]}" update-rc.d redis-server disable >/dev/null 2>&1 || true ;;
  esac
  allow_services
}

build() {  # PROGRAM FLAGS…
  launch TERM '' g++ -std=c++20 -O1 -Iinclude "examples/$1.cpp" -o "$folder/$1" "${@:2}" -lhiredis -pthread
}

# --- the play

declare -i start_ms
now_ms() { echo $(($(date +%s%N) / 1000000)); }
say() { printf '%6d ms  %-5s %s\n' $(($(now_ms) - start_ms)) demo "$*"; }
redis() { "$client" -s "$folder/redis.sock" "$@"; }

until_true() {  # WHAT COMMAND…: polls for up to a minute
  local what=$1 i
  for ((i = 0; i < 3000; ++i)); do
    ! "${@:2}" || return 0
    sleep 0.02
  done
  fail "waited in vain: $what"
}
verify() {  # WHAT ACTUAL EXPECTED
  [ "$2" = "$3" ] || fail "not so: $1: expected '$3', found '$2'"
}
is_past() { [ "$(now_ms)" -gt "$1" ]; }
is_stopped() { grep -q '^State:[[:space:]]*T' "/proc/$1/status"; }
answers() { [ "$(redis "${@:2}" 2>/dev/null)" = "$1" ]; }  # EXPECTED COMMAND…
await_mark() {  # MARK PID: gives up at once when the process ends without it
  local i
  for ((i = 0; i < 3000; ++i)); do
    [ ! -e "$stage/$1" ] || return 0
    kill -0 "$2" 2>/dev/null || fail "process $2 ended before its mark $1"
    sleep 0.02
  done
  fail "waited in vain for the mark $1"
}
holder() { local value; value=$(redis get "$1"); echo "${value%%#*}"; }  # the readable part of the owner token
ends_well() {  # NAME PID
  local code=0
  wait "$2" || code=$?
  unset "running[$2]"
  verify "process $1 ended with exit code" "$code" 0
}

play() {  # STORE PROGRAM WHERE
  local program=$2 where=$3 lock="lock:account:$1" a b f1 f2 stopped
  stage=$folder/$1
  mkdir "$stage"
  echo
  echo "--- $1: one row, two writers, the lock \"$lock\" with a TTL of 1500 ms"
  "$program" "$where" "$lock" "$stage" create

  launch KILL '' "$program" "$where" "$lock" "$stage" A
  a=$launched
  await_mark A.wrote "$a"
  verify 'the holder' "$(holder "$lock")" A
  f1=$(redis get "{$lock}:~fence")

  launch KILL '' "$program" "$where" "$lock" "$stage" B
  b=$launched
  until_true 'B waits at Redis' answers 1 exists "{$lock}:~wait"
  kill -STOP "$a"
  until_true 'A stops' is_stopped "$a"
  stopped=$(now_ms)
  say "stops A (SIGSTOP to process $a): as a long pause of the machine would. Nobody renews A's lease now"

  await_mark B.wrote "$b"
  until_true 'more than a TTL passes' is_past $((stopped + 1600))
  is_stopped "$a" || fail 'A must still be stopped'
  verify 'the holder' "$(holder "$lock")" B
  f2=$(redis get "{$lock}:~fence")
  [ "$f1" -lt "$f2" ] || fail "fences must rise: $f1, then $f2"
  say "lets A go on (SIGCONT), while B still has the lock"
  kill -CONT "$a"
  ends_well A "$a"
  ends_well B "$b"

  verify "what the $1 table holds" "$("$program" "$where" "$lock" "$stage" show)" \
    "row|B|201|$f2
accepted|A|100|$f1
accepted|B|200|$f2
accepted|B|201|$f2"
  # B waited a moment ago, so its release first offers the lock to whoever may wait, for half a second.
  until_true 'the lock is gone' answers 0 exists "$lock" "{$lock}:~wake"
  say "found in $1: A's first write with $f1, B's two with $f2, and not A's late one. The row says 201 by B. The lock is gone"
}
start_redis() {
  launch TERM "$folder/redis.log" \
    "$server" --port 0 --save '' --appendonly no --unixsocket "$folder/redis.sock" --dir "$folder" --daemonize no
  until_true 'Redis answers' answers PONG ping
}

# PostgreSQL: a cluster of its own on a unix socket. initdb refuses root, so root plays it as another user.
postgres_bin() {
  local found
  found=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  [ -x "$found/initdb" ] && [ -x "$found/postgres" ] && echo "$found"
}
postgres_include() { pg_config --includedir 2>/dev/null || echo /usr/include/postgresql; }

start_postgres() {  # BIN
  local data=$folder/pg as=() user
  mkdir "$data"
  if [ "$(id -u)" -eq 0 ]; then
    user=nobody
    ! id -u postgres >/dev/null 2>&1 || user=postgres
    as=(setpriv "--reuid=$(id -u "$user")" "--regid=$(id -g "$user")" --clear-groups)
    chmod 711 "$folder"
    chown "$user" "$data"
  fi
  (cd "$data" && LC_ALL=C "${as[@]}" "$1/initdb" -D "$data/cluster" -U demo -A trust --no-sync) >"$folder/initdb.log" 2>&1 ||
    { cat "$folder/initdb.log" >&2; fail 'initdb failed'; }
  launch INT "$folder/postgres.log" \
    env -C "$data" "${as[@]}" "$1/postgres" -D "$data/cluster" -k "$data" -c listen_addresses= -c fsync=off
  until_true 'PostgreSQL answers' "$1/pg_isready" -q -h "$data" -U demo -d postgres
}

# --- from here on it runs

install_missing
server=$(find_server)
client=$(find_client)
start_ms=$(now_ms)

postgres=$(postgres_bin || true)
skipped=
if [ -n "$programs" ]; then
  [ -x "$programs/fenced_postgres" ] || skipped="its program is not built in $programs"
elif ! has_header "$(postgres_include)/libpq-fe.h"; then
  skipped='libpq is not installed (package libpq-dev)'
fi
[ -n "$postgres" ] || skipped='PostgreSQL is not installed (package postgresql)'

if [ -z "$programs" ]; then
  echo 'building the writers …'
  build fenced_sqlite -lsqlite3
  builds=("$launched")
  [ -n "$skipped" ] || { build fenced_postgres "-I$(postgres_include)" -lpq; builds+=("$launched"); }
  for each in "${builds[@]}"; do ends_well 'g++' "$each"; done
  programs=$folder
fi

export MORTISE_REDIS="unix://$folder/redis.sock"
start_redis
start_ms=$(now_ms)
export DEMO_START_MS=$start_ms

play SQLite "$programs/fenced_sqlite" "$folder/account.db"
if [ -n "$skipped" ]; then
  printf '\n--- PostgreSQL: skipped: %s\n' "$skipped"
else
  start_postgres "$postgres"
  play PostgreSQL "$programs/fenced_postgres" "host=$folder/pg user=demo dbname=postgres"
fi

echo
stores=SQLite
[ -n "$skipped" ] || stores="SQLite, PostgreSQL"
echo "proved ($stores): a holder that slept past its lease could not overwrite its successor: the store refused its older fence."
