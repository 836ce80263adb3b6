# SPDX-License-Identifier: MIT
# redis-py's Lock with its defaults, driven line by line: see others.cpp.
import sys
import time

import redis

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
name, work = sys.argv[2], int(sys.argv[3]) / 1e6
clock = time.monotonic_ns


def pairs(count):
    for _ in range(count):
        began = clock()
        lock = client.lock(name, timeout=10)
        if not lock.acquire(blocking=False):
            raise SystemExit("an uncontended lock was busy")
        lock.release()
        yield clock() - began


def turns(until):
    while clock() < until:
        asked = clock()
        lock = client.lock(name, timeout=10)
        if not lock.acquire(blocking_timeout=10):
            continue
        owner = clock()
        if work:
            time.sleep(work)
        leaving = clock()
        lock.release()
        yield from (asked, owner, leaving)


client.ping()
print("ready", flush=True)
for line in sys.stdin:
    verb, number = line.split()
    print(*{"pairs": pairs, "turns": turns}[verb](int(number)), flush=True)
