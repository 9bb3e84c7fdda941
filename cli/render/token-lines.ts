import type { BranchTokens, JsonFloat } from '../../query/traces/trace-answer.ts';
import { joinPieces, type TokenText } from '../../query/vocabularies/join-pieces.ts';
import type { Vocabulary } from '../../query/vocabularies/vocabulary.ts';
import type { Paint } from './paint.ts';
import { visible } from './terminal-text.ts';
import { floatText } from './trace-tree.ts';

const PER_LINE = 8;

/**
 * The token streams of a branch, node by node: sampled tokens with their log-probability, the others as bare ids. With a vocabulary each stands beside what it means; tokens that
 * make up one character together are joined by `+`.
 */
export function renderTokens(branch: BranchTokens, paint: Paint, vocabulary: Vocabulary | null = null): string[] {
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
    const from = token;
    for (const end = token + segment.tokens; token < end; token++) {
      const id = String(ids[token]);
      if (mask[token] !== 1) cells.push(paint.dim(id));
      else cells.push(paint.green(hasLogprobs ? `${id}:${floatText(logprobs[logprob++] as JsonFloat)}` : `${id}:?`));
    }
    const shown = vocabulary === null ? cells : withPieces(cells, ids.slice(from, token), vocabulary);
    for (let at = 0; at < shown.length; at += PER_LINE) lines.push(`  ${shown.slice(at, at + PER_LINE).join(' ')}`);
  }
  return lines;
}

function withPieces(cells: readonly string[], ids: readonly number[], vocabulary: Vocabulary): string[] {
  let at = 0;
  return joinPieces(ids, vocabulary).map((piece) => {
    const joined = cells.slice(at, at + piece.ids.length).join('+');
    at += piece.ids.length;
    return `${joined}${pieceText(piece)}`;
  });
}

function pieceText(piece: TokenText): string {
  switch (piece.kind) {
    case 'text':
      return JSON.stringify(visible(piece.text)).replaceAll('\\\\', '\\');
    case 'special':
      return `<${visible(piece.text)}>`;
    case 'bytes':
      return `0x${piece.hex}`;
    case 'unknown':
      return '(not in the vocabulary)';
  }
}
