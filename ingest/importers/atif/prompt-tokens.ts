/** ATIF's step metrics as token streams of nodes: the whole prompt of each step becomes what it adds to the path. Pure. */
import { WholeFloat } from '../../../events/codec/whole-float.ts';
import { PackedArray } from '../../../events/packed-array.ts';
import { isList, type Json, type JsonRecord } from '../json-value.ts';

export type Taken = {
  readonly tokens: JsonRecord | null;
  /** The prompt is known, and stands on the path: messages before it have no tokens of their own. */
  readonly isOnPath: boolean;
  /** Why ids that are there are not mapped. */
  readonly problem: string | null;
};
const NOTHING: Taken = { tokens: null, isOnPath: false, problem: null };

/** Follows the steps of a trajectory. A prompt that does not go on from the path (it was tokenised anew, or context was compacted) is left out: ids on a path are exactly what the engine saw. */
export class PromptTokens {
  #path: number[] = [];

  /** `sampled`: the answer was made in this trace; else its ids are prompt too. */
  take(metrics: JsonRecord, sampled: boolean): Taken {
    const { prompt_token_ids: asked, completion_token_ids: answered } = metrics;
    const completion = idsOf(answered);
    if ((answered === undefined || answered === null) && (asked === undefined || asked === null)) return NOTHING;
    if (completion === null) return { ...NOTHING, problem: 'no list of ids below 2^31, or a prompt alone' };
    if (asked === undefined || asked === null) {
      return { tokens: streams([], completion, metrics['logprobs'], sampled), isOnPath: false, problem: null };
    }
    const prompt = idsOf(asked);
    if (prompt === null) return { ...NOTHING, problem: 'no list of ids below 2^31, or a prompt alone' };
    const path = this.#path;
    if (prompt.length < path.length || path.some((id, i) => prompt[i] !== id)) {
      return { ...NOTHING, problem: 'a prompt that does not begin with the ids before it' };
    }
    const added = prompt.slice(path.length);
    this.#path = [...prompt, ...completion];
    return { tokens: streams(added, completion, metrics['logprobs'], sampled), isOnPath: true, problem: null };
  }
}

/** Of a message that has none of its own. */
export function noTokens(): JsonRecord {
  return { ids: PackedArray.of(new Uint32Array(0)), mask: PackedArray.of(new Uint8Array(0)) };
}

function streams(added: readonly number[], completion: readonly number[], given: Json | undefined, sampled: boolean): JsonRecord {
  const mask = new Uint8Array(added.length + completion.length);
  if (sampled) mask.fill(1, added.length);
  const logprobs = sampled ? logprobsOf(given, completion.length) : null;
  return {
    ids: PackedArray.of(Uint32Array.from([...added, ...completion])),
    mask: PackedArray.of(mask),
    ...(logprobs !== null && { logprobs: PackedArray.of(logprobs) }),
  };
}

function idsOf(value: Json | undefined): readonly number[] | null {
  if (!isList(value)) return null;
  const isId = (id: Json): boolean => typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < 2 ** 31 && !Object.is(id, -0);
  return value.every(isId) ? (value as readonly number[]) : null;
}

/** As float32, the precision that engines give; what a list says beyond it is kept with the step. */
function logprobsOf(value: Json | undefined, length: number): Float32Array | null {
  if (!isList(value) || value.length !== length) return null;
  const numbers = value.map((item) => (item instanceof WholeFloat ? item.value : item));
  return numbers.every((item) => typeof item === 'number') ? Float32Array.from(numbers as number[]) : null;
}
