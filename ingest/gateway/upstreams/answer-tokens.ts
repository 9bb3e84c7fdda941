/** Token data that lies outside the places of chat: prompt ids in a token-in request, and SGLang's native answer. Pure. */
import type { DialectName, Json, JsonObject } from '../dialects/dialect.ts';
import { isList, isObject } from '../dialects/json.ts';
import { GrowingFloats, GrowingIds } from './growing.ts';
import type { TokenData } from './token-cut.ts';

/** Completes `data` for one whole answer. */
export function tokensOfAnswer(
  inbound: { readonly endpoint: { readonly dialect: DialectName }; readonly body: JsonObject },
  answer: JsonObject,
  data: TokenData,
): void {
  const { dialect } = inbound.endpoint;
  if (dialect !== 'vllm.generate' && dialect !== 'sglang.generate') return;
  if (dialect === 'sglang.generate') addSglang(answer, data);
  data.promptIds ??= idsOf(inbound.body[dialect === 'vllm.generate' ? 'token_ids' : 'input_ids'], data);
}

function addSglang(answer: JsonObject, data: TokenData): void {
  const info = isObject(answer['meta_info']) ? answer['meta_info'] : {};
  const entries = info['output_token_logprobs'];
  const ids = new GrowingIds();
  const logprobs = new GrowingFloats();
  for (const entry of isList(entries) ? entries : []) {
    const [logprob, id] = isList(entry) ? entry : [];
    logprobs.push(typeof logprob === 'number' ? logprob : Number.NaN);
    pushId(ids, id, data);
  }
  const plain = idsOf(answer['output_ids'], data);
  if (plain === null && !isList(entries)) return;
  data.choices.set(0, { ids: plain ?? ids, logprobs, hasIds: true, hasLogprobs: isList(entries) });
}

function idsOf(value: Json | undefined, data: TokenData): GrowingIds | null {
  if (!isList(value) || isList(value[0])) return null;
  const ids = new GrowingIds();
  for (const id of value) pushId(ids, id, data);
  return ids;
}

function pushId(ids: GrowingIds, id: Json | undefined, data: TokenData): void {
  if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < 2 ** 32) ids.push(id);
  else data.fault ??= 'token_ids_unreadable';
}
