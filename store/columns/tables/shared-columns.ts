/** Columns that many tables share. Ids that are absent are empty strings in keys (an id is never empty); views show NULL. */
import { label, text, uint16, uint64 } from '../native/column-types.ts';

/** Where the event lies in the log: every row but the summaries keeps it. Partitions of the feeds topic are numbered from 32768 (projections/position.ts). */
export const position = { _partition: uint16, _offset: uint64 } as const;
export const inRun = { project: label, run: label } as const;
export const inRollout = { ...inRun, rollout: text } as const;
export const inTrace = { ...inRollout, trace: text } as const;
