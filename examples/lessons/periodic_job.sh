#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One periodic job on one of many machines: three crontabs fire at the same ticks, `mortise run` lets one of them in, and a
# record tells who comes late that the tick is done. Each tick runs once.
# Needs: redis mortise
# Guards: lock record
#
# --without lock     every machine runs the job as it fires.
# --without record   the machine whose clock is late finds the lock free again, and runs the job a second time.
set -euo pipefail
without=
if [ $# -gt 0 ]; then
  [ $# -eq 2 ] && [ "$1" = --without ] && [[ $2 == lock || $2 == record ]] || { echo "usage: $0 [--without lock|record]" >&2; exit 64; }
  without=$2
fi
: "${LESSON_FOLDER:?run it by examples/lessons/run.sh}" "${MORTISE_REDIS:?run it by examples/lessons/run.sh}"
export LESSON_FOLDER without
ticks=4

start=$((${EPOCHREALTIME/[.,]/} / 1000))
export start
say() { printf '%6d ms  %-6s  %s\n' $((${EPOCHREALTIME/[.,]/} / 1000 - start)) "$1" "$2"; }
export -f say

# Each tick has a lock of its own, so that a slow run of one does not cost the next. The job looks for the
# record of its tick first: the lock alone says that nobody runs it now, not that nobody has. It ends with the record, so that a machine that dies half way leaves the tick to another.
job() {  # MACHINE TICK
  if [ "$without" != record ] && grep -qx "done $2" "$LESSON_FOLDER/record" 2>/dev/null; then
    say "$1" "tick $2: has the lock, and finds the tick recorded: nothing to do"
    return
  fi
  say "$1" "tick $2: runs the job${MORTISE_FENCE:+ with fence $MORTISE_FENCE}"
  echo "$2 $1" >>"$LESSON_FOLDER/runs"
  sleep 0.15
  echo "done $2" >>"$LESSON_FOLDER/record"
}
export -f job

await() {  # FILE…: all of them are there
  local file i
  for file; do
    for ((i = 0; i < 2000; ++i)); do
      [ ! -e "$LESSON_FOLDER/$file" ] || continue 2
      sleep 0.01
    done
    echo "waited in vain for $file"
    return 1
  done
}

fire() {  # MACHINE TICK
  local code=0
  if [ "$without" = lock ]; then
    job "$1" "$2"
  else
    mortise run "lock:nightly:$2" --redis "$MORTISE_REDIS" --ttl 5s -- bash -c 'job "$@"' job "$1" "$2" 2>/dev/null || code=$?
    case $code in
      0) ;;
      75) say "$1" "tick $2: busy (exit code 75), skips its turn"; return ;;
      *) say "$1" "tick $2: mortise run ended with $code"; return 1 ;;
    esac
  fi
  : >"$LESSON_FOLDER/over.$2"
}

# Two whose clocks agree fire together; the third one's is late, and it fires when the tick is over.
punctual() {  # NAME
  local tick
  for ((tick = 1; tick <= ticks; ++tick)); do
    : >"$LESSON_FOLDER/$1.$tick"
    await M1.$tick M2.$tick
    fire "$1" $tick
  done
}
late() {  # NAME
  local tick
  for ((tick = 1; tick <= ticks; ++tick)); do
    await over.$tick
    fire "$1" $tick
  done
}

punctual M1 & machines=($!)
punctual M2 & machines+=($!)
late M3 & machines+=($!)
for each in "${machines[@]}"; do wait "$each"; done

for ((tick = 1; tick <= ticks; ++tick)); do
  count=$(grep -c "^$tick " "$LESSON_FOLDER/runs" || true)
  if [ "$count" -ne 1 ]; then
    echo "not proved: tick $tick ran $count times"
    exit 1
  fi
done
echo "proved: of $ticks ticks that three machines fired, one of them late, each ran once: the lock kept out who came at the same time, the record who came later"
