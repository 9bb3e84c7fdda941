import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSseDecoder } from './sse-decoder.ts';
import { encodeSse, encodeSseComment } from './sse-encoder.ts';
import type { SseEvent } from './sse-event.ts';

const LIMIT = { maxEventBytes: 1 << 20 };

function decode(chunks: readonly Uint8Array[], options = LIMIT): SseEvent[] {
  const decoder = createSseDecoder(options);
  const events = chunks.flatMap((chunk) => [...decoder.push(chunk)]);
  const last = decoder.end();
  return last === null ? events : [...events, last];
}

const decodeText = (text: string): SseEvent[] => decode([Buffer.from(text)]);
/** What a reader of the stream sees: no raw bytes, no keep-alives. */
const seen = (events: readonly SseEvent[]) =>
  events.filter((e) => e.kind !== 'comment').map(({ kind, name, data, id, retry, problem }) => ({ kind, name, data, id, retry, problem }));
const plain = (data: string, more: Partial<SseEvent> = {}) => ({
  kind: 'event', name: null, data, id: null, retry: null, problem: null, ...more,
}); // prettier-ignore

test('reads fields, several data lines, comments and unknown fields', () => {
  const events = decodeText(': hi\n\nevent: a\ndata: 1\ndata:2\ndata:  3\ndata\nid: 7\nretry: 250\nfoo: bar\n\ndata: x\n\n');
  assert.deepEqual(seen(events), [plain('1\n2\n 3\n', { name: 'a', id: '7', retry: 250 }), plain('x')]);
  assert.equal(events[0]?.kind, 'comment');
});

test('takes LF, CR and CRLF, mixed, and keeps the bytes', () => {
  for (const end of ['\n', '\r', '\r\n']) {
    const text = `event: a${end}data: 1${end}${end}: c${end}${end}data: 2${end}${end}`;
    const events = decodeText(text);
    assert.deepEqual(seen(events), [plain('1', { name: 'a' }), plain('2')], JSON.stringify(end));
    assert.equal(Buffer.concat(events.map((e) => e.raw)).toString(), text);
  }
});

test('skips a byte order mark at the start only', () => {
  assert.deepEqual(seen(decodeText('\uFEFFdata: 1\n\n\uFEFFdata: 2\n\ndata: 3\n\n')), [plain('1'), plain('3')]);
  assert.deepEqual(seen(decodeText('\uFEFF\ndata: 1\n\n')), [plain('1')]);
});

test('gives an event at the CR of its blank line, without waiting for a LF', () => {
  const decoder = createSseDecoder(LIMIT);
  assert.equal(decoder.push(Buffer.from('data: 1\r\n\r')).length, 1);
  assert.equal(decoder.push(Buffer.from('\ndata: 2\r')).length, 0);
  assert.deepEqual(seen(decoder.push(Buffer.from('\n\r\n'))), [plain('2')]);
  assert.equal(decoder.end(), null);
});

test('reports what is left unterminated', () => {
  for (const left of ['data: [DONE]', 'data: [DONE]\n', 'data: [DONE]\r']) {
    const last = decodeText(`data: 1\n\n${left}`).at(-1);
    assert.equal(last?.kind, 'broken');
    assert.equal(last?.problem?.code, 'sse_truncated');
    assert.equal(last?.data, '[DONE]');
    assert.equal(Buffer.from(last?.raw ?? []).toString(), left);
  }
  assert.deepEqual(seen(decodeText('data: 1\n\n')), [plain('1')]);
  assert.equal(decodeText('data: 1\n\r').at(-1)?.kind, 'event');
});

test('reports bytes that are no UTF-8, and goes on', () => {
  const events = decode([
    Buffer.from('data: 1\n\n'),
    Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a, 0x0a]),
    Buffer.from('data: 2\n\n'),
  ]);
  assert.deepEqual(
    events.map((e) => [e.kind, e.problem?.code]),
    [['event', undefined], ['broken', 'invalid_utf8'], ['event', undefined]],
  ); // prettier-ignore
  assert.deepEqual([...(events[1]?.raw ?? [])], [0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a, 0x0a]);
});

test('an event beyond the limit is named, whatever the chunks; one at the limit is not', () => {
  const event = Buffer.from(`data: ${'x'.repeat(1000)}\n\n`);
  const stream = Buffer.concat([Buffer.from('data: 1\n\n'), event, Buffer.from('data: 2\n\n')]);
  for (const size of [1, 7, 64, 5000]) {
    const chunks = chunked(stream, [size]);
    assert.deepEqual(
      decode(chunks, { maxEventBytes: event.length - 1 }).map((e) => e.problem?.code ?? e.data),
      ['1', 'sse_event_too_large'],
    );
    assert.equal(decode(chunks, { maxEventBytes: event.length }).length, 3);
  }
});

test('a large event in small chunks costs time in proportion to its size, and its memory is given back', () => {
  const decoder = createSseDecoder({ maxEventBytes: 1 << 25 });
  const part = Buffer.alloc(4096, 'x');
  decoder.push(Buffer.from('data: '));
  for (let i = 0; i < 4096; i++) decoder.push(part);
  assert.equal(decoder.heldBytes, 6 + 4096 * 4096);
  const [event] = decoder.push(Buffer.from('\n\n'));
  assert.equal(event?.data.length, 4096 * 4096);
  assert.equal(decoder.heldBytes, 0);
});

test('many short lines in one chunk are looked at once, whichever end they have', () => {
  for (const end of ['\r', '\n', '\r\n']) {
    const chunk = Buffer.from(`data:${end}`.repeat(200_000));
    const decoder = createSseDecoder({ maxEventBytes: 1 << 25 });
    assert.equal(decoder.push(chunk).length, 0); // 40 GB of comparisons if each line looked through the rest
    assert.equal(decoder.push(Buffer.from(end))[0]?.data.length, 199_999);
  }
});

/** Cuts at the sizes given, again and again. */
function chunked(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] as number;
    chunks.push(bytes.slice(at, at + size));
    at += size;
  }
  return chunks;
}

const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 });
const line = fc.oneof(
  fc.constantFrom('', '', 'data: [DONE]', 'event: x', 'id: 1', ': c', 'data', 'data:', ':', 'retry: 1', 'retry: x'),
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, '')}`),
);
const stream = fc
  .array(fc.tuple(line, fc.constantFrom('\n', '\r', '\r\n')), { maxLength: 24 })
  .map((lines) => lines.map(([text, end]) => text + end).join(''));

test('any chunking gives the same events, and their bytes are the stream', () => {
  fc.assert(
    fc.property(stream, sizes, fc.boolean(), (text, cuts, mark) => {
      const bytes = Buffer.from(mark ? `\uFEFF${text}` : text);
      const events = decode(chunked(bytes, cuts));
      assert.deepEqual(seen(events), seen(decode([bytes])));
      assert.ok(Buffer.concat(events.map((e) => e.raw)).equals(bytes));
    }),
    { numRuns: 2000 },
  );
});

/** The algorithm of the HTML standard, by lines of text. */
function reference(text: string): { name: string | null; data: string }[] {
  const events: { name: string | null; data: string }[] = [];
  let data: string[] = [];
  let name: string | null = null;
  for (const one of text.split(/\r\n|\r|\n/).slice(0, -1)) {
    if (one === '') {
      if (data.length > 0) events.push({ name, data: data.join('\n') });
      data = [];
      name = null;
      continue;
    }
    const [, field, value] = /^([^:]*)(?:: ?([^]*))?$/.exec(one) as RegExpExecArray;
    if (field === 'data') data.push(value ?? '');
    if (field === 'event') name = value ?? '';
  }
  return events;
}

test('agrees with the standard', () => {
  fc.assert(
    fc.property(stream, (text) => {
      const events = decodeText(text).filter((e) => e.kind === 'event');
      assert.deepEqual(
        events.map(({ name, data }) => ({ name, data })),
        reference(text.replace(/^\uFEFF/, '')),
      );
    }),
    { numRuns: 2000 },
  );
});

test('what the encoder writes is read back', () => {
  const frame = fc.record(
    {
      name: fc.option(fc.string({ unit: 'grapheme', minLength: 1 }).map((s) => s.replaceAll(/[\r\n]/g, '_').replace(/^ /, '_'))),
      data: fc.string({ unit: 'grapheme' }).map((s) => s.replaceAll(/\r\n|\r/g, '\n')),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(fc.array(frame), sizes, (frames, cuts) => {
      const bytes = Buffer.concat(frames.flatMap((f) => [encodeSse(f), encodeSseComment('keep-alive')]));
      const events = decode(chunked(bytes, cuts)).filter((e) => e.kind === 'event');
      assert.deepEqual(
        events.map(({ name, data }) => ({ name, data })),
        frames,
      );
    }),
  );
  assert.throws(() => encodeSse({ name: 'a\nb', data: '' }), { code: 'internal' });
  assert.throws(() => encodeSse({ name: null, data: '\ud800' }), { code: 'internal' });
});
