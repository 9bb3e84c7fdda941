/** Events that the gateway writes, before they are bytes. Values that are CBOR already (a request as it came) are spliced in as they are. */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { encodeCbor, writeHead, writeText } from '../../../events/codec/cbor-encode.ts';
import { MAJOR } from '../../../events/codec/cbor-head.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import type { EventType } from '../../../events/registry.ts';

/** One CBOR item as bytes. */
export class Encoded {
  readonly bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

export type Scope = {
  readonly project: string;
  readonly run: string;
  readonly group?: string | undefined;
  readonly rollout?: string | undefined;
  readonly trace?: string | undefined;
};

export type Draft = {
  readonly id: string;
  readonly type: EventType;
  readonly scope: Scope;
  /** Microseconds since 1970. */
  readonly time: number;
  /** Members that are undefined are left out; those that are `Encoded` are spliced in. */
  readonly data: Readonly<Record<string, unknown>>;
};

/** The events as a CBOR sequence, in order. */
export function encodeDrafts(drafts: readonly Draft[], out: ByteWriter): void {
  for (const { id, type, scope, time, data } of drafts) {
    const { project, run, group, rollout, trace } = scope;
    const named = { v: 1, id, type, ...(project !== DEFAULT_PROJECT && { project }), run, group, rollout, trace, time };
    writeMap({ ...named, data: new Nested(data) }, out);
  }
}

class Nested {
  readonly map: Readonly<Record<string, unknown>>;
  constructor(map: Readonly<Record<string, unknown>>) {
    this.map = map;
  }
}

function writeMap(map: Readonly<Record<string, unknown>>, out: ByteWriter): void {
  const entries = Object.entries(map).filter(([, value]) => value !== undefined);
  writeHead(MAJOR.map, entries.length, out);
  for (const [key, value] of entries) {
    writeText(key, out);
    if (value instanceof Encoded) out.bytes(value.bytes);
    else if (value instanceof Nested) writeMap(value.map, out);
    else encodeCbor(value, out);
  }
}
