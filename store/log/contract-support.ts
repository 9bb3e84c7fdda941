/** What the parts of the contract suite share: how they open logs, records to write, and ways to read them back. */
import assert from 'node:assert/strict';
import { systemClock } from '../../base/clock.ts';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { Child, ChildOrder } from './contract-process.ts';
import type { EventLog, LogRecord, StoredRecord } from './event-log.ts';

export const MAX_RECORD_BYTES = 256 * 1024;

export type OpenOptions = {
  readonly topic: string;
  readonly partitions: number;
  readonly maxRecordBytes: number;
  readonly mode: 'write' | 'read';
  readonly clock: Clock;
};
/** What a fixture module exports as `openLog`; `target` says where (a folder, brokers) and must survive JSON. */
export type OpenLog<Target> = (target: Target, options: OpenOptions) => Promise<EventLog>;

export type Suite = {
  /** One test; its topic is new. */
  readonly check: (title: string, body: (topic: string) => Promise<void>) => void;
  readonly open: (options: Partial<OpenOptions> & { topic: string }) => Promise<EventLog>;
  /** The same log in another process. */
  readonly child: (order: Pick<ChildOrder, 'action' | 'topic'>) => Child;
  /** How many records the test with many of them writes. */
  readonly records: number;
};

/** Once frozen, no timer ever fires: whoever is woken under this clock was woken by an append. */
export function freezableClock(): Clock & { freeze(): void } {
  let frozen = false;
  return {
    ...systemClock,
    freeze: () => void (frozen = true),
    sleep: (ms, signal) =>
      frozen
        ? new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))
        : systemClock.sleep(ms, signal),
  };
}

export function record(key: string, value: string): LogRecord {
  return { key: Buffer.from(key), value: Buffer.from(value) };
}

export function numbered(from: number, count: number): LogRecord[] {
  return Array.from({ length: count }, (_, i) => record(`key ${from + i}`, `value ${from + i}`));
}

export type Plain = { offset?: number; key: string; value: string };

export function plain(stored: LogRecord & { offset?: number }): Plain {
  const text = { key: Buffer.from(stored.key).toString('base64'), value: Buffer.from(stored.value).toString('base64') };
  return stored.offset === undefined ? text : { offset: stored.offset, ...text };
}

export function withoutOffset({ key, value }: Plain): Plain {
  return { key, value };
}

export async function readAll(log: EventLog, partition: number, from: number, maxBytes = 1 << 20): Promise<StoredRecord[]> {
  const { end } = (await log.positions())[partition] as { end: number };
  const found: StoredRecord[] = [];
  for (let at = from; at < end;) {
    const chunk = await log.read(partition, at, { maxBytes });
    assert.ok(chunk.next > at, 'a read must get on');
    found.push(...chunk.records);
    at = chunk.next;
  }
  return found;
}

/** Reads `count` values as they come. */
export async function follow(log: EventLog, count: number, maxBytes: number): Promise<string[]> {
  const seen: string[] = [];
  for (let at = 0; seen.length < count;) {
    const chunk = await log.read(0, at, { maxBytes, waitMs: 20_000 });
    seen.push(...chunk.records.map(({ value }) => Buffer.from(value).toString()));
    at = chunk.next;
  }
  return seen;
}

export async function refused(work: Promise<unknown>, code: ErrorCode): Promise<void> {
  await assert.rejects(work, (error) => isTapedeckError(error, code) || assert.fail(`expected ${code}, got ${String(error)}`));
}
