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

/**
 * One event. `place` tells it from others of the same type and scope with the same content ("node/3", "error/0"). The id is the sha256 of the JSON text
 * ["tapedeck.import.1", project, run, group, rollout, trace, type, place, time] followed by `data` as CBOR, as a UUID of version 8.
 * `time` is microseconds; 0 when the record has no time at all.
 */
export function makeEvent(scope: Scope, type: EventType, place: string, time: number, data: object): ImportedEvent {
  const { project, run, group, rollout, trace } = scope;
  const out = new ByteWriter(FIRST_BYTES);
  out.utf8(JSON.stringify(['tapedeck.import.1', project ?? DEFAULT_PROJECT, run, group, rollout, trace, type, place, time]));
  const identityBytes = out.length;
  encodeCbor(data, out);
  const content = out.view();
  const id = uuidV8(hash('sha256', content, 'buffer'));
  const fields = Object.entries({ v: EVENTS_VERSION, id, type, project, run, group, rollout, trace, time }).filter(
    ([, value]) => value !== undefined,
  );
  const event = new ByteWriter(content.length + FIRST_BYTES);
  writeHead(MAJOR.map, fields.length + 1, event);
  for (const [key, value] of fields) {
    writeText(key, event);
    encodeCbor(value, event);
  }
  writeText('data', event);
  event.bytes(content.subarray(identityBytes));
  return { type, slice: event.view() };
}

/** Room for an envelope with long ids. */
const FIRST_BYTES = 2048;
