import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedReads } from './shared-reads.ts';

const open = (): AbortSignal => new AbortController().signal;

test('what is asked for while it is read is read once, and again afterwards', async () => {
  const reads = new SharedReads<number>();
  let made = 0;
  const make = (): Promise<number> => Promise.resolve(++made);
  assert.deepEqual(await Promise.all([reads.read('a', open(), make), reads.read('a', open(), make), reads.read('b', open(), make)]), [1, 1, 2]);
  assert.equal(await reads.read('a', open(), make), 3);
}); // prettier-ignore

test('who goes away stops nothing that another waits for; the last one does', async () => {
  const reads = new SharedReads<string>();
  const [first, second] = [new AbortController(), new AbortController()];
  const { promise, resolve } = Promise.withResolvers<string>();
  const seen: AbortSignal[] = [];
  const make = (signal: AbortSignal): Promise<string> => {
    seen.push(signal);
    return promise;
  };
  const [one, two] = [reads.read('a', first.signal, make), reads.read('a', second.signal, make)];
  first.abort(new Error('gone'));
  assert.equal(seen[0]?.aborted, false);
  second.abort(new Error('gone'));
  assert.equal(seen[0]?.aborted, true);
  const again = reads.read('a', open(), make);
  assert.equal(seen.length, 2); // a read that was stopped is not joined
  resolve('there');
  await assert.rejects(one, /gone/);
  await assert.rejects(two, /gone/);
  assert.equal(await again, 'there');
});

test('a failure reaches all who wait, and is not kept', async () => {
  const reads = new SharedReads<string>();
  const fail = (): Promise<string> => Promise.reject(new Error('broken'));
  const both = await Promise.allSettled([reads.read('a', open(), fail), reads.read('a', open(), fail)]);
  assert.deepEqual(both.map((each) => each.status), ['rejected', 'rejected']);
  assert.equal(await reads.read('a', open(), () => Promise.resolve('well')), 'well');
}); // prettier-ignore
