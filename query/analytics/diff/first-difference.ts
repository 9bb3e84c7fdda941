/** Where two paths through traces part. Pure. */

/** One message on a path, as far as it is compared. Ids of tool calls are not: engines draw them anew. */
export type PathNode = {
  readonly index: number;
  readonly role: string;
  readonly sampled: boolean;
  readonly text: string | null;
  readonly reasoning: string | null;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
  /** Hash of the token ids; null when the node carries none. */
  readonly tokensHash: string | null;
};

export type DifferenceKind = 'role' | 'text' | 'reasoning' | 'tool calls' | 'tokens' | 'end';

export type Divergence = {
  /** Place on both paths, from 0: so many messages are the same. */
  readonly at: number;
  readonly a: number | null;
  readonly b: number | null;
  readonly kind: DifferenceKind;
  /** First differing character of the text, reasoning or tool calls; null for other kinds. */
  readonly character: number | null;
};

/** The first message in which the paths differ; null when they are the same to their ends. */
export function firstDivergence(a: readonly PathNode[], b: readonly PathNode[]): Divergence | null {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const [left, right] = [a[at], b[at]];
    if (left === undefined || right === undefined) return { at, a: left?.index ?? null, b: right?.index ?? null, kind: 'end', character: null };
    const found = differenceOf(left, right);
    if (found !== null) return { at, a: left.index, b: right.index, ...found };
  }
  return null;
} // prettier-ignore

function differenceOf(a: PathNode, b: PathNode): Pick<Divergence, 'kind' | 'character'> | null {
  if (a.role !== b.role) return { kind: 'role', character: null };
  const texts: [DifferenceKind, string, string][] = [
    ['reasoning', a.reasoning ?? '', b.reasoning ?? ''],
    ['text', a.text ?? '', b.text ?? ''],
    ['tool calls', callsText(a), callsText(b)],
  ];
  for (const [kind, left, right] of texts) {
    const character = firstDifferentCharacter(left, right);
    if (character !== null) return { kind, character };
  }
  if (a.tokensHash !== null && b.tokensHash !== null && a.tokensHash !== b.tokensHash) return { kind: 'tokens', character: null };
  return null;
}

export function callsText({ toolCalls }: PathNode): string {
  return toolCalls.map((call) => `${call.name}(${call.arguments})`).join('\n');
}

/** Counted in UTF-16 units, moved back so that no surrogate pair is cut; null when equal. */
export function firstDifferentCharacter(a: string, b: string): number | null {
  if (a === b) return null;
  const end = Math.min(a.length, b.length);
  let at = 0;
  while (at < end && a[at] === b[at]) at++;
  const before = at > 0 ? a.charCodeAt(at - 1) : 0;
  return before >= 0xd800 && before <= 0xdbff ? at - 1 : at;
}
