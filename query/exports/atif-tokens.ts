/** Token streams along a branch as ATIF's step metrics: the whole prompt of a step, and what was sampled with its logprobs. Pure. */
import type { PackedArray } from '../../events/packed-array.ts';
import { JsonText } from './exact-json.ts';
import { dataOf, type Count } from './atif-messages.ts';

export type TokenMetrics = {
  readonly prompt_token_ids?: JsonText;
  readonly completion_token_ids?: JsonText;
  readonly logprobs?: JsonText;
};

/** Follows a branch from its root; each node is given once, in order. After a node without tokens the prompts behind it are unknown. */
export class BranchTokens {
  readonly #count: Count;
  #prompt: string[] = [];
  #isKnown = true;

  constructor(count: Count) {
    this.#count = count;
  }

  /** The metrics of a sampled node; empty for others, and where the tokens are not known. */
  add(node: Readonly<Record<string, unknown>>): TokenMetrics {
    const tokens = dataOf(node['tokens']);
    if (tokens === null) {
      this.#isKnown = false;
      return {};
    }
    const ids = [...(tokens['ids'] as PackedArray<'u32'>).typed()].map(String);
    const mask = (tokens['mask'] as PackedArray<'u8'>).bytes;
    const [first, last] = [mask.indexOf(1), mask.lastIndexOf(1)];
    const before = first < 0 ? ids : ids.slice(0, first);
    const prompt = this.#isKnown ? [...this.#prompt, ...before] : null;
    this.#prompt.push(...before);
    for (const id of ids.slice(before.length)) this.#prompt.push(id);
    if (first < 0) return {};
    if (mask.subarray(first, last + 1).includes(0)) {
      this.#count('token streams with ids between the sampled ones');
      return {};
    }
    return {
      ...(prompt !== null && { prompt_token_ids: new JsonText(`[${prompt.join(',')}]`) }),
      completion_token_ids: new JsonText(`[${ids.slice(first, last + 1).join(',')}]`),
      ...this.#logprobs(tokens),
    };
  }

  #logprobs(tokens: Readonly<Record<string, unknown>>): Pick<TokenMetrics, 'logprobs'> {
    const stream = tokens['logprobs'] as PackedArray<'f32'> | null | undefined;
    if (stream === null || stream === undefined) return {};
    const values = stream.typed();
    if (!values.every(Number.isFinite)) {
      this.#count('logprobs with values that JSON does not have');
      return {};
    }
    return { logprobs: new JsonText(`[${values.join(',')}]`) };
  }
}
