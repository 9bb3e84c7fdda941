/** Carries out a plan: blobs first, then one append per partition. Nothing is answered before everything has settled. */
import type { Clock } from '../base/clock.ts';
import { withDeadline } from '../base/deadline.ts';
import { isTapedeckError, type ErrorCode } from '../base/errors.ts';
import type { Problem } from '../base/result.ts';
import type { Topic } from '../events/registry.ts';
import type { BlobStore } from '../store/blobs/blob-store.ts';
import type { EventLog } from '../store/log/event-log.ts';
import type { Blob, PlannedRecord } from './accept-plan.ts';

export type AppendPorts = {
  readonly log: EventLog;
  readonly feeds?: EventLog | undefined;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly storeMs: number;
  /** Told how long each append took, seconds, and whether it succeeded. */
  readonly onAppend?: ((seconds: number, ok: boolean) => void) | undefined;
  /** Told about every failed write, with its cause. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
};

/** Why a record was not stored; all others were. Empty when everything is durable. */
export type Unstored = ReadonlyMap<PlannedRecord, Problem>;

/** Stores all blobs of `records`, then appends them in order. When a blob fails, nothing is appended. Never throws. */
export async function store(records: readonly PlannedRecord[], ports: AppendPorts): Promise<Unstored> {
  const unstored = new Map<PlannedRecord, Problem>();
  const blobFailure = await storeBlobs(records, ports);
  if (blobFailure !== null) {
    for (const record of records) unstored.set(record, blobFailure);
    return unstored;
  }
  const groups = new Map<string, PlannedRecord[]>();
  for (const record of records) {
    const name = `${record.topic}/${record.partition}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [record]);
    else group.push(record);
  }
  await Promise.all(
    [...groups.values()].map(async (group) => {
      const problem = await append(group, ports);
      if (problem !== null) for (const record of group) unstored.set(record, problem);
    }),
  );
  return unstored;
}

async function append(group: readonly PlannedRecord[], ports: AppendPorts): Promise<Problem | null> {
  const { topic, partition } = group[0] as PlannedRecord;
  const started = ports.clock.monotonicMs();
  const problem = await attempt(ports, 'append_unclear', `the log to append to ${topic}/${partition}`, (signal) =>
    logOf(ports, topic).append(partition, group, signal),
  );
  ports.onAppend?.((ports.clock.monotonicMs() - started) / 1000, problem === null);
  return problem;
}

function logOf(ports: AppendPorts, topic: Topic): EventLog {
  return topic === 'events' ? ports.log : (ports.feeds as EventLog);
}

const BLOBS_AT_ONCE = 4;

async function storeBlobs(records: readonly PlannedRecord[], ports: AppendPorts): Promise<Problem | null> {
  const blobs = new Map<string, Blob>();
  for (const record of records) for (const blob of record.blobs) blobs.set(blob.sha256, blob);
  const waiting = [...blobs.values()];
  let failure: Problem | null = null;
  const worker = async (): Promise<void> => {
    for (let blob = waiting.pop(); blob !== undefined && failure === null; blob = waiting.pop()) {
      const { content, mediaType } = blob;
      const problem = await attempt(ports, 'store_unavailable', 'the blob store', (signal) => ports.blobs.put(content, mediaType, signal));
      failure ??= problem;
    }
  };
  await Promise.all(Array.from({ length: Math.min(BLOBS_AT_ONCE, waiting.length) }, worker));
  return failure;
}

/** Runs one write under the deadline; a write that was cut short gets the code `cut`. */
async function attempt(
  ports: AppendPorts,
  cut: ErrorCode,
  waitingFor: string,
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<Problem | null> {
  try {
    await withDeadline(ports.clock, ports.storeMs, waitingFor, work);
    return null;
  } catch (error) {
    ports.onFailure?.(error);
    if (!isTapedeckError(error)) return { code: 'internal', message: 'storing failed for a reason nobody foresaw; the server log has it' };
    const { code, message } = error;
    return { code: code === 'deadline_exceeded' || code === 'aborted' ? cut : code, message };
  }
}
