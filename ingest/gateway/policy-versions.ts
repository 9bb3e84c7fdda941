/**
 * Which weights are the newest: the last `policy.published` of each run, followed in the log. Cheap: of a record that is not one, only a search for its type is paid, and
 * where the log shows what is appended, no append without one is read back.
 * An event without a run counts for all runs of its project that have none of their own.
 */
import type { Clock } from '../../base/clock.ts';
import { internalize } from '../../events/codec/blob-tags.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { readEvent } from '../../events/read-event.ts';
import type { EventLog } from '../../store/log/event-log.ts';

export type PublishedPolicy = { readonly project: string; readonly run: string | null; readonly version: number; readonly time: number };

export type PolicyVersions = {
  /** Null when none is known. */
  at(project: string, run: string): number | null;
  /** What is known from elsewhere, for the stretch of the log that is not read here. */
  add(policies: Iterable<PublishedPolicy>): void;
  /** Reads the stretch between `from` and the place where following began. */
  backfill(from: readonly number[]): Promise<void>;
  /** Resolves when everything that was in the log before the call has been seen. */
  caughtUp(signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
};

export type PolicyVersionsOptions = {
  readonly log: EventLog;
  readonly fetchBlob: (sha256: string) => Promise<Uint8Array>;
  readonly clock: Clock;
  /** Where following begins, per partition. */
  readonly from: readonly number[];
  readonly onError?: (error: unknown) => void;
};

type Stretch = { readonly from: number; readonly end: number };
const NOWHERE: Stretch = { from: 0, end: 0 };
const TYPE = Buffer.from('policy.published');
const READ_BYTES = 4 * 1024 * 1024;
const WAIT_MS = 30_000;
/** Appends that come close together are read together. */
const GATHER_MS = 20;
const AFTER_ERROR_MS = 1_000;

export function createPolicyVersions(options: PolicyVersionsOptions): PolicyVersions {
  const { log, clock } = options;
  const newest = new Map<string, PublishedPolicy>();
  const positions = [...options.from];
  const stop = new AbortController();

  const note = (policy: PublishedPolicy): void => {
    const key = `${policy.project}/${policy.run ?? ''}`;
    const known = newest.get(key);
    if (known === undefined || known.time <= policy.time) newest.set(key, policy);
  };

  /** Per partition, the last stretch of the log that was seen to hold no policy while it was appended. */
  const quiet: (Stretch | undefined)[] = [];
  const unlisten = log.onAppend?.((partition, first, records) => {
    if (records.some(({ value }) => mentionsPolicy(value))) return;
    const before = quiet[partition];
    quiet[partition] = { from: before?.end === first ? before.from : first, end: first + records.length };
  });

  const readRange = async (partition: number, from: number, end: number, signal: AbortSignal): Promise<number> => {
    let at = from;
    while (at < end) {
      const chunk = await log.read(partition, at, { maxBytes: READ_BYTES, signal });
      for (const { value } of chunk.records) {
        const policy = await policyOf(value, options.fetchBlob);
        if (policy !== null) note(policy);
      }
      chunk.release?.();
      at = chunk.next;
    }
    return at;
  };

  const readOn = async (signal: AbortSignal): Promise<void> => {
    const bounds = await log.positions(signal);
    for (const [partition, { first, end }] of bounds.entries()) {
      for (let at = Math.max(first, positions[partition] as number); at < end; positions[partition] = at) {
        const { from, end: after } = quiet[partition] ?? NOWHERE;
        if (at >= from && at < after) at = after;
        else at = await readRange(partition, at, at < from ? Math.min(from, end) : end, signal);
      }
    }
  };

  let reading: Promise<void> = Promise.resolve();
  /** One reader at a time; whoever comes meanwhile reads on after it. */
  const read = (signal: AbortSignal): Promise<void> => (reading = reading.catch(() => {}).then(() => readOn(signal)));

  const follow = async (): Promise<void> => {
    const { signal } = stop;
    while (!signal.aborted) {
      try {
        await read(signal);
        await log.waitForAppend(positions, WAIT_MS, signal);
        await clock.sleep(GATHER_MS, signal);
      } catch (error) {
        if (signal.aborted) return;
        options.onError?.(error);
        await clock.sleep(AFTER_ERROR_MS, signal).catch(() => {});
      }
    }
  };
  const following = follow();

  return {
    at: (project, run) => (newest.get(`${project}/${run}`) ?? newest.get(`${project}/`))?.version ?? null,
    add: (policies) => {
      for (const policy of policies) note(policy);
    },
    backfill: async (from) => {
      const bounds = await log.positions(stop.signal);
      for (const [partition, end] of options.from.entries()) {
        await readRange(partition, Math.max(from[partition] ?? 0, bounds[partition]?.first ?? 0), end, stop.signal);
      }
    },
    caughtUp: (signal) => read(signal ?? stop.signal),
    close: async () => {
      unlisten?.();
      stop.abort();
      await following;
    },
  };
}

async function policyOf(record: Uint8Array, fetchBlob: (sha256: string) => Promise<Uint8Array>): Promise<PublishedPolicy | null> {
  if (!mentionsPolicy(record)) return null;
  const read = readEvent(await internalize(record, fetchBlob));
  if (!read.ok || read.value.type !== 'policy.published') return null;
  const { project, run, time, data } = read.value;
  return { project: project ?? DEFAULT_PROJECT, run: run ?? null, version: data.version, time };
}

function mentionsPolicy(record: Uint8Array): boolean {
  return Buffer.from(record.buffer, record.byteOffset, record.byteLength).includes(TYPE);
}
