/** One block on its way into the store: a builder per table, and what the block touched. */
import { openBlock, type TableBlock, type TableSpec } from '../native/table-block.ts';
import { batchPlaces } from '../tables/batch-places.ts';
import { batchRows } from '../tables/batch-rows.ts';
import { callPayloads } from '../tables/call-payloads.ts';
import { calls } from '../tables/calls.ts';
import { deadLetters } from '../tables/dead-letters.ts';
import { droppedSamples } from '../tables/dropped-samples.ts';
import { errors } from '../tables/errors.ts';
import { eventIds } from '../tables/event-ids.ts';
import { feedEvents } from '../tables/feed-events.ts';
import { groupEvents } from '../tables/group-events.ts';
import { ids } from '../tables/ids.ts';
import { links } from '../tables/links.ts';
import { logIndex } from '../tables/log-index.ts';
import { metricEvents } from '../tables/metric-events.ts';
import { nodePayloads } from '../tables/node-payloads.ts';
import { nodes } from '../tables/nodes.ts';
import { notes } from '../tables/notes.ts';
import { policies } from '../tables/policies.ts';
import { referenceScores } from '../tables/reference-scores.ts';
import { retention } from '../tables/retention.ts';
import { rewardEvents } from '../tables/reward-events.ts';
import { rolloutEvents } from '../tables/rollout-events.ts';
import { rolloutPayloads } from '../tables/rollout-payloads.ts';
import { runEvents } from '../tables/run-events.ts';
import { tombstones } from '../tables/tombstones.ts';
import { tools } from '../tables/tools.ts';
import { traceEvents } from '../tables/trace-events.ts';
import { tracePayloads } from '../tables/trace-payloads.ts';
import { trainerAnnotations } from '../tables/trainer-annotations.ts';
import { trainerSteps } from '../tables/trainer-steps.ts';
import { Touched } from './touched.ts';

/** The tables a block fills, in the order in which they are inserted: `log_index` is last, because its rows say that all others are there. */
export const BLOCK_TABLES = {
  nodePayloads, nodes, callPayloads, calls, tools, links, errors, notes, runEvents, groupEvents, rolloutPayloads, rolloutEvents, tracePayloads, traceEvents,
  rewardEvents, metricEvents, policies, trainerSteps, referenceScores, trainerAnnotations, feedEvents, batchRows, batchPlaces, droppedSamples, tombstones, retention,
  ids, deadLetters, eventIds, logIndex,
} as const; // prettier-ignore

type BlockTables = typeof BLOCK_TABLES;
type Builders = { readonly [K in keyof BlockTables]: TableBlock<BlockTables[K]['columns']> };

export type Block = Builders & {
  /** All builders in insert order. */
  readonly tables: readonly TableBlock[];
  readonly touched: Touched;
  /** Size of all cells so far. */
  readonly bytes: number;
  /** Empties the block, keeping its buffers. */
  clear(): void;
};

/**
 * Opens an empty block. When a projection throws, the block may hold half a row: clear it and project the good events again.
 */
export function createBlock(): Block {
  const builders = Object.fromEntries(
    Object.entries(BLOCK_TABLES).map(([key, spec]) => [key, openBlock(spec as TableSpec)]),
  ) as unknown as Builders;
  const tables = Object.values(builders) as unknown as readonly TableBlock[];
  const touched = new Touched();
  return {
    ...builders,
    tables,
    touched,
    get bytes() {
      return tables.reduce((sum, builder) => sum + builder.bytes, 0);
    },
    clear() {
      for (const builder of tables) builder.clear();
      touched.clear();
    },
  };
}
