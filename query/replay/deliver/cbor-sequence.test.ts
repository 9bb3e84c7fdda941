import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import { itemsOf, withoutProducer } from './cbor-sequence.ts';

const event = fc.record({
  id: fc.string(),
  producer: fc.option(fc.record({ id: fc.string(), epoch: fc.nat(), seq: fc.nat() }), { nil: undefined }),
  data: fc.dictionary(
    fc.string(),
    fc.oneof(fc.string(), fc.integer(), fc.double({ noNaN: true }), fc.constant(null), fc.array(fc.string())),
  ),
});

test('items come whole, however the bytes are cut; without their producer nothing else is lost', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 6 }), fc.integer({ min: 1, max: 40 }), async (events, size) => {
      const slices = events.map((each) => encodeEvent(each));
      const all = Buffer.concat(slices);
      const found: Uint8Array[] = [];
      const pieces = (async function* () {
        for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size);
      })();
      for await (const item of itemsOf(pieces)) found.push(item);
      assert.deepEqual(found.map((item) => Buffer.from(item).toString('hex')), slices.map((slice) => Buffer.from(slice).toString('hex'))); // prettier-ignore
      for (const [i, slice] of found.entries()) {
        const { producer: _, ...rest } = decodeCbor(slice) as Record<string, unknown>;
        assert.deepEqual(decodeCbor(withoutProducer(slice)), rest);
        if (events[i]?.producer === undefined) assert.equal(withoutProducer(slice), slice);
      }
    }),
    { numRuns: 300 },
  );
});

test('a sequence that ends inside an item is refused', async () => {
  const slice = encodeEvent({ id: 'a', data: { text: 'x'.repeat(100) } });
  const pieces = (async function* () {
    yield slice.subarray(0, slice.length - 3);
  })();
  await assert.rejects(async () => { for await (const _ of itemsOf(pieces)); }, { code: 'truncated_body' }); // prettier-ignore
});
