/** How far each file was taken: what the tail remembers between two starts. A place is written only when the server has acknowledged everything before it. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { FORMATS } from '../importers/recognise.ts';

const pinnedRun = z.object({
  run: z.string(),
  /** JSON text. */
  env: z.string().nullable(),
  model: z.string().nullable(),
  /** JSON text. */
  tools: z.string().optional(),
  groupSize: z.number().nullable(),
});

const place = z.object({
  /** Relative to the folder. */
  path: z.string(),
  dev: z.number(),
  ino: z.number(),
  /** lines: taken line by line as it grows. whole: taken when it is complete (compressed files, pages). skipped: nothing that can be imported. */
  kind: z.enum(['lines', 'whole', 'skipped']),
  format: z.enum(FORMATS).nullable(),
  reason: z.string().nullable(),
  /** Bytes taken, up to and including a line feed; for the other kinds how much of the file `mark` covers. */
  offset: z.int().nonnegative(),
  lines: z.int().nonnegative(),
  /** A digest over bytes before `offset`: a file that does not have them there is another one. */
  mark: z.string(),
  /** Size and time of change when a whole file was taken. */
  size: z.number(),
  changedMs: z.number(),
  /** What rows of verifiers v0 take from their run, as it was when the first row came: the same row must always make the same events. */
  pinned: z.record(z.string(), pinnedRun).optional(),
  /** Time of change of the metadata.json that was last told to the server. */
  metadataMs: z.number().nullable().optional(),
});

export const tailState = z.object({
  version: z.literal(1),
  /** Where the lines went; places are good for this target only. */
  target: z.object({ url: z.string(), project: z.string().nullable(), run: z.string().nullable() }),
  /** Runs whose start was sent. */
  runs: z.array(z.string()),
  places: z.array(place),
});

export type PinnedRun = z.output<typeof pinnedRun>;
export type Place = z.output<typeof place>;
export type TailState = z.output<typeof tailState>;
export type Target = TailState['target'];

/** The mark covers the beginning of the file, which names its first record, and what stands right before the offset. */
export const HEAD_MARK_BYTES = 1024;
export const TAIL_MARK_BYTES = 4096;

/** The mark of an offset, from the first and the last bytes of [0, offset). */
export function markOf(head: Uint8Array, tail: Uint8Array): string {
  return createHash('sha256').update(head).update(tail).digest('hex').slice(0, 32);
}
