#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs lessons, each with stores of its own: starts what the lesson needs in a scratch folder, and leaves nothing behind.
#
#   examples/lessons/run.sh                                all of them, one after the other
#   examples/lessons/run.sh NAME [--without GUARD]         one; --without takes its guard out, to see what happens then
#   … --programs DIR    takes the programs from DIR (and mortise from DIR/..) instead of building them first
#   … --cache DIR       keeps an empty PostgreSQL cluster in DIR, which takes longer to make than to copy
#   … --must-fail       with --without: succeeds only if the lesson says that nothing was proved
#
# Exit code: 0 proved, 1 not proved, 77 skipped because something is not installed (which, is printed), else it failed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LC_ALL=C

fail() { printf 'run.sh: %s\n' "$*" >&2; exit 2; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }

name='' without='' programs='' cache='' must_fail=false
while (($#)); do
  case $1 in
    --without) without=${2:?--without needs the name of a guard}; shift ;;
    --programs) programs=$(cd "${2:?--programs needs a folder}" && pwd); shift ;;
    --cache) mkdir -p "${2:?--cache needs a folder}" && cache=$(cd "$2" && pwd); shift ;;
    --must-fail) must_fail=true ;;
    -h | --help) sed -n '3,/^$/ { /^set /q; s/^# \{0,1\}//p; }' "$0"; exit 0 ;;
    -*) fail "unknown option $1 (see --help)" ;;
    *) [ -z "$name" ] || fail "one lesson at a time: $name or $1?"; name=$1 ;;
  esac
  shift
done

# A lesson says in its first lines what it needs.
source_of() {
  local file
  for file in "$here/$1".{cpp,sh,mjs}; do
    if [ -e "$file" ] && grep -q '^\(//\|#\) Needs: ' "$file"; then printf '%s\n' "$file"; return; fi
  done
  fail "there is no lesson named $1"
}
needs_of() { sed -n 's/^\(\/\/\|#\) Needs: //p' "$1"; }

if [ -z "$name" ]; then
  declare -i bad=0
  mapfile -t files < <(grep -l '^\(//\|#\) Needs: ' "$here"/*.{cpp,sh,mjs})
  for file in "${files[@]}"; do
    each=$(basename "${file%.*}")
    printf '\n--- %s\n' "$each"
    code=0
    "$0" "$each" ${programs:+--programs "$programs"} ${cache:+--cache "$cache"} || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || bad+=1
  done
  exit $((bad > 0))
fi
source=$(source_of "$name")
needs=" $(needs_of "$source") "
needs() { [[ $needs == *" $1 "* ]]; }

# --- what must not outlive this script

base=${TMPDIR:-/tmp}
[[ $base =~ ^[A-Za-z0-9/._-]{1,50}$ ]] || base=/tmp  # sockets have short paths
folder=$(mktemp -d "$base/mortise-lesson.XXXXXX")
declare -A servers=()  # process -> the signal that ends it
clean_up() {
  local code=$? pid
  trap '' INT TERM HUP
  for pid in "${!servers[@]}"; do kill -"${servers[$pid]}" "$pid" 2>/dev/null || true; done
  for pid in "${!servers[@]}"; do
    for _ in {1..200}; do kill -0 "$pid" 2>/dev/null || break; sleep 0.02; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$folder"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

launch() {  # SIGNAL LOG COMMAND…
  # A server whose script was killed ends with it.
  setpriv --pdeathsig KILL "${@:3}" </dev/null >"$2" 2>&1 &
  servers[$!]=$1
  server=$!
}
until_it_answers() {  # WHAT LOG COMMAND…
  local i
  for ((i = 0; i < 1000; ++i)); do
    ! "${@:3}" >/dev/null 2>&1 || return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.02
  done
  tail -n 5 "$2" >&2
  fail "$1 does not start"
}

# Two of the servers refuse to be root: root runs them as nobody.
as=()
if ((EUID == 0)); then
  as=("--reuid=$(id -u nobody)" "--regid=$(id -g nobody)" --clear-groups)
  chmod 711 "$folder"
fi
folder_for() {
  mkdir "$folder/$1"
  [ ${#as[@]} -eq 0 ] || chown nobody "$folder/$1"
}

launch_redis() {  # NAME
  local binary client
  binary=$(command -v redis-server || command -v valkey-server) || skip 'no Redis server is installed (package redis-server)'
  client=$(command -v redis-cli || command -v valkey-cli) || skip 'redis-cli is not installed (package redis-tools)'
  launch TERM "$folder/$1.log" \
    "$binary" --port 0 --save '' --appendonly no --unixsocket "$folder/$1.sock" --dir "$folder" --daemonize no
  until_it_answers Redis "$folder/$1.log" "$client" -s "$folder/$1.sock" ping
}
start_redis() {
  launch_redis redis
  export MORTISE_REDIS="unix://$folder/redis.sock"
}
start_nodes() {  # of a quorum
  local each
  LESSON_NODES=
  for each in node0 node1 node2 node3 node4; do
    launch_redis "$each"
    LESSON_NODES+="${LESSON_NODES:+ }unix://$folder/$each.sock"
  done
  export LESSON_NODES
}

start_postgresql() {
  local bin data=$folder/pg
  bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  [ -x "$bin/initdb" ] || bin=$(dirname "$(command -v initdb || true)")
  [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && [ -x "$bin/pg_isready" ] ||
    skip 'no PostgreSQL server is installed (package postgresql)'
  folder_for pg
  local made
  made=$cache/$("$bin/postgres" --version | tr -c 'A-Za-z0-9.\n' '_')-$EUID
  if [ -n "$cache" ] && [ -d "$made" ]; then
    cp -a "$made" "$data/cluster"
  else
    (cd "$data" && setpriv "${as[@]}" "$bin/initdb" -D "$data/cluster" -U lesson -A trust --no-sync) >"$folder/initdb.log" 2>&1 ||
      { cat "$folder/initdb.log" >&2; fail 'initdb failed'; }
    # Another lesson may be at it just now: the whole folder comes into its place at once, or not at all.
    if [ -n "$cache" ]; then
      cp -a "$data/cluster" "$made.$$"
      mv -nT "$made.$$" "$made" 2>/dev/null || true
      rm -rf "$made.$$"
    fi
  fi
  launch INT "$folder/postgres.log" env -C "$data" \
    setpriv "${as[@]}" --pdeathsig KILL "$bin/postgres" -D "$data/cluster" -k "$data" -c listen_addresses= -c fsync=off
  until_it_answers PostgreSQL "$folder/postgres.log" "$bin/pg_isready" -q -h "$data" -U lesson -d postgres
  export LESSON_POSTGRES="host=$data user=lesson dbname=postgres connect_timeout=10"
}

start_mariadb() {
  local binary data=$folder/db
  binary=$(PATH=$PATH:/usr/sbin command -v mariadbd || PATH=$PATH:/usr/sbin command -v mysqld) ||
    skip 'no MariaDB server is installed (package mariadb-server-core)'
  folder_for db
  # Without accounts it needs no tables of its own: an empty folder will do.
  launch TERM "$folder/mariadb.log" setpriv "${as[@]}" --pdeathsig KILL "$binary" --no-defaults --datadir="$data" \
    --skip-grant-tables --skip-networking --socket="$data/sock" --pid-file="$data/pid" \
    --innodb-buffer-pool-size=16M --innodb-log-file-size=8M --innodb-flush-log-at-trx-commit=0
  until_it_answers MariaDB "$folder/mariadb.log" grep -q 'ready for connections' "$folder/mariadb.log"
  export LESSON_MARIADB="$data/sock"
}

start_dynalite() {
  local at=${MORTISE_NODE_MODULES:-$here/../../build/node/node_modules}
  command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0] >= 20')" = true ] ||
    skip 'node 20 or newer is not installed (package nodejs)'
  [ -e "$at/dynalite/cli.js" ] || skip "dynalite is not installed: npm install --prefix build/node dynalite@4.0.0"
  local port
  # Port 0 would be told by dynalite as 4567.
  port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
  launch TERM "$folder/dynalite.log" node "$at/dynalite/cli.js" --host 127.0.0.1 --port "$port" --createTableMs 0
  until_it_answers dynalite "$folder/dynalite.log" grep -q listening "$folder/dynalite.log"
  export LESSON_DYNAMODB="http://127.0.0.1:$port"
}

# --- from here on it runs

flags=(-std=c++20 -O1 "-I$here/../../include")
libraries=(-lhiredis -pthread)
header() {  # NAME PACKAGE
  echo "#include <$1>" | g++ "${flags[@]}" -E -x c++ - >/dev/null 2>&1 || skip "$1 is not there (package $2)"
}
build() {
  command -v g++ >/dev/null || skip 'no compiler is installed (package g++)'
  if needs postgresql; then
    flags+=("-I$(pg_config --includedir 2>/dev/null || echo /usr/include/postgresql)")
    libraries+=(-lpq)
    header libpq-fe.h libpq-dev
  fi
  if needs mariadb; then
    flags+=(-I/usr/include/mariadb)
    libraries+=(-lmariadb)
    header mysql.h libmariadb-dev
  fi
  if needs sqlite; then libraries+=(-lsqlite3); header sqlite3.h libsqlite3-dev; fi
  g++ "${flags[@]}" "$1" -o "$2" "${libraries[@]}"
}

for store in redis nodes postgresql mariadb dynalite; do
  if needs "$store"; then "start_$store"; fi
done
mkdir "$folder/scratch"
export LESSON_FOLDER=$folder/scratch

case $source in
  *.cpp)
    command=("$programs/$name")
    if [ -z "$programs" ]; then
      build "$source" "$folder/$name"
      command=("$folder/$name")
    fi ;;
  *.sh) command=(bash "$source") ;;
  *.mjs) command=(node "$source") ;;
esac

if needs mortise; then
  mkdir "$folder/bin"
  if [ -z "$programs" ]; then
    build "$here/../mortise.cpp" "$folder/bin/mortise"
  else
    [ -x "$programs/../mortise" ] || fail "there is no program mortise in $programs/.."
    ln -s "$programs/../mortise" "$folder/bin/mortise"
  fi
  export PATH=$folder/bin:$PATH
fi

code=0
timeout --foreground 100 "${command[@]}" ${without:+--without "$without"} 2>&1 </dev/null | tee "$folder/out" || code=$?
if $must_fail && [ "$code" -ne 77 ]; then
  [ "$code" -eq 1 ] && tail -n 1 "$folder/out" | grep -q '^not proved: ' ||
    fail "without its guard '$without' the lesson must end as not proved; it ended with exit code $code"
  echo 'as it must be: without its guard the lesson proves nothing'
  code=0
fi
exit "$code"
