/** An event of the log as live updates see it: its ids at once, its data only when somebody listens. */
import { TapedeckError } from '../../base/errors.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import { locate } from '../../store/columns/projections/locate.ts';
import { topicKey } from './live-topic.ts';

export type Peeked = {
  readonly project: string;
  readonly type: string;
  readonly run: string | undefined;
  readonly rollout: string | undefined;
  readonly trace: string | undefined;
  readonly feed: string | undefined;
};

/** Types that change what a list of runs shows. */
const RUN_STATES = new Set(['run.started', 'run.ended', 'run.deleted']);

/** Reads the ids out of the bytes of a record; null for one that is no event. */
export function peek(slice: Uint8Array): Peeked | null {
  try {
    const text = (...path: string[]): string | undefined => {
      const range = locate(slice, path);
      if (range === null) return undefined;
      const value = decodeCbor(slice.subarray(range.start, range.end));
      return typeof value === 'string' ? value : undefined;
    };
    const type = text('type');
    if (type === undefined) return null;
    return { project: text('project') ?? DEFAULT_PROJECT, type, run: text('run'), rollout: text('rollout'), trace: text('trace'), feed: text('data', 'feed') };
  } catch (error) {
    if (error instanceof TapedeckError) return null; // a dead letter
    throw error;
  }
} // prettier-ignore

/** The topics an event belongs to. */
export function keysOfEvent({ project, type, run, rollout, trace, feed }: Peeked): string[] {
  const keys: string[] = [];
  if (run !== undefined) {
    keys.push(topicKey(project, { kind: 'run', id: run }));
    if (RUN_STATES.has(type)) keys.push(topicKey(project, { kind: 'runs', id: '' }));
  }
  if (rollout !== undefined) keys.push(topicKey(project, { kind: 'rollout', id: rollout }));
  if (trace !== undefined) keys.push(topicKey(project, { kind: 'trace', id: trace }));
  if (feed !== undefined) keys.push(topicKey(project, { kind: 'feed', id: feed }));
  return keys;
}

/** The whole event; null when it cannot be read. It was checked at the edge, so it is not checked again. */
export function decodeEvent(slice: Uint8Array): TapedeckEvent | null {
  try {
    return decodeCbor(slice) as TapedeckEvent;
  } catch (error) {
    if (error instanceof TapedeckError) return null;
    throw error;
  }
}
