/** The path without HTTP, as importers use it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { systemClock, type Clock } from '../base/clock.ts';
import { acceptEvents, type AcceptContext } from './accept.ts';
import { ACCEPT_LIMITS } from './accept-limits.ts';
import { openEdge, sampleEvent, type Edge } from './http/edge-under-test.ts';

let edge: Edge;
let context: AcceptContext;
before(async () => {
  edge = await openEdge();
  const { log, blobs, producers, tombstones } = edge;
  context = { log, blobs, producers, tombstones, clock: systemClock, limits: ACCEPT_LIMITS };
});
after(() => edge.close());

test('accepts a body and says what became of each item', async () => {
  const events = [sampleEvent(), sampleEvent({ time: -1 }), sampleEvent({ type: 'new.kind' })];
  const result = await acceptEvents(Buffer.concat(events.map((event) => encodeEvent(event))), 'cbor', context);
  assert.ok(result.ok);
  const { accepted, duplicates, rejected, deadLettered, failure, types } = result.value;
  assert.deepEqual([accepted, duplicates, failure, [...types]], [2, 0, null, [['metric.recorded', 1], ['unknown', 1]]]); // prettier-ignore
  assert.deepEqual([rejected.map(({ index }) => index), deadLettered.map(({ index }) => index)], [[1], [2]]);
});

test('a body that cannot be read is an error value, and nothing is stored', async () => {
  const before = (await edge.stored()).length;
  const result = await acceptEvents(Buffer.from('[{"id"'), 'json', context);
  assert.ok(!result.ok);
  assert.equal(result.error.code, 'invalid_json');
  assert.equal((await edge.stored()).length, before);
});

test('a large body lets others run in between, and all of it is stored in order', async () => {
  let yields = 0;
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) => {
      if (ms === 0) yields++;
      return systemClock.sleep(ms, signal);
    },
  };
  const events = Array.from({ length: 60 }, () => sampleEvent({ rollout: 'large', extra: 'x'.repeat(100_000) }));
  for (const [media, body] of [
    ['json', Buffer.from(JSON.stringify(events))],
    ['cbor', Buffer.concat(events.map((event) => encodeEvent({ ...event, id: event.id.replace('0198c0de', '0298c0de') })))],
  ] as const) {
    yields = 0;
    const result = await acceptEvents(body, media, { ...context, clock });
    assert.ok(result.ok && result.value.accepted === 60);
    assert.ok(yields >= 4 && yields <= 14, `${yields} yields`);
  }
  const stored = (await edge.stored()).filter(({ key }) => key === 'large').map(({ id }) => id);
  assert.deepEqual(
    stored.slice(0, 60),
    events.map(({ id }) => id),
  );
});
