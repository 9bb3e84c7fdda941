/** Makes events whose ids are a function of their content and their place, so that importing the same record again adds nothing. */
import { hash } from 'node:crypto';
import { ByteWriter } from '../../base/byte-writer.ts';
import { uuidV8 } from '../../base/uuid.ts';
import { encodeCbor, writeHead, writeText } from '../../events/codec/cbor-encode.ts';
import { MAJOR } from '../../events/codec/cbor-head.ts';
import { DEFAULT_PROJECT, EVENTS_VERSION } from '../../events/envelope.ts';
import type { EventType } from '../../events/registry.ts';

export type Scope = {
  readonly project?: string | undefined;
  readonly run: string;
  readonly group?: string | undefined;
  readonly rollout?: string | undefined;
  readonly trace?: string | undefined;
};
/** One event as it goes to the server: its type (for reports) and its CBOR bytes. */
export type ImportedEvent = { readonly type: EventType; readonly slice: Uint8Array };

/** Buffers that are written anew by every call (which never waits); when a huge event made them large, they are let go. */
const SCRATCH_BYTES = 64 * 1024;
const KEEP_BYTES = 1024 * 1024;
let contentScratch = new ByteWriter(SCRATCH_BYTES);
let eventScratch = new ByteWriter(SCRATCH_BYTES);

/**
 * One event. `place` tells it from others of the same type and scope with the same content ("node/3", "error/0"). The id is the sha256 of the JSON text
 * ["tapedeck.import.1", project, run, group, rollout, trace, type, place, time] followed by `data` as CBOR, as a UUID of version 8.
 * `time` is microseconds; 0 when the record has no time at all.
 */
export function makeEvent(scope: Scope, type: EventType, place: string, time: number, data: object): ImportedEvent {
  const { project, run, group, rollout, trace } = scope;
  const content = contentScratch;
  content.clear();
  content.utf8(JSON.stringify(['tapedeck.import.1', project ?? DEFAULT_PROJECT, run, group, rollout, trace, type, place, time]));
  const identityBytes = content.length;
  encodeCbor(data, content);
  const id = uuidV8(hash('sha256', content.view(), 'buffer'));
  const fields = Object.entries({ v: EVENTS_VERSION, id, type, project, run, group, rollout, trace, time }).filter(
    ([, value]) => value !== undefined,
  );
  const event = eventScratch;
  event.clear();
  writeHead(MAJOR.map, fields.length + 1, event);
  for (const [key, value] of fields) {
    writeText(key, event);
    encodeCbor(value, event);
  }
  writeText('data', event);
  event.bytes(content.view().subarray(identityBytes));
  const slice = event.take();
  if (slice.length > KEEP_BYTES) {
    contentScratch = new ByteWriter(SCRATCH_BYTES);
    eventScratch = new ByteWriter(SCRATCH_BYTES);
  }
  return { type, slice };
}
