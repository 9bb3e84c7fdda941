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
  let k = 0;
  eachSpan(mask, keep, (start, end) => {
    // a span is trained whole, unless some of its tokens are too old
    const zero = trained.indexOf(0, at + start);
    if (zero < 0 || zero >= at + end) {
      target.set(compact.subarray(k, k + end - start), at + start);
    } else {
      for (let i = start; i < end; i++) if (trained[at + i] === 1) target[at + i] = compact[k + i - start] as number;
    }
    k += end - start;
  });
}

/** Calls `visit` with every run of ones among the first `keep` entries: masks change seldom, so whole runs are copied and filled. */
export function eachSpan(mask: Uint8Array, keep: number, visit: (start: number, end: number) => void): void {
  for (let start = mask.indexOf(1); start >= 0 && start < keep;) {
    const zero = mask.indexOf(0, start);
    const end = zero < 0 || zero > keep ? keep : zero;
    visit(start, end);
    if (end === keep) return;
    start = mask.indexOf(1, end);
  }
}
