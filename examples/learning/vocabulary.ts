/** The language of the three small environments: 30 tokens, each a word. What a message says and what the policy reads are the same thing in two forms. */

const SIGNS = ['.', '=', 'copy', 'sum', 'guess', 'add', 'is', 'the', '<', '>', '?'] as const;
export type Sign = (typeof SIGNS)[number];

export const LETTERS = ['a', 'b', 'c', 'd', 'e'] as const;
/** Summands are at most 4, so every sum is one token. */
export const DIGITS = ['0', '1', '2', '3', '4', '5', '6', '7', '8'] as const;
/** In the order of the dictionary: a guess is before or after the secret. */
export const WORDS = ['apple', 'cedar', 'grape', 'maple', 'olive'] as const;

const TOKENS: readonly string[] = [...SIGNS, ...LETTERS, ...DIGITS, ...WORDS];
const IDS: ReadonlyMap<string, number> = new Map(TOKENS.map((token, id) => [token, id]));

export const VOCABULARY_SIZE = TOKENS.length;
/** Ends a turn of the policy. */
export const END = idOf('.');

/** The id of one token. Throws for a word that is none. */
export function idOf(token: string): number {
  const id = IDS.get(token);
  if (id === undefined) throw new RangeError(`"${token}" is not a token of this vocabulary`);
  return id;
}

export function encode(text: string): number[] {
  return text.split(' ').map(idOf);
}

export function decode(ids: readonly number[]): string {
  return ids.map((id) => TOKENS[id] ?? '').join(' ');
}
