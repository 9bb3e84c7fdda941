/** Prints the cost of each codec stage in microseconds per event, beside the limits of the same bytes. Run: node events/codec/codec.bench.ts */
import { hash } from 'node:crypto';
import { ByteWriter } from '../../base/byte-writer.ts';
import { checkEvent } from '../check.ts';
import { contentHash } from '../content-hash.ts';
import { readEvent } from '../read-event.ts';
import { PackedArray } from '../packed-array.ts';
import { cborToJson, toJson } from './cbor-to-json.ts';
import { splitJsonItems } from './json-items.ts';
import { jsonToCbor } from './json-to-cbor.ts';
import { decodeCbor } from './cbor-decode.ts';
import { encodeEvent } from './cbor-encode.ts';
import { splitCborItems } from './cbor-items.ts';
import { sampleNode } from './sample-events.ts';

const BATCH = 100;
const values = Array.from({ length: BATCH }, (_, i) => sampleNode(i));
const slices = values.map((v) => encodeEvent(v));
const body = Buffer.concat([Buffer.from([0x98, BATCH]), ...slices]);
const perEvent = (body.length / BATCH).toFixed(0);

function cpuMicros(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** CPU time of this thread, so that neighbours on the machine disturb less; the median of 5 rounds. */
function measure(name: string, work: () => void): void {
  let perRound = 0;
  for (const until = performance.now() + 200; performance.now() < until; perRound++) work();
  const rounds: number[] = [];
  for (let r = 0; r < 5; r++) {
    const start = cpuMicros();
    for (let i = 0; i < perRound; i++) work();
    rounds.push((cpuMicros() - start) / (perRound * BATCH));
  }
  rounds.sort((a, b) => a - b);
  process.stdout.write(
    `${name.padEnd(44)} ${(rounds[2] as number).toFixed(2).padStart(8)} us/event  (best ${(rounds[0] as number).toFixed(2)})\n`,
  );
}

process.stdout.write(`batch of ${BATCH} node.appended events, ${perEvent} B each as CBOR\n`);
const target = Buffer.alloc(body.length);
measure('limit: memcpy of the body', () => body.copy(target));
measure('limit: sha256 of each slice', () => {
  for (const s of slices) hash('sha256', s, 'binary');
});
measure('splitCborItems', () => {
  splitCborItems(body);
});
const ranges = splitCborItems(body);
if (!ranges.ok) throw new Error(ranges.error.message);
measure('decodeCbor', () => {
  for (const r of ranges.value) decodeCbor(body, r.start, r.end);
});
const decoded = ranges.value.map((r) => decodeCbor(body, r.start, r.end));
measure('checkEvent', () => {
  for (const d of decoded) if (!checkEvent(d).ok) throw new Error('refused');
});
measure('readEvent (decode + check)', () => {
  for (const s of slices) readEvent(s);
});
measure('contentHash', () => {
  for (const s of slices) contentHash(s);
});
measure('encodeEvent', () => {
  for (const v of values) encodeEvent(v);
});

type Streams = { ids: PackedArray<'u32'>; mask: PackedArray<'u8'>; logprobs: PackedArray<'f32'> };
/** The events as JSON text, with token streams as `write` puts them. */
function jsonEvents(write: (tokens: Streams) => Record<string, unknown>): Buffer[] {
  return values.map((v) => {
    const data = v['data'] as Record<string, unknown>;
    return Buffer.from(JSON.stringify({ ...v, data: { ...data, tokens: write(data['tokens'] as Streams) } }));
  });
}
const base64 = (a: PackedArray): string => Buffer.from(a.bytes).toString('base64');
const JSON_FORMS = {
  '7 digits': jsonEvents((t) => ({ ids: [...t.ids.typed()], mask: [...t.mask.typed()], logprobs: Array.from(t.logprobs.typed(), (x) => Number(x.toPrecision(7))) })),
  '17 digits': jsonEvents((t) => ({ ids: [...t.ids.typed()], mask: [...t.mask.typed()], logprobs: [...t.logprobs.typed()] })),
  base64: jsonEvents((t) => ({ ids: base64(t.ids), mask: base64(t.mask), logprobs: base64(t.logprobs) })),
}; // prettier-ignore
const writer = new ByteWriter(1 << 20);
for (const [form, texts] of Object.entries(JSON_FORMS)) {
  const json = Buffer.concat([Buffer.from('['), ...texts.flatMap((t) => [t, Buffer.from(',')]).slice(0, -1), Buffer.from(']')]);
  process.stdout.write(`\nJSON, streams as ${form}: ${(json.length / BATCH).toFixed(0)} B each\n`);
  const strings = texts.map(String);
  measure('limit: JSON.parse of the text', () => {
    for (const s of strings) JSON.parse(s);
  });
  measure('splitJsonItems', () => {
    splitJsonItems(json);
  });
  const items = splitJsonItems(json);
  if (!items.ok) throw new Error(items.error.message);
  measure('jsonToCbor', () => {
    writer.clear();
    for (const r of items.value) jsonToCbor(json, r.start, r.end, writer);
  });
}
measure('cborToJson', () => {
  writer.clear();
  for (const s of slices) cborToJson(s, 0, s.length, writer);
});
measure('toJson of the message', () => {
  for (const v of values) toJson((v['data'] as Record<string, unknown>)['message']);
});
