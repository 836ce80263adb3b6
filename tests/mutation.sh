#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Breaks one mechanism of the library after the other and shows which test notices. A mutant that no test notices is a
# missing test; the tests themselves have to be green. Works on a copy; needs g++ (or CXX), hiredis, Catch2, perl and
# redis-server. Not part of CI: a quarter of an hour, or longer on a busy machine.
#
#   tests/mutation.sh                 all mutants
#   tests/mutation.sh --list          their names
#   tests/mutation.sh --check         whether each still has its mechanism to break, without building anything
#   tests/mutation.sh WORD...         those whose names have one of the words in them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  sed -n '3,/^set -euo/ { /^set -euo/q; s/^# \{0,1\}//p; }' tests/mutation.sh
}

names=() files=() edits=() tests=() cases=()
# mutant NAME HEADERS PERL TEST-FILE TEST-CASES: the substitution breaks the mechanism of that name.
mutant() {
  names+=("$1") files+=("$2") edits+=("$3") tests+=("tests/$4") cases+=("$5")
}

mutant "no drift allowance" detail/timing.hpp \
  's/never : end - drift_allowance\(ttl\)/never : end/' unit/timing_test.cpp '*'
mutant "a grant's clock starts after the reply" acquisition.hpp \
  's/take\(grant, answer, valid_until\(sent_, ttl\(\)\), false\)/take(grant, answer, valid_until(Clock::now(), ttl()), false)/' faults/slow_answer_test.cpp '*'
mutant "an extension's clock starts after the reply" link.hpp \
  's/(reached\.answer = to_answer\(request\.verb, \*reply\);)/$1 reached.sent = Clock::now();/' faults/slow_answer_test.cpp '*'
mutant "a renewal's clock starts after the reply" keeper_lines.hpp \
  's/(chore\.outcome = Chore::Outcome::answered;)/$1 chore.sent = Clock::now();/' faults/slow_answer_test.cpp '*'
mutant "a hand-over's clock starts when it is received" detail/timing.hpp \
  's/std::min\(sent \+ less_drift\(passed\), received\)/received/' unit/timing_test.cpp '*'
mutant "a late grant is taken" acquisition.hpp \
  's/if \(!grant\.brief\) return grant\.until > now;/if (!grant.brief) return true;/' faults/slow_answer_test.cpp '*'
mutant "a release without guard" mutex_scripts.hpp \
  's/local mine = value == owner\n/local mine = value and true\n/' contract/release_test.cpp '*'
mutant "KEEP without the owner check" mutex_scripts.hpp \
  's/if owner ~= ARGV\[1\] or last > fence/if not owner or last > fence/' contract/validity_test.cpp '*'
mutant "KEEP without the fence check" mutex_scripts.hpp \
  's/if owner ~= ARGV\[1\] or last > fence/if owner ~= ARGV[1]/' integration/fence_counter_test.cpp '*'
mutant "KEEP shortens a lease" mutex_scripts.hpp \
  's/if redis\.call\(.PTTL., L\) < ttl then redis\.call\(.PEXPIRE., L, ARGV\[2\]\) end\nreturn 1/redis.call("PEXPIRE", L, ARGV[2])\nreturn 1/' contract/validity_test.cpp '*'
mutant "a renewal re-creates a lost key" mutex_scripts.hpp \
  's/if owner ~= ARGV\[1\] or last > fence then return 0 end/if not owner then redis.call("SET", L, ARGV[1], "PX", ARGV[2]) return 1 end\nif owner ~= ARGV[1] or last > fence then return 0 end/' contract/loss_test.cpp '*'
mutant "no settling" keeper.hpp \
  's/if \(open\.room_at == nullptr\) return;/return;/' faults/doubt_test.cpp '*'
mutant "settling stops at the first answer" keeper.hpp \
  's/if \(\(answered && open\.copies == 0\) \|\| due >= open\.until\)/if (true)/' faults/doubt_test.cpp '*'
mutant "the generator is shared after a fork" detail/random.hpp \
  's/ \|\| filled_by_ != process_generation\(\)//' unit/token_test.cpp '100 children*'
mutant "the owner token is the same for all attempts" core.hpp \
  's/OwnerToken::fresh\(label\(\)\)/[this] { static auto const once = OwnerToken::fresh(label()); return once; }()/' contract/exclusion_test.cpp '*'
mutant "a wake-up is taken for a grant" mutex_scripts.hpp \
  's/(    or popped ~= .. and popped == fence)/    or popped ~= ""\n$1/; s/if owner and string\.sub\(owner, 1, 2\) == .h:. then/if owner and popped ~= "" then/' faults/missed_wake_test.cpp 'a wake-up*'
mutant "no nudge: a dead holder's waiters are not woken" keeper.hpp \
  's/auto const due = nudge_due\(pttl, authority_->now\(\)\);/auto const due = never; static_cast<void>(pttl);/' faults/missed_wake_test.cpp 'the waiters*'
mutant "waiters are not seen by a release" mutex_scripts.hpp \
  's/if mine and wait == 0 and redis\.call\(.EXISTS., S\) == 0 then/if mine and wait == 0 then/' integration/reservations_test.cpp 'a try never*'
mutant "a try takes a reservation" mutex_scripts.hpp \
  's/if redis\.call\(.LPOP., W\) == fence/if true or redis.call("LPOP", W) == fence/' integration/reservations_test.cpp '*'
mutant "no MSG_NOSIGNAL" detail/transport.hpp \
  's/(leaving\.size\(\) - written_, )MSG_NOSIGNAL\)/${1}0)/' faults/broken_pipe_test.cpp '*'
mutant "library threads take signals" detail/worker.hpp \
  's/::sigfillset\(&all\)/::sigemptyset(&all)/' faults/broken_pipe_test.cpp '*'
mutant "a timed-out connection is used again" "detail/transport.hpp connection.hpp pool.hpp" \
  's/spent_ = true;\n/{ asked_ = false; out_.clear(); written_ = 0; }\n/; s/return !closed\(\) && unread_ == 0;/return !closed();/; s/(Connection& operator\*\(\) const noexcept \{ return \*connection_; \})/$1\n    Lent(Lent&&) = default;\n    ~Lent() { if (connection_) pool_->take_back(std::move(connection_)); }/' faults/late_reply_test.cpp '*'
mutant "no EVAL where the script is unknown" script.hpp \
  's/if \(is_unknown_script\(connection, \*\*reply\)\) \{/if (false) {/' integration/forgotten_scripts_test.cpp '*'
mutant "a reconnect forgets the database" pool.hpp \
  's/auto fresh = std::make_unique<Connection>/if (broken_) login_.database = 0;\n    auto fresh = std::make_unique<Connection>/' faults/new_connection_test.cpp '*'
mutant "a reconnect forgets the login" pool.hpp \
  's/auto fresh = std::make_unique<Connection>/if (broken_) login_.username = login_.password = "";\n    auto fresh = std::make_unique<Connection>/' faults/new_connection_test.cpp '*'
mutant "a signal starts the time anew" detail/dial.hpp \
  's/for \(;;\) \{\n    auto const now = (deadline == never \? TimePoint\{\} : Clock::now\(\));/auto const now = $1;\n  for (;;) {/; s/if \(deadline != never && Clock::now\(\) >= deadline\) return Awaited::timed_out;/if (count == 0) return Awaited::timed_out;/' faults/time_limit_test.cpp 'signals*'
mutant "a timed call gets the command's time" acquisition.hpp \
  's/std::min\(after\(deadline_, patience_\.waits \? milliseconds\{25\} : milliseconds\{0\}\),/std::min(never,/' faults/call_time_test.cpp '*'
mutant "a resent request is not known by its token" mutex_scripts.hpp \
  's/if owner == token then --/if false then --/' faults/lost_answer_test.cpp '*'
mutant "a resent request mints a second fence" mutex_scripts.hpp \
  's/return \{1, tonumber\(redis\.call\(.GET., F\)\) or mint\(next_fence\(\)\), now\}/return {1, mint(next_fence()), now}/' faults/lost_answer_test.cpp '*'
mutant "a late renewal counts" lease_state.hpp \
  's/while \(held\(now\)\) \{\n      word = word_\.load\(std::memory_order_acquire\);\n      if \(word <= 0\) return false;/while (now >= TimePoint::min()) {\n      word = word_.load(std::memory_order_acquire);/' unit/validity_test.cpp '*'
mutant "held() waits to be told" lease.hpp \
  's/state_->validity\.held\(state_->core->now\(\)\); \}/state_->validity.standing() == detail::Standing::held; }/' faults/herald_test.cpp 'a lost() callback*'
mutant "lost() waits for the server" core.hpp \
  's/  herald_->watch\(lease\);\n//' contract/loss_test.cpp '*'
mutant "held() is true while the release is on its way" core.hpp \
  's/auto const before = lease\.validity\.end\(Standing::released\);/auto const before = lease.validity.standing();/' faults/lost_answer_test.cpp 'a release that could*'
mutant "a release does not end the renewal" core.hpp \
  's/(auto const before = lease\.validity\.end\(Standing::released\);\n)  keeper_->drop\(lease\);/$1/' faults/no_late_renewal_test.cpp '*'
mutant "a release does not wait for the renewal being written" keeper.hpp \
  's/written_\.wait\(lock, \[this, write = writes_\].*?\}\);/;/s' faults/no_late_renewal_test.cpp 'when a lease*'
mutant "a forked child uses its parent's core" detail/process.hpp \
  's/if \(slot->generation == process_generation\(\)\) \[\[likely\]\] return slot->value;/return slot->value;/' faults/fork_test.cpp 'parent and*,however*'
mutant "scripts are made under a lock that a child inherits" mutex_scripts.hpp \
  's/return scripts\.get\(make\)/static auto const* const locked = new auto{make()};\n  return (*locked)/' 'faults/allocation/*_test.cpp' 'a child forked*'
mutant "a forked child owns its parent's leases" lease.hpp \
  's/return state_ && process_ == detail::process_generation\(\);/return state_ != nullptr;/' faults/fork_test.cpp 'however*'
mutant "no local gate before a shared Lock" gate.hpp \
  's/if \(!owner_ && waiting_\.empty\(\)\) return take\(\);/return take();/' contract/shared_between_threads_test.cpp '*'
mutant "fences start at one when the counter is lost" mutex_scripts.hpp \
  's/local fence = math\.max\(\(tonumber\(redis\.call\(.GET., F\)\) or 0\) \+ 1, floor\)/local fence = (tonumber(redis.call("GET", F)) or 0) + 1/' integration/fence_counter_test.cpp '*'
mutant "leases go by the wall clock" time.hpp \
  's/CLOCK_BOOTTIME, &value/CLOCK_REALTIME, &value/' faults/wall_clock_test.cpp 'a wall clock*'
mutant "a new lease waits until the keeper is free" keeper.hpp \
  's/if \(quitting_ \|\| latest >= occupied_until_\) return;/return;/' faults/keeper_test.cpp '*'
mutant "each renewal goes by itself" keeper.hpp \
  's/\(batch_\.empty\(\) \|\| !goes_along\(lease, now\)\)/true/' contract/renewal_test.cpp 'a renewal that is due*'
mutant "all renewals go with the first that is due" keeper.hpp \
  's/\(batch_\.empty\(\) \|\| !goes_along\(lease, now\)\)/batch_.empty()/' contract/renewal_test.cpp 'a renewal that is due*'
mutant "settling asks for memory when it is needed" keeper.hpp \
  's/(auto& open = \*lease\.unsettled;)/try { ::operator delete(::operator new(64)); } catch (...) { return; }\n  $1/' 'faults/allocation/*_test.cpp' '*'
mutant "who leaves forgets what was asked in its name" local_queue.hpp \
  's/front->asked\.copies = 1;/front->asked.copies = 0;/' faults/local_turns_test.cpp 'a waiter whose time*'
mutant "an unanswered request in another's name is forgotten" link.hpp \
  's/asked\.copies = 1;/asked.copies = 0;/' faults/local_turns_test.cpp '*'
mutant "a thread waits for a holder of its own for ever" local_queue.hpp \
  's/ && now < held_since \+ local_patience//' faults/local_turns_test.cpp 'behind a hold*'
mutant "one permit too many" room_scripts.hpp \
  's/<= permits/<= permits + 1/' contract/semaphore_test.cpp '*'
mutant "a writer enters beside readers" room_scripts.hpp \
  "s/if k == 'r' then return string\.sub\(first, 1, 2\) ~= 'w:' end/if k ~= 'p' then return string.sub(first, 1, 2) ~= 'w:' end/" contract/shared_lock_test.cpp '*'
mutant "newcomers pass those who wait" room_scripts.hpp \
  "s/if redis\.call\('EXISTS', Q\) == 0 and admits\(kind\) then/if admits(kind) then/" contract/shared_lock_test.cpp '*'
mutant "the dead stay in a room" room_scripts.hpp \
  "s/(redis\.p?call)\('ZREMRANGEBYSCORE', L, '-inf', now\)/\$1('ZREMRANGEBYSCORE', L, '-inf', 0)/g" contract/shared_lock_test.cpp '*'
mutant "a lost place is not told" detail/verbs.hpp \
  's/return in_room\(nudge\.hold\(\)\) && !answer\.yes;/return in_room(nudge.hold()) \&\& !answer.yes \&\& false;/' integration/rooms_test.cpp 'a waiter whose place*'
mutant "a downgrade is not remembered by renewals" room_scripts.hpp \
  "s/then member = 'r:' \.\. token end/then member = me end/" contract/shared_lock_test.cpp 'a writer that is downgraded*'
mutant "several locks: the busy one is not looked at" together_script.hpp \
  "s/elseif owner then/elseif owner == 'nobody' then/" contract/acquire_all_test.cpp '*'

if [[ ${1-} == --help || ${1-} == -h ]]; then usage && exit 0; fi
if [[ ${1-} == --list ]]; then printf '%s\n' "${names[@]}" && exit 0; fi

chosen() {
  (($# == 1)) && return 0
  local name=$1 word
  shift
  for word; do [[ $name == *"$word"* ]] && return 0; done
  return 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# mutate INDEX: a copy of the headers with that mechanism broken. False: there is nothing to break.
mutate() {
  local file
  rm -rf "$scratch/include"
  cp -r include "$scratch/include"
  for file in ${files[$1]}; do
    perl -0pi -e "${edits[$1]}" "$scratch/include/mortise/$file"
    if cmp -s "$scratch/include/mortise/$file" "include/mortise/$file"; then return 1; fi
  done
}

if [[ ${1-} == --check ]]; then
  stale=0
  for i in "${!names[@]}"; do
    if ! mutate "$i"; then
      echo "does not apply: ${names[i]} (${files[i]})" >&2
      stale=1
    fi
  done
  exit $stale
fi

cxx=${CXX:-g++}
flags=(-std=c++20 -O0 -Itests)
read -ra libraries < <(pkg-config --libs hiredis)
if [[ -e /usr/include/catch2/catch_all.hpp ]] || pkg-config --exists catch2-with-main 2>/dev/null; then
  read -ra catch < <(pkg-config --libs catch2-with-main)
  main=()
else
  catch=()
  main=(tests/support/catch_main.cpp)
fi

echo "building the test kit"
# What every test begins with, parsed once. No header of the library: those are what changes.
mkdir "$scratch/first"
printf '#include <%s>\n' atomic chrono deque functional map memory mutex optional set stop_token string thread vector hiredis/hiredis.h >"$scratch/first/first.hpp"
echo '#include "support/catch.hpp"' >>"$scratch/first/first.hpp"
$cxx "${flags[@]}" -x c++-header "$scratch/first/first.hpp" -o "$scratch/first/first.hpp.gch"
$cxx -std=c++20 -O0 -shared -fPIC tests/support/clock_shim_preload.cpp -o "$scratch/libclock_shim.so"
objects=()
for source in tests/support/*.cpp; do
  [[ $source == */clock_shim_preload.cpp || $source == */catch_main.cpp ]] && continue
  object=$scratch/$(basename "$source" .cpp).o
  $cxx "${flags[@]}" "-DMORTISE_CLOCK_SHIM_LIBRARY=\"$scratch/libclock_shim.so\"" -c "$source" -o "$object"
  objects+=("$object")
done
for source in "${main[@]}"; do
  $cxx "${flags[@]}" -c "$source" -o "$scratch/main.o"
  objects+=("$scratch/main.o")
done

# build_test INCLUDE TEST-FILES PROGRAM
build_test() {
  # shellcheck disable=SC2086
  $cxx "${flags[@]}" -include "$scratch/first/first.hpp" "-I$1" $2 "${objects[@]}" "${libraries[@]}" "${catch[@]}" -lpthread -o "$3" 2>"$scratch/errors"
}

failed=0
printf '\n| broken mechanism | file | noticed by |\n|---|---|---|\n'
for i in "${!names[@]}"; do
  chosen "${names[i]}" "$@" || continue
  if ! mutate "$i"; then
    result="DOES NOT APPLY"
  elif ! build_test "$scratch/include" "${tests[i]}" "$scratch/mutated"; then
    if grep -q 'static assertion failed' "$scratch/errors"; then
      result="${tests[i]#tests/}: a static assertion"
    else
      result="DOES NOT COMPILE: $(grep -m1 error "$scratch/errors" || true)"
    fi
  elif (timeout -k 5 150 "$scratch/mutated" "${cases[i]}" -r xml) >"$scratch/report" 2>&1; then
    result="NOBODY"
  else
    # The first test case with a failure, or the one in which the program ended.
    result=$(perl -0ne 'for my $case (split /<TestCase /) { next unless $case =~ /^name="([^"]*)"/; my $name = $1;
      if ($case =~ /success="false"|<Exception|<FatalErrorCondition/ || $case !~ /<\/TestCase>/) { print $name; last } }' "$scratch/report")
    result="${tests[i]#tests/}: ${result:-it ended before its tests did}"
  fi
  printf '| %s | `%s` | %s |\n' "${names[i]}" "${files[i]}" "$result"
  if [[ $result =~ ^(NOBODY|DOES) ]]; then failed=$((failed + 1)); fi
done
echo
if ((failed)); then
  echo "$failed mutants were not noticed" >&2
  exit 1
fi
