/**
 * The request that goes to an upstream: what the harness asked, with the values forced by the rollout, and with what training needs asked for in addition.
 * For an upstream of the same dialect only those members change; for another dialect the request is translated, or refused by name. Pure.
 */
import { ok, type Result } from '../../../base/result.ts';
import type { Ask, Dialect, DialectName, Json, JsonObject } from '../dialects/dialect.ts';
import { isObject, writeJson } from '../dialects/json.ts';
import type { CallSettings } from '../traces/settings.ts';
import type { UpstreamSettings } from '../upstreams/settings.ts';
import type { Unwanted } from '../upstreams/token-cut.ts';
import type { Inbound } from './inbound.ts';
import { patchBody } from './patch-body.ts';

export type Outbound = {
  readonly dialect: Dialect;
  readonly isTranslated: boolean;
  readonly body: Buffer;
  /** The ask with everything that was forced. */
  readonly ask: Ask;
  /** The upstream streams its answer. */
  readonly isStream: boolean;
  /** Token data is looked for in the answer. */
  readonly readsTokens: boolean;
  readonly unwanted: Unwanted;
  /** What was sent, for the record: the members that were changed (null = left out), or the whole translated body (a long list of tools as JSON text). */
  readonly sent: { readonly set: JsonObject } | { readonly body: JsonObject };
};

export type OutboundOptions = {
  readonly upstream: UpstreamSettings;
  /** The upstream's name of the model. */
  readonly model: string;
  readonly settings: CallSettings;
  /** The dialect spoken with the upstream. */
  readonly dialect: Dialect;
};

const LONG_TOOLS = 64 * 1024;

/** Problems: `cannot_translate`, naming the field and the remedy. */
export function outboundOf(inbound: Inbound, options: OutboundOptions): Result<Outbound> {
  const { upstream, dialect } = options;
  const ask = forced(inbound.ask, options);
  const isTranslated = dialect.name !== inbound.dialect.name;
  const added = additions(upstream, dialect.name, ask);
  const common = {
    dialect,
    isTranslated,
    ask,
    isStream: ask.stream && added['stream'] !== false,
    readsTokens: upstream.asksTokens || ask.wants.tokenIds || inbound.endpoint.nodes === 'tokens',
    unwanted: unwantedOf(inbound, isTranslated),
  };
  if (isTranslated) {
    const written = dialect.writeAsk(ask);
    if (!written.ok) return written;
    const body = Object.fromEntries(Object.entries({ ...written.value, ...added }).filter(([, value]) => value !== null));
    return ok({ ...common, body: Buffer.from(writeJson(body)), sent: { body: recordable(body) } });
  }
  const changed = changedMembers(inbound.ask, ask, inbound.dialect);
  if (!changed.ok) return changed;
  const set = { ...changed.value, ...notSaid(added, inbound.body) };
  const changes = new Map(Object.entries(set).map(([key, value]) => [key, value === null ? null : writeJson(value)]));
  return ok({ ...common, body: Buffer.from(patchBody(inbound.text, changes)), sent: { set } });
}

/** Long texts leave a record that gets too large; thousands of small values cannot, unless they are one text. */
function recordable(body: JsonObject): JsonObject {
  const tools = body['tools'] === undefined ? '' : writeJson(body['tools']);
  return tools.length > LONG_TOOLS ? { ...body, tools } : body;
}

function notSaid(added: JsonObject, body: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(added).filter(([key, value]) => isObject(value) || body[key] !== value));
}

/** The model as the upstream calls it, and the sampling values of the rollout in place of the harness's. */
function forced(ask: Ask, { model, settings }: OutboundOptions): Ask {
  const overrides = settings.sampling as JsonObject;
  const sampling: Record<string, Json> = { ...ask.sampling };
  if ('max_tokens' in overrides || 'max_completion_tokens' in overrides) {
    delete sampling['max_tokens'];
    delete sampling['max_completion_tokens'];
  }
  Object.assign(sampling, overrides);
  const n = typeof overrides['n'] === 'number' ? overrides['n'] : ask.n;
  return { ...ask, model, sampling, n };
}

/** Top-level members that differ between the two asks, as the dialect writes them; null = left out. Messages and tools are the same in both. */
function changedMembers(before: Ask, after: Ask, dialect: Dialect): Result<Record<string, Json>> {
  if (before.model === after.model && sameValues(before.sampling, after.sampling)) return ok({});
  const light = { messages: [], instructions: 0, tools: [], toolChoice: undefined, rest: {} };
  const [from, to] = [dialect.writeAsk({ ...before, ...light }), dialect.writeAsk({ ...after, ...light })];
  if (!from.ok) return from;
  if (!to.ok) return to;
  const changed: Record<string, Json> = {};
  for (const key of new Set([...Object.keys(from.value), ...Object.keys(to.value)])) {
    const [a, b] = [from.value[key], to.value[key]];
    if (b === undefined) changed[key] = null;
    else if (a === undefined || writeJson(a) !== writeJson(b)) changed[key] = b;
  }
  return ok(changed);
}

function sameValues(a: JsonObject, b: JsonObject): boolean {
  return writeJson(a) === writeJson(b);
}

/** What is asked for in addition, by kind of upstream; null = left out. */
function additions(upstream: UpstreamSettings, dialect: DialectName, ask: Ask): JsonObject {
  if (dialect !== 'openai.chat') return {};
  if (upstream.kind === 'sglang' && upstream.asksTokens) {
    // SGLang gives ids only in a whole answer
    return {
      logprobs: true,
      return_meta_info: true,
      return_prompt_token_ids: true,
      ...(ask.stream && { stream: false, stream_options: null }),
    };
  }
  const options = isObject(ask.rest['stream_options']) ? ask.rest['stream_options'] : {};
  return {
    ...(ask.stream && { stream_options: { ...options, include_usage: true } }),
    ...(upstream.asksTokens && { logprobs: true, return_token_ids: true }),
  };
}

/** What the harness of a chat did not ask for and does not see. A translated answer has no token data in any case. */
function unwantedOf({ ask, body, endpoint }: Inbound, isTranslated: boolean): Unwanted {
  if (endpoint.dialect !== 'openai.chat' || isTranslated) return { ids: false, logprobs: false, usage: false, metaInfo: false };
  const { wants } = ask;
  return {
    ids: !wants.tokenIds && body['return_prompt_token_ids'] !== true,
    logprobs: !wants.logprobs,
    usage: ask.stream && !wants.usageInStream,
    metaInfo: body['return_meta_info'] !== true,
  };
}
