import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createPieceWriter, readPieces } from './answer-pieces.ts';

const LIMIT = { maxBytes: 1 << 24 };

test('any pieces come back with their times', () => {
  const piece = fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 40, max: 3 }), fc.nat({ max: 5_000_000 }));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const writer = createPieceWriter(LIMIT);
      let at = 0;
      const given = pieces.map(([bytes, gap]) => ({ atMicros: (at += gap), bytes }));
      for (const { bytes, atMicros } of given) writer.add(bytes, atMicros);
      assert.deepEqual(
        readPieces(writer.take()).map(({ atMicros, bytes }) => ({ atMicros, bytes: [...bytes] })),
        given.map(({ atMicros, bytes }) => ({ atMicros, bytes: [...bytes] })),
      );
    }),
    { numRuns: 500 },
  );
});

test('a stream takes a tenth of its bytes', () => {
  const writer = createPieceWriter(LIMIT);
  let total = 0;
  for (let i = 0; i < 1000; i++) {
    const event = Buffer.from(
      `data: {"id":"chatcmpl-0000000700000000","object":"chat.completion.chunk","created":1796021513,"model":"toy","choices":[{"index":0,"delta":{"content":"word${i} "},"logprobs":null,"finish_reason":null}]}\n\n`,
    );
    total += event.length;
    writer.add(event, i * 7000);
  }
  assert.ok(writer.take().length < total / 10, `${writer.take().length} of ${total}`);
});

test('bytes that no writer made are refused; they never read beyond their end', () => {
  for (const bytes of [[0], [0, 1, 0, 0], [0, 0, 0, 5, 1], [0x80], [255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0, 0]]) {
    assert.throws(() => readPieces(Uint8Array.from(bytes)), { code: 'invalid_value' });
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        readPieces(bytes);
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'invalid_value');
      }
    }),
    { numRuns: 2000 },
  );
});

test('beyond its limit a writer keeps nothing more and says so; time that runs backwards stands still', () => {
  const writer = createPieceWriter({ maxBytes: 8 });
  writer.add(Buffer.from('abc'), 50);
  writer.add(Buffer.from('abd'), 20);
  assert.deepEqual(readPieces(writer.take()).map(({ atMicros }) => atMicros), [50, 50]); // prettier-ignore
  assert.ok(!writer.isWhole || writer.take().length <= 16);
  writer.add(Buffer.from('something else entirely'), 60);
  assert.equal(writer.isWhole, false);
});
