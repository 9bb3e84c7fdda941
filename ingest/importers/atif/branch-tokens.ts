/** Token streams along a branch as ATIF's step metrics: the whole prompt of a step, and what was sampled with its logprobs. Pure. */
import { WholeFloat } from '../../../events/codec/whole-float.ts';
import type { PackedArray } from '../../../events/packed-array.ts';
import { recordOf, type JsonRecord } from '../json-value.ts';
import { exactJson, JsonText } from './exact-json.ts';
import type { Count } from './messages.ts';

export type TokenMetrics = {
  readonly prompt_token_ids?: JsonText;
  readonly completion_token_ids?: JsonText;
  readonly logprobs?: JsonText;
};

/** Follows a branch from its root; each node is given once, in order. After a node without tokens the prompts behind it are unknown. */
export class BranchTokens {
  readonly #count: Count;
  /** The ids so far, as the inside of a JSON list. */
  #ids = '';
  #isKnown = true;

  constructor(count: Count) {
    this.#count = count;
  }

  /** The metrics of a sampled node; empty for others, and where the tokens are not known. */
  add(node: JsonRecord): TokenMetrics {
    const tokens = recordOf(node['tokens']);
    if (tokens === null) {
      this.#isKnown = false;
      return {};
    }
    const ids: Uint32Array = (tokens['ids'] as PackedArray<'u32'>).typed();
    const mask = (tokens['mask'] as PackedArray<'u8'>).bytes;
    const [first, last] = [mask.indexOf(1), mask.lastIndexOf(1)];
    this.#append(first < 0 ? ids : ids.subarray(0, first));
    const prompt = this.#ids;
    if (first < 0) return {};
    this.#append(ids.subarray(first));
    if (mask.subarray(first, last + 1).includes(0)) {
      this.#count('token streams with ids between the sampled ones');
      return {};
    }
    return {
      ...(this.#isKnown && { prompt_token_ids: new JsonText(`[${prompt}]`) }),
      completion_token_ids: new JsonText(`[${ids.subarray(first, last + 1).join(',')}]`),
      ...this.#logprobs(tokens),
    };
  }

  #append(ids: Uint32Array): void {
    if (ids.length > 0) this.#ids += `${this.#ids === '' ? '' : ','}${ids.join(',')}`;
  }

  #logprobs(tokens: JsonRecord): Pick<TokenMetrics, 'logprobs'> {
    const stream = tokens['logprobs'] as PackedArray<'f32'> | null | undefined;
    if (stream === null || stream === undefined) return {};
    const values = stream.typed();
    if (!values.every(Number.isFinite)) {
      this.#count('logprobs with values that JSON does not have');
      return {};
    }
    return { logprobs: new JsonText(`[${Array.from(values, (value) => exactJson(WholeFloat.box(value))).join(',')}]`) };
  }
}
