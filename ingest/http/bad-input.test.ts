/** Bodies that are cut, garbled, oversized, mistyped, nested or hostile: a clear error with a code, and nothing of a refused body in the log. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { openEdge, sampleEvent, type Edge, type Reply } from './edge-under-test.ts';

let edge: Edge;
before(async () => {
  edge = await openEdge({ limits: { items: 20, bodyBytes: 2 << 20, inflatedBytes: 4 << 20, inFlightBytes: 64 << 20 } });
});
after(() => edge.close());

const NDJSON = { 'content-type': 'application/x-ndjson' };
const JSON_TYPE = { 'content-type': 'application/json' };
const cborArray = (events: object[]): Buffer =>
  Buffer.concat([Buffer.from([0x80 + events.length]), ...events.map((event) => encodeEvent(event))]);

async function refused(reply: Reply, status: number, code: string, message: RegExp = /./): Promise<void> {
  assert.deepEqual([reply.status, reply.body.error?.code], [status, code], JSON.stringify(reply.body));
  assert.match(reply.body.error.message, message);
}
async function idsInLog(): Promise<Set<string>> {
  return new Set((await edge.stored()).map(({ id }) => id));
}

test('CBOR cut at every byte is refused whole', async () => {
  const events = [sampleEvent(), sampleEvent()];
  const body = cborArray(events);
  for (let cut = 1; cut < body.length; cut++) await refused(await edge.post(body.subarray(0, cut)), 400, 'invalid_cbor');
  const log = await idsInLog();
  assert.ok(events.every(({ id }) => !log.has(id)));
});

test('JSON cut at every byte is refused whole', async () => {
  const event = sampleEvent();
  const body = Buffer.from(JSON.stringify([event]));
  for (let cut = 1; cut < body.length; cut++) await refused(await edge.post(body.subarray(0, cut), JSON_TYPE), 400, 'invalid_json');
  assert.ok(!(await idsInLog()).has(event.id));
});

test('NDJSON cut at every byte: whole lines are taken, the torn one is named', async () => {
  const body = (a: string, b: string): Buffer => Buffer.from(`${a}\n${b}`);
  const length = JSON.stringify(sampleEvent()).length;
  for (let cut = 1; cut < length; cut += 7) {
    const [first, second] = [sampleEvent(), sampleEvent()];
    const line = JSON.stringify(second);
    const reply = await edge.post(body(JSON.stringify(first), line.slice(0, Math.min(cut, line.length - 1))), NDJSON);
    assert.deepEqual([reply.status, reply.body.accepted, reply.body.rejected.length], [200, 1, 1]);
    assert.deepEqual([reply.body.rejected[0]?.index, reply.body.rejected[0]?.code], [1, 'invalid_json']);
    const log = await idsInLog();
    assert.ok(log.has(first.id) && !log.has(second.id));
  }
});

for (const [name, pack] of [
  ['gzip', gzipSync],
  ['zstd', zstdCompressSync],
] as const) {
  test(`${name} cut at every byte is truncated_body; garbage behind it is broken_compression`, async () => {
    const event = sampleEvent();
    const packed = pack(cborArray([event]));
    for (let cut = 1; cut < packed.length; cut += 3) {
      await refused(await edge.post(packed.subarray(0, cut), { 'content-encoding': name }), 400, 'truncated_body', new RegExp(name));
    }
    await refused(await edge.post(Buffer.concat([packed, Buffer.from('tail')]), { 'content-encoding': name }), 400, 'broken_compression');
    await refused(await edge.post(cborArray([event]), { 'content-encoding': name }), 400, 'broken_compression');
    assert.ok(!(await idsInLog()).has(event.id));
  });

  test(`a ${name} bomb is stopped by its inflated size`, async () => {
    const bomb = pack(Buffer.alloc(96 << 20, 0x20));
    assert.ok(bomb.length < 2 << 20);
    await refused(
      await edge.post(bomb, { ...JSON_TYPE, 'content-encoding': name }),
      413,
      'inflated_too_large',
      /4194304 bytes; send smaller/,
    );
  });
}

test('headers that are not served: type, charset, encoding, none at all', async () => {
  const body = Buffer.from(JSON.stringify(sampleEvent()));
  await refused(await edge.post(body, { 'content-type': 'text/plain' }), 415, 'unsupported_media_type', /text\/plain.*application\/cbor/);
  await refused(await edge.post(body, { 'content-type': 'application/json; charset=utf-16' }), 415, 'unsupported_media_type', /utf-16/);
  await refused(await edge.post(body, { 'content-type': ';;;' }), 415, 'unsupported_media_type');
  await refused(await edge.post(body, { ...JSON_TYPE, 'content-encoding': 'br' }), 415, 'unsupported_encoding', /br.*gzip, zstd/);
  await refused(await edge.post(Buffer.alloc(0), JSON_TYPE), 400, 'bad_request', /empty/);
  const bare = await fetch(`${edge.url}/v1/events`, { method: 'POST' });
  assert.deepEqual([bare.status, ((await bare.json()) as Reply['body']).error.code], [400, 'bad_request']);
});

test('a body over the limit, and too many items of every kind', async () => {
  await refused(await edge.post(Buffer.alloc((2 << 20) + 1), JSON_TYPE), 413, 'body_too_large', /2097152 bytes; send smaller batches/);
  const events = Array.from({ length: 21 }, () => sampleEvent());
  const remedy = /more than 20 events.*smaller/;
  await refused(await edge.post(events), 413, 'too_many_items', remedy);
  await refused(
    await edge.post(Buffer.from(events.map((event) => JSON.stringify(event)).join('\n')), NDJSON),
    413,
    'too_many_items',
    remedy,
  );
  await refused(await edge.post(Buffer.concat(events.map((event) => encodeEvent(event)))), 413, 'too_many_items', remedy);
  await refused(await edge.post(Buffer.alloc(2_000_000, 0xa0)), 413, 'too_many_items', remedy);
  await refused(await edge.post(Buffer.from(`[${'{},'.repeat(600_000)}{}]`), JSON_TYPE), 413, 'too_many_items', remedy);
  const log = await idsInLog();
  assert.ok(events.every(({ id }) => !log.has(id)));
});

test('nesting that would break a stack is refused, whatever the form', async () => {
  const deep = (open: string, close: string, levels: number): Buffer => Buffer.from(open.repeat(levels) + close.repeat(levels));
  for (const reply of [
    await edge.post(deep('[', ']', 500_000), JSON_TYPE),
    await edge.post(deep('{"a":', '}', 200_000), JSON_TYPE),
    await edge.post(deep('{"a":', '}', 200_000), NDJSON),
    await edge.post(Buffer.alloc(1_000_000, 0x81)),
    await edge.post(Buffer.alloc(1_000_000, 0x9f)),
    await edge.post(Buffer.alloc(1_000_000, 0xa1)),
    await edge.post(Buffer.alloc(1_000_000, 0xc1)),
  ]) {
    assert.ok(reply.status === 400 || (reply.status === 200 && reply.body.accepted === 0), JSON.stringify(reply.body).slice(0, 300));
  }
  const event = sampleEvent();
  let nested: unknown = 1;
  for (let i = 0; i < 2000; i++) nested = { nested };
  const reply = await edge.post([sampleEvent(), { ...event, data: { scope: 'run', name: 'x', value: 1, extra: { nested } } }]);
  assert.deepEqual([reply.status, reply.body.accepted, reply.body.rejected.map(({ code }) => code)], [200, 1, ['too_deep']]);
});

test('a length that promises more than there is allocates nothing', async () => {
  for (const head of [
    [0x9b, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff],
    [0xbb, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff],
    [0x5b, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff],
  ]) {
    await refused(await edge.post(Buffer.from(head)), 400, 'invalid_cbor');
  }
});

const mistyped: [string, Record<string, unknown>, string][] = [
  ['id missing', { id: undefined }, 'missing_field'],
  ['id no uuid', { id: 'abc' }, 'invalid_id'],
  ['type missing', { type: undefined }, 'missing_field'],
  ['type a number', { type: 7 }, 'wrong_type'],
  ['version unknown', { v: 99 }, 'unsupported_version'],
  ['time in seconds as a float', { time: 1.5 }, 'time_range'],
  ['time negative', { time: -1 }, 'time_range'],
  ['run too long', { run: 'x'.repeat(257) }, 'id_too_long'],
  ['run missing', { run: undefined }, 'missing_field'],
  ['data an array', { data: [] }, 'wrong_type'],
  ['data missing', { data: undefined }, 'missing_field'],
  ['producer broken', { producer: { id: 'p', epoch: -1, seq: 0 } }, ''],
];
for (const [name, over, code] of mistyped) {
  test(`mistyped: ${name}; the event before and after it are taken`, async () => {
    const events = [sampleEvent(), sampleEvent(over), sampleEvent()];
    const plain = events.map((event) => JSON.parse(JSON.stringify(event)) as object);
    for (const reply of [await edge.post(events), await edge.post(cborArray(plain))]) {
      assert.deepEqual([reply.status, reply.body.accepted, reply.body.rejected.length], [200, 2, 1], JSON.stringify(reply.body));
      const [rejected] = reply.body.rejected;
      assert.equal(rejected?.index, 1);
      if (code !== '') assert.equal(rejected?.code, code);
      assert.ok((rejected?.message ?? '').length > 10);
    }
  });
}

test('broken items inside a good frame: bad UTF-8, doubled keys, wrong tags, other values', async () => {
  const good = sampleEvent();
  const badText = Buffer.from(encodeEvent(sampleEvent({ run: 'run-XX' })));
  badText.write('\xff\xfe', badText.indexOf('XX'), 'latin1');
  const items = [
    Buffer.from(encodeEvent(good)),
    badText,
    Buffer.from('a2616101616102', 'hex'),
    Buffer.from([0xf6]),
    Buffer.from([0x01]),
    Buffer.from('d84543010203', 'hex'),
  ];
  const reply = await edge.post(Buffer.concat([Buffer.from([0x80 + items.length]), ...items]));
  assert.deepEqual([reply.status, reply.body.accepted, reply.body.rejected.length], [200, 1, 5], JSON.stringify(reply.body));
  assert.deepEqual(
    reply.body.rejected.slice(0, 2).map(({ code }) => code),
    ['invalid_utf8', 'duplicate_key'],
  );
});

test('hostile names do not reach prototypes, and come back as they were', async () => {
  const event = Buffer.from(
    JSON.stringify(sampleEvent()).replace('"run":', '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"run":'),
  );
  const reply = await edge.post(event, JSON_TYPE);
  assert.equal(reply.body.accepted, 1);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  assert.ok((await edge.stored()).some((s) => Object.hasOwn(s.event, '__proto__') && Object.hasOwn(s.event, 'constructor')));
});

test('any bytes in any type and encoding: an answer in our shape, never a 5xx, and the log agrees', async () => {
  const event = sampleEvent();
  const seedBody = fc.constantFrom(cborArray([event]), Buffer.from(JSON.stringify([event])), gzipSync(cborArray([event])));
  const mutated = fc.tuple(seedBody, fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { minLength: 1, maxLength: 4 })).map(([body, edits]) => {
    const copy = Buffer.from(body);
    for (const [at, byte] of edits) copy[at % copy.length] = byte;
    return copy;
  });
  const anyBody = fc.oneof(
    mutated,
    fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  );
  const types = fc.constantFrom('application/cbor', 'application/json', 'application/x-ndjson');
  const encodings = fc.constantFrom('identity', 'gzip', 'zstd');
  let inLog = (await edge.stored()).length;
  await fc.assert(
    fc.asyncProperty(anyBody, types, encodings, async (body, type, encoding) => {
      const reply = await edge.post(body, { 'content-type': type, 'content-encoding': encoding });
      assert.ok(reply.status < 500, `${reply.status} ${JSON.stringify(reply.body)}`);
      const before = inLog;
      inLog = (await edge.stored()).length;
      assert.equal(inLog - before, reply.status === 200 ? reply.body.accepted : 0, 'the log grew by what was accepted');
      if (reply.status !== 200) assert.equal(typeof reply.body.error.code, 'string');
    }),
    { numRuns: 300 },
  );
});

test('acknowledged = in the log, refused = not in the log, for shuffled batches of good, bad and doubled events', async () => {
  const kinds = fc.array(fc.constantFrom('good', 'bad', 'twin', 'unknown'), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(kinds, fc.boolean(), async (batch, asCbor) => {
      let last = sampleEvent();
      const events = batch.map((kind) => {
        if (kind === 'twin') return last;
        last = sampleEvent(kind === 'bad' ? { time: -5 } : kind === 'unknown' ? { type: 'x.y' } : { rollout: `r-${batch.length}` });
        return last;
      });
      const reply = await edge.post(asCbor ? cborArray20(events) : events);
      assert.equal(reply.status, 200);
      const { accepted, duplicates, rejected } = reply.body;
      assert.equal(accepted + duplicates + rejected.length, events.length);
      const bad = new Set(rejected.map(({ id }) => id));
      const log = await idsInLog();
      for (const { id } of events) assert.equal(log.has(id), !bad.has(id));
    }),
    { numRuns: 30 },
  );
});

function cborArray20(events: object[]): Buffer {
  return Buffer.concat([Buffer.from([0x98, events.length]), ...events.map((event) => encodeEvent(event))]);
}
