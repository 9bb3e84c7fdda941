/** An event as the exports need it: checked, in its newest form, with whole floats kept apart from integers. */
import { TapedeckError } from '../../base/errors.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { readEvent } from '../../events/read-event.ts';
import type { EventType } from '../../events/registry.ts';
import { upcast } from '../../events/upcast.ts';
import type { JsonRecord } from './json-value.ts';

export type ExactEvent = {
  readonly type: EventType;
  readonly time: number;
  readonly run: string;
  readonly trace: string | null;
  readonly data: JsonRecord;
};

/** From a value of the log, with large values put back. Throws what `readEvent` finds wrong. */
export function exactEvent(slice: Uint8Array): ExactEvent {
  const checked = readEvent(slice);
  if (!checked.ok) throw new TapedeckError(checked.error.code, checked.error.message);
  const { type, time, run, trace } = checked.value;
  const exact = upcast(decodeCbor(slice, 0, slice.length, { wholeFloats: true })) as { data: JsonRecord };
  return { type, time, run: run ?? '', trace: trace ?? null, data: exact.data };
}
