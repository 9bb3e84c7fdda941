/**
 * Where the messages of a request end in the engine's prompt, asked of vLLM's `/tokenize` beside the generation: one rung per new message, each the prompt up to
 * that message. Never waited for: what has not come when the answer is there does not count. Nothing is guessed: a rung that is not a prefix of the prompt says nothing.
 */
import type { JsonObject } from '../dialects/dialect.ts';
import { canonicalHash } from '../dialects/message-hash.ts';
import { isList, isObject, readJson, writeJson } from '../dialects/json.ts';
import { printMessages } from '../graph/message-print.ts';
import { requestOf, walk } from '../graph/walk.ts';
import { timeoutsOf, type UpstreamExchange } from '../upstreams/http.ts';
import type { Upstream } from '../upstreams/pool.ts';
import type { Call } from './call.ts';
import type { PlainHeaders } from './harness-headers.ts';
import type { Outbound } from './outbound.ts';

export type Ladder = {
  /** The end of each message in `prompt`, null where it is not known; null when nothing is known. Ends what is still asked. */
  spans(prompt: Uint32Array): readonly (number | null)[] | null;
  stop(): void;
};

/** More new messages than that in one request are rare; the last ones count. */
const MAX_RUNGS = 16;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** What the template looks at beside the messages. */
const TEMPLATE_FIELDS = ['model', 'tools', 'chat_template', 'chat_template_kwargs', 'add_special_tokens', 'mm_processor_kwargs'] as const;

/** Null where the upstream is not asked: it is no vLLM with the setting, or the request has no messages that it could be asked about. */
export function startLadder(call: Call, upstream: Upstream, outbound: Outbound, headers: PlainHeaders): Ladder | null {
  const { settings } = upstream;
  if (!settings.ladder || settings.kind !== 'vllm' || outbound.dialect.name !== 'openai.chat') return null;
  const body = readJson(outbound.body.toString('utf8'));
  const messages = body.ok && isObject(body.value) ? body.value['messages'] : null;
  if (!isList(messages) || messages.length !== call.messages.length) return null;
  const rungs = newMessages(call);
  const found = new Map<number, Uint32Array>();
  const open = new Set<UpstreamExchange>();
  for (const k of rungs) {
    const asked = {
      ...template(body.ok ? (body.value as JsonObject) : {}),
      messages: messages.slice(0, k + 1),
      add_generation_prompt: false,
    };
    const exchange = ask(upstream, headers, Buffer.from(writeJson(asked)), (ids) => {
      open.delete(exchange);
      if (ids !== null) found.set(k, ids);
    });
    open.add(exchange);
  }
  const stop = (): void => {
    for (const exchange of open) exchange.abort(OVER);
    open.clear();
  };
  return {
    stop,
    spans(prompt) {
      stop();
      return spansOf(prompt, messages.length, found);
    },
  };
}

/** Pure: a rung counts when it is a prefix of the prompt and longer than the one before. */
export function spansOf(prompt: Uint32Array, messages: number, rungs: ReadonlyMap<number, Uint32Array>): (number | null)[] | null {
  const spans: (number | null)[] = Array.from({ length: messages }, () => null);
  let last = 0;
  let known = false;
  for (let k = 0; k < messages; k++) {
    const rung = rungs.get(k);
    if (rung === undefined || rung.length <= last || rung.length > prompt.length) continue;
    if (!rung.every((id, i) => id === prompt[i])) continue;
    spans[k] = rung.length;
    last = rung.length;
    known = true;
  }
  return known ? spans : null;
}

/** The messages that the graph does not hold yet, by their index. */
function newMessages({ trace, messages, inbound, printing }: Call): number[] {
  const request = requestOf(trace.graph, printing?.take() ?? printMessages(messages), null, canonicalHash(inbound.ask.tools));
  const from = Math.max(walk(trace.graph, request).depth, messages.length - MAX_RUNGS);
  return Array.from({ length: Math.max(0, messages.length - from) }, (_, i) => from + i);
}

function template(body: JsonObject): JsonObject {
  return Object.fromEntries(TEMPLATE_FIELDS.flatMap((key) => (body[key] === undefined ? [] : [[key, body[key]]])));
}

const OVER = new Error('the answer is there');

/** Told once; null when it failed, for whatever reason. */
function ask({ settings, http }: Upstream, headers: PlainHeaders, body: Buffer, tell: (ids: Uint32Array | null) => void): UpstreamExchange {
  const parts: Buffer[] = [];
  let size = 0;
  let isGood = false;
  const exchange = http.send(
    { method: 'POST', url: `${settings.rootUrl}/tokenize`, headers, body, ...timeoutsOf(settings) },
    {
      onHead: (status) => (isGood = status === 200),
      onChunk: (chunk) => {
        size += chunk.length;
        if (size > MAX_ANSWER_BYTES) exchange.abort(OVER);
        else parts.push(chunk);
        return true;
      },
      onEnd: () => tell(isGood ? idsIn(Buffer.concat(parts)) : null),
      onError: () => tell(null),
    },
  );
  return exchange;
}

function idsIn(body: Buffer): Uint32Array | null {
  const json = readJson(body.toString('utf8'));
  const tokens = json.ok && isObject(json.value) ? json.value['tokens'] : null;
  return isList(tokens) && tokens.every((id) => typeof id === 'number') ? Uint32Array.from(tokens) : null;
}
