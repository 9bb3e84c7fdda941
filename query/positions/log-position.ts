/**
 * A place in the log as one vector: for each partition of the events and of the feeds topic the offset up to which it counts (exclusive). As text the offsets are
 * joined by dots and the topics by a tilde, `1024.998.0.7~12`: short, safe in addresses, and what `asOf`, cursors and `Last-Event-ID` carry.
 */
import { z } from 'zod';

export type LogPosition = { readonly events: readonly number[]; readonly feeds: readonly number[] };

/** `latest`: everything stored; null: the newest state that is complete for the question. */
export type WantedPosition = LogPosition | 'latest' | null;

const TEXT = /^(\d{1,16}(\.\d{1,16})*)?~(\d{1,16}(\.\d{1,16})*)?$/;
const MAX_PARTITIONS = 1024;

export function positionText({ events, feeds }: LogPosition): string {
  return `${events.join('.')}~${feeds.join('.')}`;
}

/** Null when the text is no position. */
export function parsePosition(text: string): LogPosition | null {
  if (text.length > MAX_PARTITIONS * 34 || !TEXT.test(text)) return null;
  const [events = '', feeds = ''] = text.split('~');
  const of = (part: string): number[] => (part === '' ? [] : part.split('.').map(Number));
  const position = { events: of(events), feeds: of(feeds) };
  const all = [...position.events, ...position.feeds];
  return all.every((n) => Number.isSafeInteger(n)) ? position : null;
}

export const logPosition = z.string().transform((text, context): LogPosition => {
  const position = parsePosition(text);
  if (position !== null) return position;
  context.addIssue({ code: 'custom', message: 'is no log position, such as 1024.998.0.7~12' });
  return z.NEVER;
});

/** Sum over the events topic: the version of summaries that were computed there. */
export function eventsBefore({ events }: LogPosition): number {
  return events.reduce((sum, next) => sum + next, 0);
}

function pairwise(a: readonly number[], b: readonly number[], pick: (x: number, y: number) => number): number[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, p) => pick(a[p] ?? 0, b[p] ?? 0));
}

/** What both hold. */
export function earlier(a: LogPosition, b: LogPosition): LogPosition {
  return { events: pairwise(a.events, b.events, Math.min), feeds: pairwise(a.feeds, b.feeds, Math.min) };
}

/** What either holds. */
export function later(a: LogPosition, b: LogPosition): LogPosition {
  return { events: pairwise(a.events, b.events, Math.max), feeds: pairwise(a.feeds, b.feeds, Math.max) };
}

/** Whether `a` holds anything that `b` does not. */
export function aheadOf(a: LogPosition, b: LogPosition): boolean {
  const isAhead = (x: readonly number[], y: readonly number[]): boolean => x.some((next, partition) => next > (y[partition] ?? 0));
  return isAhead(a.events, b.events) || isAhead(a.feeds, b.feeds);
}
