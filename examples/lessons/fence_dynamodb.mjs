// SPDX-License-Identifier: MIT
// The fence at DynamoDB: a ConditionExpression on the number stored with the item. Here against dynalite, an emulator; the
// grants come from a lock in Redis by the command `mortise run`.
// Needs: redis mortise dynalite
// Guards: fence same
//
// --without fence   the write has no condition.
// --without same    `<` in place of `<=`: the holder's repeated write is refused.

import {execFileSync} from 'node:child_process'

const [option, without] = process.argv.slice(2)
if (option !== undefined && !(option === '--without' && ['fence', 'same'].includes(without))) {
  console.error('usage: fence_dynamodb.mjs [--without fence|same]')
  process.exit(64)
}
const began = performance.now()
const say = (who, text) => console.log(`${String(Math.round(performance.now() - began)).padStart(6)} ms  ${who.padEnd(6)}  ${text}`)

class NotProved extends Error {}
const prove = (truth, what) => {
  if (!truth) throw new NotProved(what)
}

const call = async (action, body) => {
  const answer = await fetch(process.env.LESSON_DYNAMODB, {
    method: 'POST',
    signal: AbortSignal.timeout(10_000),
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `DynamoDB_20120810.${action}`,
      'x-amz-date': '20250101T000000Z',
      // The emulator wants a signature and does not check it.
      authorization: 'AWS4-HMAC-SHA256 Credential=lesson/20250101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
    },
    body: JSON.stringify(body),
  })
  return {ok: answer.ok, ...(await answer.json())}
}

const condition = {fence: undefined, same: 'attribute_not_exists(fence) OR fence < :f'}
const write = async (who, balance, fence) => {
  const answer = await call('UpdateItem', {
    TableName: 'account',
    Key: {id: {S: '1'}},
    UpdateExpression: 'SET balance = :b, written_by = :w, fence = :f',
    ConditionExpression: without ? condition[without] : 'attribute_not_exists(fence) OR fence <= :f',
    ExpressionAttributeValues: {':b': {N: String(balance)}, ':w': {S: who}, ':f': {N: fence}},
  })
  const stale = answer.__type?.endsWith('ConditionalCheckFailedException') ?? false
  if (!answer.ok && !stale) throw new Error(`${answer.__type}: ${answer.message ?? answer.Message}`)
  say(who, `writes ${balance} with fence ${fence}: ${stale ? 'REFUSED (ConditionalCheckFailedException)' : 'accepted'}`)
  return !stale
}

// A grant of the lock, as a process of its own; its number outlives it, as that of a holder does who sleeps past his lease.
const grant = who => {
  const fence = execFileSync('mortise', ['run', 'lock:account:1', '--redis', process.env.MORTISE_REDIS, '--wait', '10s', '--',
    'sh', '-c', 'printf %s "$MORTISE_FENCE"'], {encoding: 'utf8'})
  say(who, `was granted the lock, fence ${fence}`)
  return fence
}

try {
  const made = await call('CreateTable', {
    TableName: 'account',
    AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
    KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
    BillingMode: 'PAY_PER_REQUEST',
  })
  if (!made.ok) throw new Error(`${made.__type}: ${made.message}`)
  for (let tries = 0; (await call('DescribeTable', {TableName: 'account'})).Table?.TableStatus !== 'ACTIVE'; ++tries) {
    if (tries === 200) throw new Error('the table does not become active')
    await new Promise(done => setTimeout(done, 20))
  }
  const a = grant('A')
  prove(await write('A', 100, a), "the holder's first write is accepted")
  prove(await write('A', 100, a), "the holder's repeated write is accepted, too")
  say('A', 'is paused, and its lease runs out')
  const b = grant('B')
  prove(await write('B', 200, b), "the new holder's write is accepted")
  say('A', 'wakes and knows of nothing')
  prove(!(await write('A', 101, a)), 'the late write is refused')
  const {Item: item} = await call('GetItem', {TableName: 'account', Key: {id: {S: '1'}}, ConsistentRead: true})
  prove(item.written_by.S === 'B' && item.balance.N === '200' && item.fence.N === b, 'the item holds what B wrote')
  console.log("proved: DynamoDB's ConditionExpression, as dynalite carries it out, took the holder's writes and refused the one that came after its lease")
} catch (error) {
  console.log(`${error instanceof NotProved ? 'not proved' : 'failed'}: ${error.message}`)
  process.exitCode = error instanceof NotProved ? 1 : 64
}
