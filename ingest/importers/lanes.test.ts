import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import fc from 'fast-check';
import { TapedeckError } from '../../base/errors.ts';
import type { ImportedEvent } from './event-maker.ts';
import { openLanes, type LaneOptions } from './lanes.ts';

const event = (text: string): ImportedEvent => ({ type: 'node.appended', slice: Buffer.from(text) });
const origin = { path: 'f', line: 1 };
const options = (rest: Partial<LaneOptions> & Pick<LaneOptions, 'sink'>): LaneOptions => ({
  signal: new AbortController().signal,
  lanes: 3,
  batchBytes: 10,
  batchEvents: 4,
  onResult: () => {},
  ...rest,
});

test('a rollout stays in order, batches keep their limits, nothing is lost, one batch per lane at a time', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.integer({ min: 1, max: 14 }), { maxLength: 6 }), { maxLength: 12 }),
      fc.nat(),
      async (rollouts, seed) => {
        const taken: string[] = [];
        let inFlight = 0;
        let most = 0;
        let delay = seed;
        const lanes = openLanes(
          options({
            sink: async (slices) => {
              most = Math.max(most, ++inFlight);
              const bytes = slices.reduce((sum, slice) => sum + slice.length, 0);
              assert.ok(slices.length > 0 && slices.length <= 4 && (slices.length === 1 || bytes <= 10));
              for (delay = (delay * 31) % 7; delay > 0; delay--) await setImmediate();
              taken.push(...slices.map((slice) => Buffer.from(slice).toString()));
              inFlight--;
              return { accepted: slices.length, duplicates: 0, rejected: [] };
            },
          }),
        );
        const name = (r: number, i: number, size: number): string => `${String.fromCharCode(97 + r)}${i}`.padEnd(size, '.');
        for (const [r, sizes] of rollouts.entries())
          await lanes.send(
            sizes.map((size, i) => event(name(r, i, size))),
            origin,
          );
        await lanes.flush();
        assert.ok(most <= 3);
        for (const [r, sizes] of rollouts.entries()) {
          const mine = taken.filter((text) => text.startsWith(String.fromCharCode(97 + r)));
          assert.deepEqual(
            mine,
            sizes.map((size, i) => name(r, i, size)),
          );
        }
      },
    ),
  );
});

test('send waits while its lane is busy: memory is bounded', async () => {
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => (release = resolve));
  const lanes = openLanes(
    options({ lanes: 1, sink: async (slices) => gate.then(() => ({ accepted: slices.length, duplicates: 0, rejected: [] })) }),
  );
  let sent = false;
  const many = lanes
    .send(
      Array.from({ length: 12 }, () => event('12345')),
      origin,
    )
    .then(() => (sent = true));
  await setImmediate();
  assert.equal(sent, false);
  release();
  await many;
  await lanes.flush();
});

test('what the sink throws ends the next send and the flush; other batches are still reported', async () => {
  let calls = 0;
  const results: number[] = [];
  const lanes = openLanes(
    options({
      lanes: 1,
      onResult: (_result, items) => void results.push(items.length),
      sink: async (slices) => {
        if (++calls === 2) throw new TapedeckError('store_error', 'gave up');
        return { accepted: slices.length, duplicates: 0, rejected: [] };
      },
    }),
  );
  await assert.rejects(
    lanes.send(
      Array.from({ length: 30 }, () => event('12345')),
      origin,
    ),
    { code: 'store_error' },
  );
  await assert.rejects(lanes.flush(), { code: 'store_error' });
  assert.deepEqual([calls, results], [2, [2]]);
});

test('an abort stops sending', async () => {
  const stop = new AbortController();
  const lanes = openLanes(options({ signal: stop.signal, sink: async () => ({ accepted: 0, duplicates: 0, rejected: [] }) }));
  await lanes.send([event('x')], origin);
  stop.abort(new TapedeckError('aborted', 'enough'));
  await assert.rejects(lanes.send([event('y')], origin), { code: 'aborted' });
  await assert.rejects(lanes.flush(), { code: 'aborted' });
});
