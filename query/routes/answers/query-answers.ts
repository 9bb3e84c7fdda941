/** What search, curves and lineage answer. */
import { z } from 'zod';
import type { CurvesAnswer } from '../../curves/read-curves.ts';
import type { LineageRow } from '../../lineage/lineage-row.ts';
import type { NodeLineage, RowLineage, StepLineage } from '../../lineage/read-lineage.ts';
import type { SearchAnswer } from '../../search/read-search.ts';
import { count, jsonFloat, long, position, whole } from './answer-schema.ts';

const fragment = z.object({
  at: whole.meta({ description: 'Place of the fragment in the text, in UTF-16 code units.' }),
  text: z.string(),
  highlights: z.array(z.tuple([whole, whole])).meta({ description: 'Start and end of each hit inside the fragment.' }),
});

export const searchAnswer = z.object({
  asOf: position,
  count: count.exactOptional(),
  hits: z.array(
    z.object({
      run: z.string(),
      rollout: z.string(),
      trace: z.string(),
      index: whole,
      role: z.string(),
      hits: whole,
      fragments: z.array(fragment),
      bytes: long.meta({ description: 'Bytes of the whole text.' }),
      cut: z.boolean().meta({ description: 'True when only the first MiB was looked through for hits to show.' }),
    }),
  ),
  next: z.string().nullable(),
}) satisfies z.ZodType<SearchAnswer>;

const end = z.union([jsonFloat, long]);
const values = z.array(jsonFloat.nullable());
const counts = z.array(whole);
export const curvesAnswer = z.object({
  asOf: position,
  from: end.nullable(),
  to: end.nullable(),
  points: whole,
  curves: z.array(
    z.object({
      y: z.string(),
      by: z.string().nullable(),
      bin: counts,
      xMin: z.array(end),
      xMax: z.array(end),
      min: values,
      max: values,
      mean: values,
      count: counts,
      nulls: counts,
      nan: counts,
      infinity: counts,
      minusInfinity: counts,
    }),
  ),
  series: z.object({ found: whole, shown: whole }),
}) satisfies z.ZodType<CurvesAnswer>;

export const stepLineage = z.object({
  asOf: position,
  batches: z.array(
    z.object({
      run: z.string().nullable(),
      feed: z.string(),
      timeline: long,
      n: long,
      batchId: z.string().nullable(),
      step: long.nullable(),
      abandoned: z.boolean(),
      rows: long,
      rollouts: long,
      traces: long,
      tokens: long,
      trained: long,
      rowsAtCut: long.nullable(),
      agrees: z.boolean().nullable(),
    }),
  ),
}) satisfies z.ZodType<StepLineage>;

const row = {
  feed: z.string(),
  timeline: long,
  n: long,
  batchId: z.string(),
  step: long.nullable(),
  abandoned: z.boolean(),
  rowId: z.string(),
  run: z.string().nullable(),
  rollout: z.string(),
  trace: z.string(),
  leaf: whole,
  rank: whole.nullable(),
  microBatch: whole.nullable(),
  position: whole.nullable(),
  seqLen: long.nullable(),
  trained: long.nullable(),
  advantage: jsonFloat.nullable(),
  policyVersionMin: long.nullable(),
  policyVersionMax: long.nullable(),
  staleness: jsonFloat.nullable(),
};
const lineageRow = z.object(row).meta({ title: 'LineageRow' }) satisfies z.ZodType<LineageRow>;

export const rowLineage = z.object({
  asOf: position,
  row: lineageRow,
  nodes: z.array(z.object({ node: whole, from: whole, to: whole, whole: z.boolean() })),
  branchTokens: whole,
  agrees: z.boolean(),
}) satisfies z.ZodType<RowLineage>;

export const nodeLineage = z.object({
  asOf: position,
  run: z.string(),
  rollout: z.string(),
  trace: z.string(),
  node: whole,
  tokens: whole,
  rows: z.array(z.object({ ...row, from: whole, to: whole })),
}) satisfies z.ZodType<NodeLineage>;
