/** Reductions as weights, so that the trainer always divides by the number of trained tokens. Global over the batch: no world size, packing or padding enters. */
import type { Reduction } from '../algorithms/algorithm.ts';

/** A row as a reduction sees it: which trace and group it belongs to, and its tokens with rl weight. */
export type ReducedRow = { readonly trace: object; readonly group: object; readonly tokens: number };

/**
 * The factor of each row's rl weights (float64). With N tokens in the batch: token_mean 1; seq_mean N/(B n_i), B traces with a token, n_i tokens of the trace over all its
 * rows; seq_sum_norm N/(B H); prompt_mean N/(G n_g), G groups with a token, n_g tokens of the group. 0 for a row without tokens.
 */
export function reductionFactors(reduction: Reduction, rows: readonly ReducedRow[]): Float64Array {
  const traces = new Map<object, number>();
  const groups = new Map<object, number>();
  let total = 0;
  for (const { trace, group, tokens } of rows) {
    if (tokens === 0) continue;
    total += tokens;
    traces.set(trace, (traces.get(trace) ?? 0) + tokens);
    groups.set(group, (groups.get(group) ?? 0) + tokens);
  }
  const factor = (row: ReducedRow): number => {
    switch (reduction.name) {
      case 'token_mean':
        return 1;
      case 'seq_mean':
        return total / (traces.size * (traces.get(row.trace) as number));
      case 'seq_sum_norm':
        return total / (traces.size * reduction.horizon);
      case 'prompt_mean':
        return total / (groups.size * (groups.get(row.group) as number));
    }
  };
  return Float64Array.from(rows, (row) => (row.tokens === 0 ? 0 : factor(row)));
}
