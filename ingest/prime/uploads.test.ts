/** Uploads over a real edge and a real log: all or nothing, the same bytes the same receipt, every refusal by name. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { talk, type Edge, type Stored } from '../http/edge-under-test.ts';
import { episodeOf } from '../importers/export-verifiers.ts';
import { sameJson, type Json } from '../importers/json-value.ts';
import { writeJson } from '../importers/json-text.ts';
import { BARE_EPISODE, EPISODE_040, EPISODES, parsed, TRAIN_EPISODE } from '../importers/sample-records.ts';
import { episodeEvents } from '../importers/verifiers-v1.ts';
import { BOUNDARY, METADATA, multipart, openPrimeEdge, sha256, upload, uploadRequest, type UploadParts } from './upload-under-test.ts';

const SAMPLES = join(import.meta.dirname, '../../../shared/peers/samples');
const skip = existsSync(SAMPLES) ? false : 'the recorded requests (../shared/peers) are not here';

let edge: Edge;
before(async () => {
  edge = await openPrimeEdge({ uploads: { lineBytes: 200_000, uploadBytes: 2_000_000, eventBytes: 1_500_000 } });
});
afterEach(() => {
  edge.tap = () => {};
});
after(() => edge.close());

const LINES = EPISODES.map(([, text]) => `${text}\n`).join('');

/** A copy of the sample episode with ids of its own, as prime-runs stamps it. */
function stamped(id: string, run = 'r1', text = TRAIN_EPISODE): string {
  const episode = JSON.parse(text) as { traces: { id: string }[] } & Record<string, unknown>;
  const at = { type: 'eval', id: run, name: 'n' };
  return JSON.stringify({ ...episode, id, run: at, traces: episode.traces.map((trace, i) => ({ ...trace, id: `${id}-${i}`, run: at })) });
}

/** How many events there are, after removing repetitions, and what `work` adds to them. */
async function added<T>(work: () => Promise<T>): Promise<{ result: T; fresh: Stored[]; repeated: number }> {
  const before = await edge.stored();
  const known = new Set(before.map(({ id }) => id));
  const result = await work();
  const after = (await edge.stored()).slice();
  const fresh = new Map(after.filter(({ id }) => !known.has(id)).map((stored) => [stored.id, stored]));
  return { result, fresh: [...fresh.values()], repeated: after.length - before.length - fresh.size };
}

test('episodes become the events that importing their file makes, with a note on each rollout', async () => {
  const { result, fresh } = await added(() => upload(edge.url, { lines: LINES }));
  assert.deepEqual([result.status, result.body], [200, { upload_id: sha256(LINES), status: 'committed' }]);
  const ids = new Set(fresh.map(({ id }) => id));
  for (const [, text] of EPISODES) {
    const made = episodeEvents(parsed(text));
    assert.ok(made.ok);
    const type = (stored: Stored): unknown => stored.event['type'];
    const mine = fresh.filter(({ event }) => event['rollout'] === made.value.rollout);
    assert.equal(mine.length, made.value.events.length + 1);
    const note = mine.filter((stored) => type(stored) === 'note.added');
    assert.deepEqual(
      note.map(({ event }) => event['data']),
      [{ scope: 'rollout', label: 'upload', extra: { upload: sha256(LINES), format: 'episode', context: (JSON.parse(METADATA) as { context: object }).context } }],
    ); // prettier-ignore
    // the last word on the rollout, in its own partition
    assert.equal(type(mine.at(-1) as Stored), 'note.added');
    const back = await episodeOf(made.value.rollout, mine.map(({ value }) => value)); // prettier-ignore
    assert.ok(sameJson(back?.episode, parsed(text)));
    assert.equal(back?.left.size, 0);
  }
  assert.ok(fresh.some(({ event }) => event['type'] === 'run.started' && event['run'] === 'r1'));
  assert.equal(ids.size, fresh.length);
});

test('the same bytes get the same receipt and add nothing, remembered or not', async () => {
  const lines = `${stamped('again')}\n`;
  const first = await upload(edge.url, { lines });
  const { result, fresh, repeated } = await added(() => upload(edge.url, { lines }));
  assert.deepEqual([result.status, result.body, fresh.length, repeated], [200, first.body, 0, 0]);
  // a process that remembers nothing appends them again: duplicates, by their ids
  const { fresh: none, repeated: all } = await added(async () => upload(edge.url, { lines: `${lines}\n` }));
  assert.deepEqual(none.map(({ event }) => event['type']), ['note.added']); // prettier-ignore
  assert.ok(all > 10);
});

test('the stamp of the uploader is not stored: an upload and its file are the same events', async () => {
  const plain = JSON.parse(stamped('both')) as { traces: Record<string, unknown>[] };
  const file = JSON.stringify({ ...plain, traces: plain.traces.map((trace) => ({ ...trace, run: undefined })) });
  const made = episodeEvents(parsed(file));
  const { fresh } = await added(() => upload(edge.url, { lines: stamped('both') }));
  assert.ok(made.ok);
  const fromFile = new Set(made.value.events.map(({ slice }) => Buffer.from(slice).toString('hex')));
  const fromUpload = fresh.filter(({ event }) => event['type'] !== 'note.added' && event['type'] !== 'run.started');
  assert.deepEqual(new Set(fromUpload.map(({ value }) => Buffer.from(value).toString('hex'))), fromFile);
});

test('a member that belongs to another run keeps its stamp', async () => {
  const episode = JSON.parse(stamped('other')) as { traces: { run: { id: string } }[] };
  (episode.traces[0] as { run: { id: string } }).run.id = 'elsewhere';
  const { fresh } = await added(() => upload(edge.url, { lines: JSON.stringify(episode) }));
  const back = await episodeOf('other', fresh.map(({ value }) => value)); // prettier-ignore
  assert.ok(sameJson(back?.episode, parsed(JSON.stringify(episode))));
});

test('bare traces become rollouts of their own', async () => {
  const traces = (JSON.parse(TRAIN_EPISODE) as { traces: Record<string, unknown>[] }).traces.map((trace) => ({
    ...trace,
    id: 'bare-1',
    run: { type: 'eval', id: 'bare-run' },
  }));
  const lines = traces.map((trace) => `${JSON.stringify(trace)}\n`).join('');
  const { result, fresh } = await added(() => upload(edge.url, { lines, format: 'trace' }));
  assert.equal(result.status, 200);
  assert.deepEqual(new Set(fresh.map(({ event }) => [event['rollout'], event['trace'], event['run']].join())), new Set(['bare-1,bare-1,bare-run', 'bare-1,,bare-run', ',,bare-run'])); // prettier-ignore
  assert.equal(fresh.filter(({ event }) => event['type'] === 'node.appended').length, 5);
});

const GOOD = stamped('good');
const BAD: readonly (readonly [what: string, code: string, status: number, parts: UploadParts, message: RegExp])[] = [
  ['a line that is no JSON', 'invalid_trace', 400, { lines: `${GOOD}\n{"id":\n` }, /line 2: /],
  ['a line that is no object', 'invalid_trace', 400, { lines: `${GOOD}\n[]\n` }, /line 2: an episode must be an object/],
  ['an episode whose id is none', 'invalid_trace', 400, { lines: `${GOOD}\n{"id":"","traces":[]}` }, /line 2: id must be/],
  ['a node that fits no event', 'invalid_trace', 400, { lines: `${stamped('odd').replace('"mask":[false,false,false]', '"mask":[false,false]')}\n${GOOD.replace('"nodes":[{', '"nodes":[3,{')}` }, /line 2: .*nodes/],
  ['a trace announced as an episode', 'line_format_mismatch', 400, { lines: '{"id":"x","nodes":[]}' }, /line 1: this is no episode/],
  ['an episode announced as a trace', 'line_format_mismatch', 400, { lines: GOOD, format: 'trace' }, /line 1: this is an episode/],
  ['another line format', 'line_format_mismatch', 400, { lines: GOOD, format: 'parquet' }, /not known/],
  ['a line that is too long', 'trace_too_large', 400, { lines: `${GOOD}\n${JSON.stringify({ id: 'x'.repeat(200_001) })}\n` }, /line 2 has 2000\d\d bytes, the limit is 200000/],
  ['too much after decompression', 'upload_too_large', 400, { lines: ' '.repeat(2_000_001) }, /more than 2000000 bytes/],
  ['a gzip bomb', 'upload_too_large', 400, { lines: 'x', content: gzipSync(Buffer.alloc(200_000_000)) }, /more than 2000000 bytes/],
  ['an episode twice', 'duplicate_episode_id', 400, { lines: `${GOOD}\n${GOOD.replaceAll('good-0', 'good-1')}` }, /line 2: the episode id "good" came before/],
  ['a trace twice', 'duplicate_trace_id', 400, { lines: `${GOOD}\n${GOOD.replace('"id":"good"', '"id":"good2"')}` }, /line 2: the trace id "good-0" came before/],
  ['no line', 'invalid_trace', 400, { lines: '\n \n' }, /no line/],
  ['another digest', 'digest_mismatch', 400, { lines: GOOD, headers: { 'idempotency-key': `sha256:${'0'.repeat(64)}` } }, /not the sha256/],
  ['a key that is no digest', 'invalid_idempotency_key', 400, { lines: GOOD, headers: { 'idempotency-key': 'abc' } }, /64 lower-case/],
  ['gzip that was cut', 'malformed_encoding', 400, { lines: GOOD, content: gzipSync(GOOD).subarray(0, 100) }, /not valid gzip/],
  ['no gzip at all', 'malformed_encoding', 400, { lines: GOOD, content: Buffer.from(GOOD) }, /not valid gzip/],
  ['bytes after the gzip', 'malformed_encoding', 400, { lines: GOOD, content: Buffer.concat([gzipSync(GOOD), Buffer.from('abc')]) }, /not valid gzip/],
  ['another part encoding', 'malformed_encoding', 400, { lines: GOOD, partHeaders: 'Content-Disposition: form-data; name="traces"\r\nContent-Encoding: br' }, /"br" of the part traces/],
  ['another part type', 'malformed_encoding', 400, { lines: GOOD, partHeaders: 'Content-Disposition: form-data; name="traces"\r\nContent-Type: text/csv' }, /text\/csv/],
  ['a compressed request', 'malformed_encoding', 400, { lines: GOOD, headers: { 'content-encoding': 'gzip' } }, /request as a whole/],
  ['another content type', 'unsupported_media_type', 400, { lines: GOOD, headers: { 'content-type': 'application/json' } }, /multipart\/form-data/],
  ['a body that ends early', 'malformed_encoding', 400, { lines: GOOD, body: uploadRequest({ lines: GOOD }).body.subarray(0, -20) }, /ends before its closing boundary/],
  ['no metadata', 'invalid_metadata', 400, { lines: GOOD, body: multipart([['Content-Disposition: form-data; name="traces"', GOOD]]) }, /metadata is missing/],
  ['no traces', 'malformed_encoding', 400, { lines: GOOD, body: multipart([['Content-Disposition: form-data; name="metadata"', METADATA]]) }, /traces is missing/],
  ['another part', 'malformed_encoding', 400, { lines: GOOD, body: multipart([['Content-Disposition: form-data; name="file"', GOOD]]) }, /no part "file"/],
  ['metadata that is no JSON', 'invalid_metadata', 400, { lines: GOOD, metadata: '{' }, /not JSON/],
  ['another schema version', 'unsupported_schema_version', 400, { lines: GOOD, metadata: '{"schema_version": 2}' }, /must be 1/],
  ['a context that is no map of texts', 'invalid_metadata', 400, { lines: GOOD, metadata: '{"schema_version": 1, "context": {"a": 1}}' }, /context.a must be a text/],
  ['metadata without end', 'invalid_metadata', 400, { lines: GOOD, metadata: JSON.stringify({ schema_version: 1, x: 'y'.repeat(70_000) }) }, /more than 65536 bytes/],
]; // prettier-ignore

for (const [what, code, status, parts, message] of BAD) {
  test(`${what} is refused by name, and nothing is stored`, async () => {
    const { result, fresh, repeated } = await added(() => upload(edge.url, parts));
    assert.deepEqual([result.status, result.body.error?.code, fresh.length, repeated], [status, code, 0, 0], JSON.stringify(result.body));
    assert.match(result.body.error?.message ?? '', message);
  });
}

test('events that grow beyond their limit are refused', async () => {
  const nodes = Array.from({ length: 4_000 }, () => '{"message":{"role":"user"},"sampled":false}').join();
  const lines = `{"id":"${'e'.repeat(250)}","traces":[{"id":"${'t'.repeat(250)}","nodes":[${nodes}]}]}`;
  const { result, fresh } = await added(() => upload(edge.url, { lines }));
  assert.deepEqual([result.status, result.body.error?.code, fresh.length], [400, 'upload_too_large', 0]);
  assert.match(result.body.error?.message ?? '', /events of this upload have more than 1500000 bytes/);
});

test('runs that were deleted take no upload, also one that was remembered', async () => {
  const lines = stamped('doomed', 'doomed-run');
  assert.equal((await upload(edge.url, { lines })).status, 200);
  edge.tombstones.add(undefined, 'doomed-run');
  for (const text of [lines, `${lines}\n`]) {
    const { result, fresh } = await added(() => upload(edge.url, { lines: text }));
    assert.deepEqual([result.status, result.body.error?.code, fresh.length], [410, 'run_deleted', 0]);
  }
});

test('a log that fails in the middle is 503 with Retry-After; the same request again completes it', async () => {
  const many = Array.from({ length: 12 }, (_, i) => stamped(`part${i}`, 'parts')).join('\n');
  let appends = 0;
  edge.tap = () => {
    if (++appends > 2) throw new TapedeckError('append_unclear', 'the answer was lost');
  };
  const { result, fresh: some } = await added(() => upload(edge.url, { lines: many }));
  assert.deepEqual([result.status, result.body.error?.code], [503, 'append_unclear']);
  assert.match(result.headers.get('retry-after') ?? '', /^[1-3]$/);
  edge.tap = () => {};
  const { result: again, fresh: rest } = await added(() => upload(edge.url, { lines: many }));
  assert.deepEqual(again.body, { upload_id: sha256(many), status: 'committed' });
  const whole = await openPrimeEdge();
  try {
    await upload(whole.url, { lines: many });
    assert.equal(some.length + rest.length, (await whole.stored()).length);
    assert.deepEqual(new Set([...some, ...rest].map(({ id }) => id)), new Set((await whole.stored()).map(({ id }) => id)));
  } finally {
    await whole.close();
  }
});

test('a full edge answers 429 with Retry-After and keeps nothing', async () => {
  const small = await openPrimeEdge({ limits: { inFlightBytes: 300_000 } });
  const slow = Promise.withResolvers<void>();
  try {
    small.tap = () => slow.promise;
    const first = upload(small.url, { lines: stamped('first') });
    while (!(await (await fetch(`${small.url}/metrics`)).text()).match(/tapedeck_ingest_bytes_in_flight [1-9]/));
    const big = Array.from({ length: 200 }, (_, i) => stamped(`big${i}`)).join('\n');
    const second = await upload(small.url, { lines: big });
    assert.deepEqual([second.status, second.body.error?.code], [429, 'overloaded']);
    assert.match(second.headers.get('retry-after') ?? '', /^[1-3]$/);
    slow.resolve();
    assert.equal((await first).status, 200);
    assert.equal((await upload(small.url, { lines: big })).status, 200);
    assert.match(await (await fetch(`${small.url}/metrics`)).text(), /tapedeck_ingest_bytes_in_flight 0/);
  } finally {
    slow.resolve();
    await small.close();
  }
});

test('a client that stops sending is cut off; one that goes away leaves nothing behind', async () => {
  const quick = await openPrimeEdge({ limits: { bodyIdleMs: 150 } });
  try {
    const { headers, body } = uploadRequest({ lines: stamped('slow') });
    const head = ['POST /api/v1/traces HTTP/1.1', 'host: x', `content-length: ${body.length}`, ...Object.entries(headers).map(([k, v]) => `${k}: ${v}`), '', ''].join('\r\n');
    const answer = await talk(await quick.socket(), [head, body.subarray(0, -100)], 10_000);
    assert.match(answer, /^HTTP\/1.1 503 [\s\S]*retry-after[\s\S]*"slow_body"/);
    const socket = await quick.socket();
    socket.write(head);
    socket.write(body.subarray(0, 700));
    socket.destroy();
    assert.equal((await upload(quick.url, { lines: stamped('alive') })).status, 200);
    assert.ok((await quick.stored()).every(({ event }) => event['rollout'] === 'alive' || event['rollout'] === undefined));
  } finally {
    await quick.close();
  }
}); // prettier-ignore

test('a refusal reaches a client that is still sending', async () => {
  const big = Buffer.alloc(1_900_000, 'x');
  const answer = await upload(edge.url, { lines: 'x', partHeaders: 'Content-Disposition: form-data; name="nothing"', content: big });
  assert.deepEqual([answer.status, answer.body.error?.code], [400, 'malformed_encoding']);
});

test('values over the limit go to the blob store; numbers, nulls and odd text come back exactly', async () => {
  const long = 'ü'.repeat(80_000);
  const episode = parsed(BARE_EPISODE.replace('"id":"e3"', '"id":"exact"').replace('\\ud800 alone', long)) as { [key: string]: Json };
  const out = new ByteWriter();
  writeJson(episode, out);
  const small = await openPrimeEdge({ limits: { valueBytes: 50_000 } });
  try {
    assert.equal((await upload(small.url, { lines: Buffer.from(out.take()) })).status, 200);
    assert.ok((await small.stored()).every(({ value }) => value.length < 50_000));
    assert.ok((await small.stored()).some(({ event }) => JSON.stringify(event['data']).includes(long)));
  } finally {
    await small.close();
  }
});

test('no credential is written anywhere', async () => {
  assert.equal((await upload(edge.url, { lines: stamped('key') })).status, 200);
  assert.ok((await edge.stored()).every(({ value }) => !Buffer.from(value).includes('secret-key')));
});

test('the recorded files of verifiers 0.4.0 come back equal', { skip }, async () => {
  const wide = await openPrimeEdge();
  try {
    for (const name of ['verifiers-0.4.0-eval-client-tools', 'verifiers-0.4.0-train-client']) {
      const lines = readFileSync(join(SAMPLES, `${name}.traces.jsonl`));
      assert.equal((await upload(wide.url, { lines })).status, 200);
      for (const line of lines.toString().trim().split('\n')) {
        const original = parsed(line) as { id: string };
        const mine = (await wide.stored()).filter(({ event }) => event['rollout'] === original.id);
        const back = await episodeOf(original.id, mine.map(({ value }) => value)); // prettier-ignore
        assert.ok(sameJson(back?.episode, original as unknown as Json));
      }
    }
  } finally {
    await wide.close();
  }
});

test('the request of these tests is the recorded one', { skip }, () => {
  type Recorded = { p: string; h: Record<string, string>; b: { raw_bytes: number; head: string } };
  const recorded = readFileSync(join(SAMPLES, 'vf-eval-push-requests.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Recorded); // prettier-ignore
  const traces = recorded.filter(({ p }) => p === '/api/v1/traces');
  assert.equal(traces.length, 2);
  for (const { h, b } of traces) {
    const boundary = h['content-type']?.split('boundary=')[1] as string;
    const { body, headers } = uploadRequest({ lines: EPISODE_040 });
    assert.equal(b.head, body.toString('latin1').replaceAll(BOUNDARY, boundary).slice(0, b.head.length));
    assert.ok(b.head.includes('Content-Encoding: gzip'));
    assert.equal(h['x-prime-line-format'], headers['x-prime-line-format']);
    assert.match(h['idempotency-key'] ?? '', /^sha256:[0-9a-f]{64}$/);
  }
});
