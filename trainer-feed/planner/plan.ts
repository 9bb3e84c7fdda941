/**
 * The packing of one batch for one trainer: rows into micro-batches, micro-batches onto ranks. Pure and deterministic: the same rows and the same request give the
 * same plan, whoever computes it. It changes no value of a row and none of the batch's denominators.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import { balance, imbalance } from './balance.ts';
import { firstFitDecreasing } from './first-fit.ts';
import { planIdOf, type PlanRequest } from './plan-request.ts';
import { spread } from './spread.ts';

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
  const { bins, ranks, imbalance: unequal } = arrange(rows, request);
  const placed = ranks.map((items) => items.map((item) => microBatch(bins[item] as number[], rows, padToMultiple)));
  const all = placed.flat();
  return ok({
    planId: planIdOf(batchId, request),
    request,
    ranks: placed,
    microBatchesPerRank: bins.length / world,
    paddingTokens: all.reduce((sum, { padding }) => sum + padding, 0),
    imbalance: unequal,
  });
}

type Arrangement = {
  readonly bins: readonly (readonly number[])[];
  readonly ranks: readonly (readonly number[])[];
  readonly imbalance: number;
};

/** Ranks wait for the costliest: an imbalance above this is worth one more micro-batch on each. */
const GOOD_IMBALANCE = 0.02;

/** The tightest packing when its ranks are alike, else one micro-batch more per rank, when that makes them alike. */
function arrange(rows: readonly PackedRow[], request: PlanRequest): Arrangement {
  const { world, maxTokens } = request;
  const tight = splitTo(pack(rows, maxTokens), world);
  const first = onRanks(evened(tight, 0, rows, request) ?? tight, rows, request);
  if (first.imbalance < GOOD_IMBALANCE || rows.length < tight.length + world) return first;
  const loose = evened(tight, world, rows, request);
  const second = loose === null ? first : onRanks(loose, rows, request);
  return second.imbalance < GOOD_IMBALANCE ? second : first;
}

function onRanks(packed: readonly number[][], rows: readonly PackedRow[], request: PlanRequest): Arrangement {
  const { world } = request;
  const missing = packed.length === 0 ? world : (world - (packed.length % world)) % world;
  const bins = [...packed, ...Array.from({ length: missing }, () => [])];
  const costs = bins.map((bin) => costOf(bin, rows, request));
  const ranks = balance(costs, world);
  return { bins, ranks, imbalance: imbalance(ranks, costs) };
}

/** Rows with images are never beside rows without: a model runs one kind per pass. */
function pack(rows: readonly PackedRow[], maxTokens: number): number[][] {
  return KINDS.flatMap((multimodal) => {
    const indexes = rows.flatMap((row, i) => (row.multimodal === multimodal ? [i] : []));
    const sizes = indexes.map((i) => (rows[i] as PackedRow).seqLen);
    return firstFitDecreasing(sizes, maxTokens).map((bin) => bin.map((place) => indexes[place] as number));
  });
}

const KINDS = [false, true] as const;

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

/** As many micro-batches as in `bins` and `more`, which go to the kind with more rows, but all of one cost; null where rows are too long for that. */
function evened(bins: readonly number[][], more: number, rows: readonly PackedRow[], request: PlanRequest): number[][] | null {
  const images = rows.reduce((sum, { multimodal }) => sum + Number(multimodal), 0);
  const result: number[][] = [];
  for (const multimodal of KINDS) {
    const same = bins.filter(([first]) => first !== undefined && (rows[first] as PackedRow).multimodal === multimodal);
    const indexes = same.flat().toSorted((a, b) => a - b);
    const sizes = indexes.map((i) => (rows[i] as PackedRow).seqLen);
    const costs = indexes.map((i) => costOf([i], rows, request));
    const count = same.length + (multimodal === images * 2 > rows.length ? more : 0);
    const even = spread(sizes, costs, count, request.maxTokens);
    if (even === null) return null;
    result.push(...even.map((bin) => bin.map((place) => indexes[place] as number)));
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
