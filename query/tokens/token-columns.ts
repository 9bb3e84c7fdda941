/** Per-token columns of a stretch of a branch: typed arrays of one length, with a bitmap where values may be missing. */

export type TokenColumn =
  | { readonly kind: 'u32'; readonly values: Uint32Array; readonly present: Uint8Array | null }
  | { readonly kind: 'u8'; readonly values: Uint8Array; readonly present: Uint8Array | null }
  | { readonly kind: 'f32'; readonly values: Float32Array; readonly present: Uint8Array | null }
  | { readonly kind: 'i64'; readonly values: BigInt64Array; readonly present: Uint8Array | null };

export const TOKEN_COLUMNS = [
  'position', 'node', 'token_id', 'mask', 'is_content', 'logprob', 'reference_logprob', 'teacher_logprob', 'trainer_logprob', 'entropy', 'is_masked', 'advantage',
  'policy_version',
] as const; // prettier-ignore
export type TokenColumnName = (typeof TOKEN_COLUMNS)[number];

export const TOKEN_COLUMN_MEANINGS: Readonly<Record<TokenColumnName, string>> = {
  position: 'place of the token in the branch, from 0',
  node: 'node it belongs to',
  token_id: 'token id',
  mask: '1 where the model sampled it',
  is_content: '1 where it is message body, 0 where it is template; null when not known',
  logprob: 'log-probability under the policy that sampled it; null when it was not sampled or not recorded',
  reference_logprob: 'the same under the reference model, as the node carried it',
  teacher_logprob:
    'the same under a teacher that scored the node later (`reference.scored`); `teacher` names one, the last one counts when absent',
  trainer_logprob: 'the same under the trained policy (`trainer.annotated` of this leaf, the last one of `feed` and `step`)',
  entropy: 'entropy of the distribution there, from the same annotation',
  is_masked: '1 where the trainer left it out of the loss, from the same annotation',
  advantage: 'advantage as the producer gave it; null when it was not sampled or not given',
  policy_version: 'policy version that sampled it',
};

/** The arrays behind a column of `length` tokens, none of them present yet. */
export function emptyColumn(name: TokenColumnName, length: number): TokenColumn {
  const present = new Uint8Array(Math.ceil(length / 8));
  switch (name) {
    case 'position':
    case 'node':
    case 'token_id':
      return { kind: 'u32', values: new Uint32Array(length), present: null };
    case 'mask':
      return { kind: 'u8', values: new Uint8Array(length), present: null };
    case 'is_content':
    case 'is_masked':
      return { kind: 'u8', values: new Uint8Array(length), present };
    case 'policy_version':
      return { kind: 'i64', values: new BigInt64Array(length), present };
    case 'logprob':
    case 'reference_logprob':
    case 'teacher_logprob':
    case 'trainer_logprob':
    case 'entropy':
    case 'advantage':
      return { kind: 'f32', values: new Float32Array(length), present };
  }
}

export function markPresent(column: TokenColumn, at: number): void {
  if (column.present !== null) column.present[at >> 3] = (column.present[at >> 3] as number) | (1 << (at & 7));
}

export function isPresent(column: TokenColumn, at: number): boolean {
  return column.present === null || ((column.present[at >> 3] as number) & (1 << (at & 7))) !== 0;
}
