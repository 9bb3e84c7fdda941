/** The token streams of single nodes, laid into the columns of a stretch. */
import { emptyColumn, markPresent, type TokenColumn, type TokenColumnName } from './token-columns.ts';

/** Streams of one node as stored; a stream that was not given is empty. */
export type NodeTokens = {
  readonly node: number;
  readonly ids: Uint32Array;
  readonly mask: Uint8Array;
  readonly isContent: Uint8Array;
  /** These are compact: one per token with mask 1. */
  readonly logprobs: Float32Array;
  readonly referenceLogprobs: Float32Array;
  readonly advantages: Float32Array;
  readonly teacherLogprobs: Float32Array;
  readonly policyVersion: number | null;
  /** Lengths of stretches of sampled tokens and their versions, where the weights changed in mid-turn. */
  readonly policyRuns: readonly { readonly length: number; readonly version: number }[];
};

/** What a trainer said about the whole branch; each stream has one value per token, or one per sampled token, or stops early where the row was cut. */
export type Annotation = { readonly trainerLogprobs: Float32Array; readonly entropies: Float32Array; readonly isMasked: Uint8Array };

export type Stretch = {
  /** First token of the stretch, counted in the branch, and the one behind its last. */
  readonly from: number;
  readonly to: number;
  readonly columns: ReadonlyMap<TokenColumnName, TokenColumn>;
};

export function openStretch(from: number, to: number, names: readonly TokenColumnName[]): Stretch {
  return { from, to, columns: new Map(names.map((name) => [name, emptyColumn(name, to - from)])) };
}

const COMPACT = {
  logprob: 'logprobs',
  reference_logprob: 'referenceLogprobs',
  teacher_logprob: 'teacherLogprobs',
  advantage: 'advantages',
} as const;

/** Lays a node whose first token is the `start`-th of the branch. */
export function layNode({ from, to, columns }: Stretch, node: NodeTokens, start: number): void {
  const first = Math.max(0, from - start);
  const end = Math.min(node.ids.length, to - start);
  const put = (name: TokenColumnName, value: (token: number) => number | bigint | null): void => {
    const column = columns.get(name);
    if (column === undefined) return;
    for (let token = first; token < end; token++) {
      const cell = value(token);
      if (cell === null) continue;
      (column.values as { [at: number]: number | bigint })[start + token - from] = cell;
      markPresent(column, start + token - from);
    }
  };
  put('position', (token) => start + token);
  put('node', () => node.node);
  put('token_id', (token) => node.ids[token] as number);
  put('mask', (token) => node.mask[token] ?? 0);
  put('is_content', (token) => node.isContent[token] ?? null);
  const ranks = sampledRanks(node.mask);
  for (const [name, stream] of Object.entries(COMPACT) as [TokenColumnName, (typeof COMPACT)[keyof typeof COMPACT]][]) {
    put(name, (token) => (node.mask[token] === 1 ? (node[stream][ranks[token] as number] ?? null) : null));
  }
  const versions = versionsOf(node);
  put('policy_version', (token) => (node.mask[token] === 1 ? versions(ranks[token] as number) : null));
}

/** How many sampled tokens come before each token. */
function sampledRanks(mask: Uint8Array): Uint32Array {
  const ranks = new Uint32Array(mask.length);
  let seen = 0;
  for (let at = 0; at < mask.length; at++) {
    ranks[at] = seen;
    if (mask[at] === 1) seen++;
  }
  return ranks;
}

function versionsOf({ policyRuns, policyVersion }: NodeTokens): (rank: number) => bigint | null {
  if (policyRuns.length === 0) return () => (policyVersion === null ? null : BigInt(policyVersion));
  return (rank) => {
    let end = 0;
    for (const { length, version } of policyRuns) {
      end += length;
      if (rank < end) return BigInt(version);
    }
    return null;
  };
}

/** How a stream of an annotation lies along the branch. */
export type Alignment = 'token' | 'sampled' | 'prefix' | 'absent' | 'mismatch';

export function alignmentOf(length: number, tokens: number, sampled: number): Alignment {
  if (length === 0) return 'absent';
  if (length === tokens) return 'token';
  if (length === sampled) return 'sampled';
  return length < tokens ? 'prefix' : 'mismatch';
}

const ANNOTATED = { trainer_logprob: 'trainerLogprobs', entropy: 'entropies', is_masked: 'isMasked' } as const;

/** Lays what the trainer said. `sampledBefore` is how many tokens before the stretch were sampled, `mask` that of the stretch. A stream of another length than the branch is left out. */
export function layAnnotation(
  { from, to, columns }: Stretch,
  annotation: Annotation,
  { tokens, sampled, sampledBefore, mask }: { readonly tokens: number; readonly sampled: number; readonly sampledBefore: number; readonly mask: Uint8Array },
): Record<string, Alignment> {
  const alignments: Record<string, Alignment> = {};
  for (const [name, stream] of Object.entries(ANNOTATED) as [TokenColumnName, keyof Annotation][]) {
    const values = annotation[stream];
    const alignment = alignmentOf(values.length, tokens, sampled);
    alignments[name] = alignment;
    const column = columns.get(name);
    if (column === undefined || alignment === 'absent' || alignment === 'mismatch') continue;
    let rank = sampledBefore;
    for (let at = 0; at < to - from; at++) {
      const isSampled = mask[at] === 1;
      const value = alignment === 'sampled' ? (isSampled ? values[rank] : undefined) : values[from + at];
      if (isSampled) rank++;
      if (value === undefined) continue;
      (column.values as { [at: number]: number })[at] = value;
      markPresent(column, at);
    }
  }
  return alignments;
} // prettier-ignore
