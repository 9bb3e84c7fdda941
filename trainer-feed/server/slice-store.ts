/**
 * The slices of one feed, prepared once per batch and plan: on disk, so that a process on this machine maps them, and in memory while they are in use. What is asked for
 * twice at the same time is prepared once. Files are a cache: a slice is a function of the batch and the plan.
 */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { hash } from 'node:crypto';
import type { ExtraColumn } from '../planner/batch-columns.ts';
import type { Row } from '../cut/row.ts';
import { planBatch, type Plan } from '../planner/plan.ts';
import { planIdOf, type PlanRequest } from '../planner/plan-request.ts';
import { prepareSlices, type BatchHeader } from '../planner/slices.ts';
import { TapedeckError } from '../../base/errors.ts';

export type PreparedSlice = {
  readonly path: string;
  readonly bytes: number;
  /** sha256, hexadecimal. */
  readonly sha256: string;
};

export type PreparedBatch = { readonly planId: string; readonly plan: Plan; readonly slices: readonly PreparedSlice[] };

export type SliceRequest = { readonly header: BatchHeader; readonly request: PlanRequest; readonly extra: readonly ExtraColumn[] };

export type SliceStore = {
  /** Error: `row_exceeds_max_tokens`. `rows` is called only when the slices are not there yet. */
  readonly prepare: (asked: SliceRequest, rows: () => Promise<readonly Row[] | null>) => Promise<PreparedBatch | null>;
  /** Error: `cache_corrupt` when it is not there any more, or damaged: ask for it again. */
  readonly read: (slice: PreparedSlice) => Promise<Uint8Array>;
  /** Removes slices of all other batches, but for those that were asked for last: somebody reads them. */
  readonly keep: (batchIds: ReadonlySet<string>) => Promise<void>;
};

export type SliceStoreOptions = {
  readonly directory: string;
  /** Slices in memory, bytes; those used last stay. */
  readonly memoryBytes: number;
  readonly onPrepared: () => void;
};

export async function openSliceStore({ directory, memoryBytes, onPrepared }: SliceStoreOptions): Promise<SliceStore> {
  // what a process before this one prepared may be half written
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  /** By name of the folder; asked for last comes last. */
  const prepared = new Map<string, Promise<PreparedBatch | null>>();
  const unfinished = new Set<string>();
  const memory = new Map<string, Uint8Array>();
  let held = 0;

  const remember = (path: string, bytes: Uint8Array): void => {
    if (bytes.length > memoryBytes) return;
    held += bytes.length - (memory.get(path)?.length ?? 0);
    memory.delete(path);
    memory.set(path, bytes);
    for (const [oldest, value] of memory) {
      if (held <= memoryBytes) break;
      memory.delete(oldest);
      held -= value.length;
    }
  };

  const make = async ({ header, request, extra }: SliceRequest, folder: string, rows: readonly Row[]): Promise<PreparedBatch> => {
    const plan = planBatch(header.batchId, rows, request);
    if (!plan.ok) throw new TapedeckError(plan.error.code, plan.error.message);
    const part = `${folder}.part`;
    await rm(part, { recursive: true, force: true });
    await mkdir(part, { recursive: true });
    const slices: PreparedSlice[] = [];
    for (const slice of prepareSlices(header, rows, plan.value, extra)) {
      const name = `rank_${slice.rank}.arrow`;
      await writeFile(join(part, name), slice.bytes);
      remember(join(folder, name), slice.bytes);
      slices.push({ path: join(folder, name), bytes: slice.bytes.length, sha256: slice.sha256 });
      await setImmediate();
    }
    await rm(folder, { recursive: true, force: true }); // what is there is damaged
    await rename(part, folder);
    onPrepared();
    return { planId: plan.value.planId, plan: plan.value, slices };
  };

  return {
    prepare: (asked, rows) => {
      const name = nameOf(asked);
      const known = prepared.get(name);
      if (known !== undefined) {
        prepared.delete(name);
        prepared.set(name, known);
        return known;
      }
      const making = rows()
        .then((list) => (list === null ? null : make(asked, join(directory, name), list)))
        .finally(() => unfinished.delete(name));
      unfinished.add(name);
      prepared.set(name, making);
      const forget = (): void => void prepared.delete(name);
      making.then((batch) => batch === null && forget(), forget);
      return making;
    },
    read: async ({ path, sha256 }) => {
      const known = memory.get(path);
      if (known !== undefined) {
        remember(path, known);
        return known;
      }
      const bytes = await readFile(path).catch(() => null);
      if (bytes === null || hash('sha256', bytes, 'hex') !== sha256) {
        prepared.delete(basename(dirname(path)));
        throw new TapedeckError(
          'cache_corrupt',
          `a prepared slice ${bytes === null ? 'is not there any more' : 'was damaged on disk'}: ask again`,
        );
      }
      remember(path, bytes);
      return bytes;
    },
    keep: async (batchIds) => {
      const wanted = new Set([...batchIds].map(batchPart));
      const others = [...prepared.keys()].filter((name) => !wanted.has(name.slice(0, BATCH_PART)) && !unfinished.has(name));
      for (const name of others.slice(0, -READ_LATELY)) prepared.delete(name);
      for (const file of await readdir(directory)) {
        if (wanted.has(file.slice(0, BATCH_PART)) || prepared.has(file.replace(/\.part$/, ''))) continue;
        for (const [path, bytes] of memory) {
          if (!path.startsWith(join(directory, file))) continue;
          memory.delete(path);
          held -= bytes.length;
        }
        await rm(join(directory, file), { recursive: true, force: true });
      }
    },
  };
}

const BATCH_PART = 32;
/** Of batches that are not in use so many stay, whatever their plan: anybody may read a batch of long ago, rank by rank. */
const READ_LATELY = 4;

function batchPart(batchId: string): string {
  return batchId.slice(0, BATCH_PART);
}

/** The header names the timeline, so the same batch on another timeline is other bytes. */
function nameOf({ header, request, extra }: SliceRequest): string {
  const plan = planIdOf(header.batchId, request).slice(0, 16);
  return [batchPart(header.batchId), plan, `t${header.timeline}`, ...extra].join('-');
}
