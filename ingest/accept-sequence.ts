/**
 * Numbering by producers, as pure functions over a small state per producer. A producer is named within its project: others may use the name too. `seq` counts from 0 per (id, epoch) without gaps; a higher epoch fences the lower one.
 * What was refused for good uses up its number; what could not be stored does not.
 */
import { DEFAULT_PROJECT, producer as producerSchema } from '../events/envelope.ts';
import { decodeCbor } from '../events/codec/cbor-decode.ts';
import { cursorOver, INDEFINITE, readHead, takeBreak } from '../events/codec/cbor-head.ts';
import { skipItem } from '../events/codec/cbor-items.ts';
import type { Problem } from '../base/result.ts';

export type Producer = { readonly project: string; readonly id: string; readonly epoch: number; readonly seq: number };

/** What states are kept by. */
export function producerKey({ project, id }: Pick<Producer, 'project' | 'id'>): string {
  return `${project.length},${project}${id}`;
}

/**
 * Of one producer's newest epoch: numbers below `certain` are settled (stored, or refused for good), `next` is the number expected next. Numbers between
 * the two may or may not be in the log (they can be known only after a restart): they are taken again, which the event ids make harmless.
 */
export type ProducerState = { readonly epoch: number; readonly certain: number; readonly next: number };

/** `skipped` numbers were jumped over within the slack. */
export type SequenceVerdict =
  | { readonly kind: 'take'; readonly state: ProducerState; readonly skipped: number }
  | { readonly kind: 'duplicate' }
  | { readonly kind: 'refuse'; readonly problem: Problem };

/** The producer of a decoded event: null when it names none, `unreadable` when the field is there but wrong. */
export function producerOf(value: unknown): Producer | null | 'unreadable' {
  if (typeof value !== 'object' || value === null) return 'unreadable';
  const { producer, project } = value as { producer?: unknown; project?: unknown };
  if (producer === undefined) return null;
  const parsed = producerSchema.safeParse(producer);
  return parsed.success ? { ...parsed.data, project: typeof project === 'string' ? project : DEFAULT_PROJECT } : 'unreadable';
}

/**
 * The producer of a log record, read without the rest of the event: whole events may hold values that lie in the blob store, which cannot be decoded before they are
 * back. Null when it names none. Throws as `decodeCbor` does.
 */
export function producerOfRecord(record: Uint8Array): Producer | null {
  const c = cursorOver(record, 0, record.length);
  readHead(c);
  const found: { project?: unknown; producer?: unknown } = {};
  for (let left = c.value; left === INDEFINITE ? !takeBreak(c) : left > 0; left -= left === INDEFINITE ? 0 : 1) {
    const keyAt = c.at;
    skipItem(c, 1);
    const valueAt = c.at;
    skipItem(c, 1);
    const key = decodeCbor(record, keyAt, valueAt);
    if (key === 'producer' || key === 'project') found[key] = decodeCbor(record, valueAt, c.at);
  }
  const producer = producerOf(found);
  return producer === 'unreadable' ? null : producer;
}

/**
 * Judges one number. `slack` is how many numbers may be skipped because items whose producer could not be read came before. `adopt` takes any first number
 * of a producer that is not known (its state was dropped to bound memory).
 */
export function judgeSequence(
  state: ProducerState | undefined,
  { id, epoch, seq }: Producer,
  options: { readonly slack?: number; readonly adopt?: boolean } = {},
): SequenceVerdict {
  if (state !== undefined && epoch < state.epoch) {
    const message = `epoch ${epoch} of producer ${JSON.stringify(id)} was fenced by epoch ${state.epoch}; stop this writer, or start it again with epoch ${state.epoch + 1} and seq 0`;
    return { kind: 'refuse', problem: { code: 'producer_fenced', message, field: 'producer.epoch' } };
  }
  const known = state !== undefined && epoch === state.epoch;
  const expected = known ? state.next : 0;
  if (known && seq < state.certain) return { kind: 'duplicate' };
  if (known && seq < expected) {
    return { kind: 'take', state: { ...state, certain: seq === state.certain ? seq + 1 : state.certain }, skipped: 0 };
  }
  const skipped = seq - expected;
  const adopted = state === undefined && options.adopt === true;
  if (skipped > (options.slack ?? 0) && !adopted) {
    const message = `producer ${JSON.stringify(id)} sent seq ${seq} of epoch ${epoch}, expected ${expected}; send again from seq ${expected}, or start epoch ${epoch + 1} with seq 0`;
    return { kind: 'refuse', problem: { code: 'producer_gap', message, field: 'producer.seq' } };
  }
  const contiguous = adopted || !known || state.certain === state.next;
  return {
    kind: 'take',
    state: { epoch, certain: contiguous ? seq + 1 : state.certain, next: seq + 1 },
    skipped: adopted ? 0 : skipped,
  };
}

/** Folds numbers that are known to be in the log into `states` (by `producerKey`), in any order; for building the state from a log or a table. */
export function observeProducer(states: Map<string, ProducerState>, producer: Producer): void {
  const { epoch, seq } = producer;
  const key = producerKey(producer);
  const state = states.get(key);
  if (state === undefined || epoch > state.epoch) {
    states.set(key, { epoch, certain: seq === 0 ? 1 : 0, next: seq + 1 });
    return;
  }
  if (epoch < state.epoch) return;
  const certain = seq === state.certain ? seq + 1 : state.certain;
  states.set(key, { epoch, certain, next: Math.max(state.next, seq + 1) });
}
