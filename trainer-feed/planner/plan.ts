/**
 * The packing of one batch for one trainer: rows into micro-batches, micro-batches onto ranks. Pure and deterministic: the same rows and the same request give the
 * same plan, whoever computes it. It changes no value of a row and none of the batch's denominators.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import { balance, imbalance } from './balance.ts';
import { firstFitDecreasing } from './first-fit.ts';
import { planIdOf, type PlanRequest } from './plan-request.ts';

/** What packing needs to know of a row. */
export type PackedRow = { readonly rowId: string; readonly seqLen: number; readonly multimodal: boolean };

/** One forward and backward pass of one rank. */
export type MicroBatch = {
  /** Indexes into the batch's rows, in the order they lie in the micro-batch. Empty only in a micro-batch that is all padding. */
  readonly rows: readonly number[];
  /** Tokens of the rows. */
  readonly tokens: number;
  /** Length of the padding row at the end (mask and weights 0); 0 = none. */
  readonly padding: number;
};

export type Plan = {
  readonly planId: string;
  readonly request: PlanRequest;
  /** Per rank its micro-batches; every rank has equally many. */
  readonly ranks: readonly (readonly MicroBatch[])[];
  readonly microBatchesPerRank: number;
  readonly paddingTokens: number;
  /** (costliest rank - cheapest rank) / mean, by the request's cost model. */
  readonly imbalance: number;
};

/**
 * Plans a batch. Errors: `row_exceeds_max_tokens` (names the longest row), `invalid_value` (`maxTokens` is no multiple of `padToMultiple`).
 */
export function planBatch(batchId: string, rows: readonly PackedRow[], request: PlanRequest): Result<Plan> {
  const { world, maxTokens, padToMultiple } = request;
  if (maxTokens % padToMultiple !== 0) {
    const remedy = Math.max(padToMultiple, maxTokens - (maxTokens % padToMultiple));
    return fail('invalid_value', `maxTokens ${maxTokens} is no multiple of padToMultiple ${padToMultiple}: take ${remedy}`);
  }
  const longest = rows.reduce<PackedRow | null>((a, b) => (a === null || b.seqLen > a.seqLen ? b : a), null);
  if (longest !== null && longest.seqLen > maxTokens) {
    const remedy = `ask with maxTokens of at least ${longest.seqLen}, or give the feed a maxRowTokens of at most ${maxTokens}`;
    return fail('row_exceeds_max_tokens', `row ${longest.rowId} has ${longest.seqLen} tokens, maxTokens is ${maxTokens}: ${remedy}`);
  }
  const bins = splitTo(pack(rows, maxTokens), world);
  while (bins.length % world !== 0 || bins.length === 0) bins.push([]);
  const costs = bins.map((bin) => costOf(bin, rows, request));
  const ranks = balance(costs, world);
  const placed = ranks.map((items) => items.map((item) => microBatch(bins[item] as number[], rows, padToMultiple)));
  const all = placed.flat();
  return ok({
    planId: planIdOf(batchId, request),
    request,
    ranks: placed,
    microBatchesPerRank: bins.length / world,
    paddingTokens: all.reduce((sum, { padding }) => sum + padding, 0),
    imbalance: imbalance(ranks, costs),
  });
}

/** Rows with images are never beside rows without: a model runs one kind per pass. */
function pack(rows: readonly PackedRow[], maxTokens: number): number[][] {
  return [false, true].flatMap((multimodal) => {
    const indexes = rows.flatMap((row, i) => (row.multimodal === multimodal ? [i] : []));
    const sizes = indexes.map((i) => (rows[i] as PackedRow).seqLen);
    return firstFitDecreasing(sizes, maxTokens).map((bin) => bin.map((place) => indexes[place] as number));
  });
}

/** Halves the bins with the most rows until their number is a multiple of `world`: work that is shared out beats padding. What cannot be halved stays. */
function splitTo(bins: readonly number[][], world: number): number[][] {
  const result = bins.map((bin) => [...bin]);
  while (result.length % world !== 0) {
    const fullest = result.reduce((best, bin, i) => (bin.length > (result[best] as number[]).length ? i : best), 0);
    const bin = result[fullest] as number[];
    if (bin.length < 2) break;
    result[fullest] = bin.filter((_, i) => i % 2 === 0);
    result.push(bin.filter((_, i) => i % 2 === 1));
  }
  return result;
}

function costOf(bin: readonly number[], rows: readonly PackedRow[], { cost }: PlanRequest): number {
  return bin.reduce((sum, i) => {
    const { seqLen } = rows[i] as PackedRow;
    return sum + cost.linear * seqLen + cost.quadratic * seqLen * seqLen;
  }, 0);
}

function microBatch(bin: readonly number[], rows: readonly PackedRow[], padToMultiple: number): MicroBatch {
  const tokens = bin.reduce((sum, i) => sum + (rows[i] as PackedRow).seqLen, 0);
  const padding = tokens === 0 ? padToMultiple : (padToMultiple - (tokens % padToMultiple)) % padToMultiple;
  return { rows: bin, tokens, padding };
}
