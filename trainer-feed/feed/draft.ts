/** Decisions on their way into the log: what a feed proposes, before it counts. */
import { hash } from 'node:crypto';
import { uuidV8 } from '../../base/uuid.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { EVENTS_VERSION } from '../../events/envelope.ts';
import type { DataOf } from '../../events/registry.ts';
import type { LogRecord } from '../../store/log/event-log.ts';
import type { FeedEvent } from './apply-decision.ts';

/** `key` names what is decided: the same decision has the same event id, whoever makes it and however often it is sent. */
export type Draft = {
  readonly [T in FeedEvent['type']]: {
    readonly type: T;
    readonly run?: string | undefined;
    readonly key: readonly (string | number)[];
    readonly data: DataOf<T>;
  };
}[FeedEvent['type']];

/** The event's id: a function of project, feed, timeline, type and key. */
export function draftId(project: string, draft: Draft): string {
  const { feed, timeline } = draft.data;
  return uuidV8(hash('sha256', JSON.stringify([project, feed, timeline, draft.type, ...draft.key]), 'buffer'));
}

/** The record to append to the partition of the feed. `time` in microseconds. */
export function recordOf(project: string, draft: Draft, id: string, time: number): LogRecord {
  const { type, run, data } = draft;
  return {
    key: Buffer.from(data.feed, 'utf8'),
    value: encodeEvent({ v: EVENTS_VERSION, id, type, project, ...(run === undefined ? {} : { run }), time, data }),
  };
}
