/** CPU of the projection alone, on the node events of the hot path: 2 KB of text, 512 tokens, 400 logprobs. Run: node store/columns/projections/project.bench.ts */
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import { sampleNode } from '../../../events/codec/sample-events.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { createBlock } from './block.ts';
import { ledger, NO_REASON } from './ledger.ts';
import { project } from './project.ts';
import type { StoredEvent } from './stored-event.ts';

const EVENTS = 500;
const LIMIT_US = 12;
const hash = { event: '01'.repeat(16), data: '02'.repeat(16) };
const stored: StoredEvent[] = Array.from({ length: EVENTS }, (_, offset) => {
  const slice = encodeEvent(sampleNode(offset >> 3));
  return { event: decodeCbor(slice) as TapedeckEvent, slice, topic: 'events', partition: 0, offset, hash };
});

const block = createBlock();
let projectUs = Infinity;
let encodeUs = Infinity;
let bytes = 0;
for (let round = 0; round < 100; round++) {
  block.clear();
  const started = performance.now();
  for (const one of stored) {
    project(one, block);
    ledger(one, 'stored', NO_REASON, block);
  }
  const projected = performance.now();
  bytes = 0;
  for (const table of block.tables) if (table.rows > 0) bytes += table.encode().length;
  projectUs = Math.min(projectUs, ((projected - started) * 1000) / EVENTS);
  encodeUs = Math.min(encodeUs, ((performance.now() - projected) * 1000) / EVENTS);
}
const verdict = projectUs < LIMIT_US ? 'ok  ' : 'OVER';
process.stdout.write(`${verdict} project ${projectUs.toFixed(1)} us/event (limit ${LIMIT_US}), encode ${encodeUs.toFixed(1)} us/event, ${Math.round(bytes / EVENTS)} bytes of blocks/event\n`); // prettier-ignore
