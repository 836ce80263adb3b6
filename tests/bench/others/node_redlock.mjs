// SPDX-License-Identifier: MIT
// node-redlock with its defaults, but without a limit of tries, driven line by line: see others.cpp.
import { createInterface } from "node:readline";
import Redis from "ioredis";
import Redlock from "redlock";

const [port, name, work] = process.argv.slice(2);
const client = new Redis(Number(port), "127.0.0.1");
const redlock = new Redlock([client], { retryCount: -1 });
const clock = () => process.hrtime.bigint();
const pause = () => new Promise((resolve) => setTimeout(resolve, Math.ceil(Number(work) / 1000)));

async function pairs(count) {
  const times = [];
  for (let i = 0; i < count; ++i) {
    const began = clock();
    const lock = await redlock.acquire([name], 10000);
    await lock.release();
    times.push(clock() - began);
  }
  return times;
}

async function turns(until) {
  const times = [];
  while (clock() < until) {
    const asked = clock();
    const lock = await redlock.acquire([name], 10000);
    const owner = clock();
    if (Number(work) > 0) await pause();
    const leaving = clock();
    await lock.release();
    times.push(asked, owner, leaving);
  }
  return times;
}

await client.ping();
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [verb, number] = line.split(" ");
  const times = await (verb === "pairs" ? pairs(Number(number)) : turns(BigInt(number)));
  console.log(times.join(" "));
}
client.disconnect();
