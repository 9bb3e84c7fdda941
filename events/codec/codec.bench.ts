/** Prints the cost of each codec stage in microseconds per event, beside the limits of the same bytes. Run: node events/codec/codec.bench.ts */
import { createHash } from 'node:crypto';
import { ByteWriter } from '../../base/byte-writer.ts';
import { checkEvent } from '../check.ts';
import { readEvent } from '../read-event.ts';
import { decodeCbor } from './cbor-decode.ts';
import { encodeEvent } from './cbor-encode.ts';
import { splitCborItems } from './cbor-items.ts';
import { sampleNode } from './sample-events.ts';

const BATCH = 100;
const values = Array.from({ length: BATCH }, (_, i) => sampleNode(i));
const slices = values.map((v) => encodeEvent(v));
const body = Buffer.concat([Buffer.from([0x98, BATCH]), ...slices]);
const perEvent = (body.length / BATCH).toFixed(0);

function measure(name: string, work: () => void): void {
  const until = performance.now() + 200;
  while (performance.now() < until) work();
  const rounds: number[] = [];
  for (let r = 0; r < 7; r++) {
    const n = 30;
    const start = performance.now();
    for (let i = 0; i < n; i++) work();
    rounds.push(((performance.now() - start) * 1000) / (n * BATCH));
  }
  rounds.sort((a, b) => a - b);
  process.stdout.write(
    `${name.padEnd(44)} ${(rounds[3] as number).toFixed(2).padStart(8)} us/event  (best ${(rounds[0] as number).toFixed(2)})\n`,
  );
}

process.stdout.write(`batch of ${BATCH} node.appended events, ${perEvent} B each as CBOR\n`);
const target = Buffer.alloc(body.length);
measure('limit: memcpy of the body', () => body.copy(target));
measure('limit: sha256 of each slice', () => {
  for (const s of slices) createHash('sha256').update(s).digest();
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
measure('encodeEvent', () => {
  for (const v of values) encodeEvent(v);
});
export const writer = new ByteWriter(1 << 20);
