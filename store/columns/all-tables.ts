/** Every table of the schema. */
import type { TableSpec } from './native/table-block.ts';
import { BLOCK_TABLES } from './projections/block.ts';
import { nodeSearch } from './tables/node-search.ts';
import { progress } from './tables/progress.ts';
import { projects } from './tables/projects.ts';
import { rolloutSummary } from './tables/rollout-summary.ts';
import { traceSummary } from './tables/trace-summary.ts';

/** The tables that hold rows of runs and of the log: those a rebuild fills again. */
export const DATA_TABLES: readonly TableSpec[] = [
  ...(Object.values(BLOCK_TABLES) as unknown as TableSpec[]),
  ...([nodeSearch, rolloutSummary, traceSummary] as unknown as TableSpec[]),
];

export const ALL_TABLES: readonly TableSpec[] = [...DATA_TABLES, projects, progress] as unknown as readonly TableSpec[];
