import type { BranchTokens, JsonFloat } from '../../query/traces/trace-answer.ts';
import type { Paint } from './paint.ts';
import { floatText } from './trace-tree.ts';

const PER_LINE = 8;

/** The token streams of a branch, node by node: sampled tokens with their log-probability, the others as bare ids. */
export function renderTokens(branch: BranchTokens, paint: Paint): string[] {
  const ids = branch.ids as readonly number[];
  const mask = branch.mask as readonly number[];
  const logprobs = branch.logprobs as readonly JsonFloat[];
  const lines = [
    `${paint.bold(`branch ${branch.leaf}`)}  ${branch.path.length} nodes  ${branch.tokens} tokens  ${branch.sampledTokens} sampled`,
  ];
  let token = 0;
  let logprob = 0;
  for (const segment of branch.segments) {
    lines.push(paint.bold(`#${segment.node}`) + paint.dim(`  ${segment.tokens} tokens, ${segment.sampledTokens} sampled`));
    const cells: string[] = [];
    const hasLogprobs = segment.logprobs > 0;
    for (const end = token + segment.tokens; token < end; token++) {
      const id = String(ids[token]);
      if (mask[token] !== 1) cells.push(paint.dim(id));
      else cells.push(paint.green(hasLogprobs ? `${id}:${floatText(logprobs[logprob++] as JsonFloat)}` : `${id}:?`));
    }
    for (let at = 0; at < cells.length; at += PER_LINE) lines.push(`  ${cells.slice(at, at + PER_LINE).join(' ')}`);
  }
  return lines;
}
