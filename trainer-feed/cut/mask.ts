/** Per-token streams of one node, written in place: loops over typed arrays, nothing allocated per token. */
import type { NodeFacts } from './trace-nodes.ts';

/** Writes 1 where a token counts as sampled and its version is at least `oldest` (null = any), for the first `keep` tokens; `target` must hold zeros there. */
export function writeMask(target: Uint8Array, at: number, node: NodeFacts, keep: number, oldest: number | null): void {
  if (node.sampled === 0) return;
  const { mask, policyRuns } = node.tokens;
  if (oldest === null || (node.minVersion !== null && node.minVersion >= oldest)) {
    target.set(keep === mask.length ? mask : mask.subarray(0, keep), at);
    return;
  }
  if (node.maxVersion === null || node.maxVersion < oldest || policyRuns === null) return;
  let run = 0;
  let left = policyRuns[0]?.length ?? 0;
  for (let i = 0; i < keep; i++) {
    if (mask[i] !== 1) continue;
    while (left === 0) left = policyRuns[++run]?.length ?? Number.POSITIVE_INFINITY;
    if ((policyRuns[run]?.version ?? oldest) >= oldest) target[at + i] = 1;
    left--;
  }
}

/** Spreads a compact column (one entry per masked token of the node) over those of the first `keep` tokens that are trained; all others stay as they are. */
export function spread(target: Float32Array, at: number, node: NodeFacts, compact: Float32Array, keep: number, trained: Uint8Array): void {
  const { mask } = node.tokens;
  for (let i = 0, k = 0; i < keep; i++) {
    if (mask[i] !== 1) continue;
    if (trained[at + i] === 1) target[at + i] = compact[k] as number;
    k++;
  }
}
