/** From a reply to what an engine has sampled: ids, one float32 log-probability per id, the text each id adds and to which field, and why it stopped. */
import { answerSpans, type ToolCall } from './chat-template.ts';
import type { Reply } from './behaviour.ts';
import type { Tokenizer } from './tokenizer.ts';

/** What one id adds to the message as a harness sees it (nothing, for scaffold and for bytes that complete no character yet). */
export type Piece = {
  readonly reasoning?: string;
  readonly content?: string;
  /** `id` and `name` come once per call, before its arguments. */
  readonly call?: { readonly index: number; readonly id?: string; readonly name?: string; readonly arguments?: string };
};

export type Alternative = { readonly id: number; readonly logprob: number };
export type PolicyRun = { readonly length: number; readonly version: number };

export type Completion = {
  readonly index: number;
  readonly ids: Uint32Array;
  readonly logprobs: Float32Array;
  /** One per id. */
  readonly pieces: readonly Piece[];
  /** The most probable ids at each place, the sampled one first. Empty where none were asked for. */
  readonly alternatives: readonly (readonly Alternative[])[];
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
  /** The stop string or stop token id that ended it, null for the model's own end. */
  readonly stopReason: string | number | null;
  readonly message: { readonly content: string; readonly reasoning: string; readonly toolCalls: readonly ToolCall[] };
  readonly policyRuns: readonly PolicyRun[];
};

export type CompletionLimits = {
  readonly maxTokens: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly topLogprobs: number;
};

/** `state`: seed of the log-probabilities (engine seed, prompt, choice, sample). `versionAt`: the policy version that samples the id at a place. */
export function completionOf(
  tokenizer: Tokenizer,
  reply: Reply,
  index: number,
  state: number,
  limits: CompletionLimits,
  versionAt: (place: number) => number,
): Completion {
  const calls = (reply.toolCalls ?? []).map((call, i) => ({
    id: call.id ?? `call_${hex(mix(state, i + 1))}${hex(mix(state, i + 101))}`,
    name: call.name,
    arguments: typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments),
  }));
  const whole = spell(tokenizer, { content: reply.content ?? '', reasoning: reply.reasoning ?? '', toolCalls: calls });
  const cut = cutAt(whole, limits);
  const ids = Uint32Array.from(whole.ids.slice(0, cut.length));
  const versions = Array.from(ids, (_, place) => versionAt(place));
  const logprobs = Float32Array.from(ids, (id, place) => logprobAt(state, versions[place] as number, place, id));
  return {
    index,
    ids,
    logprobs,
    pieces: cut.pieces,
    alternatives:
      limits.topLogprobs === 0
        ? []
        : Array.from(ids, (id, place) => alternatives(tokenizer, id, logprobs[place] as number, limits.topLogprobs)),
    finishReason: cut.reason === 'end' ? (calls.length > 0 ? 'tool_calls' : 'stop') : cut.reason,
    stopReason: cut.stopReason,
    message: foldPieces(cut.pieces),
    policyRuns: runsOf(versions),
  };
}

/** The message a harness assembles from pieces. */
export function foldPieces(pieces: readonly Piece[]): Completion['message'] {
  let content = '';
  let reasoning = '';
  const toolCalls: { id: string; name: string; arguments: string }[] = [];
  for (const piece of pieces) {
    content += piece.content ?? '';
    reasoning += piece.reasoning ?? '';
    if (piece.call === undefined) continue;
    const call = (toolCalls[piece.call.index] ??= { id: '', name: '', arguments: '' });
    call.id += piece.call.id ?? '';
    call.name += piece.call.name ?? '';
    call.arguments += piece.call.arguments ?? '';
  }
  return { content, reasoning, toolCalls };
}

type Spelled = { readonly ids: number[]; readonly pieces: Piece[] };

function spell(tokenizer: Tokenizer, answer: { content: string; reasoning: string; toolCalls: readonly ToolCall[] }): Spelled {
  const ids: number[] = [];
  const pieces: Piece[] = [];
  for (const span of answerSpans(tokenizer, answer)) {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    span.ids.forEach((id, i) => {
      const last = i === span.ids.length - 1;
      ids.push(id);
      if (span.part === 'scaffold') {
        const call = last && span.call !== undefined ? (answer.toolCalls[span.call] as ToolCall) : undefined;
        pieces.push(call === undefined ? {} : { call: { index: span.call as number, id: call.id, name: call.name, arguments: '' } });
        return;
      }
      const text = decoder.decode(tokenizer.bytesOf(id), { stream: !last });
      if (text === '') pieces.push({});
      else if (span.part === 'arguments') pieces.push({ call: { index: span.call as number, arguments: text } });
      else pieces.push(span.part === 'reasoning' ? { reasoning: text } : { content: text });
    });
  }
  ids.push(tokenizer.markers.imEnd);
  pieces.push({});
  return { ids, pieces };
}

type Cut = {
  readonly length: number;
  readonly pieces: Piece[];
  readonly reason: 'end' | 'stop' | 'length';
  readonly stopReason: string | number | null;
};

/** The first of: a stop string in the content (its ids stay, its text goes, as vLLM does), a stop token id, the limit, the end. */
function cutAt(whole: Spelled, limits: CompletionLimits): Cut {
  const { ids, pieces } = whole;
  let cut: Cut = { length: ids.length, pieces, reason: 'end', stopReason: null };
  const stopId = ids.findIndex((id, i) => i < ids.length - 1 && limits.stopTokenIds.includes(id));
  if (stopId >= 0) cut = { length: stopId + 1, pieces: pieces.slice(0, stopId + 1), reason: 'stop', stopReason: ids[stopId] as number };
  const text = cut.pieces.map((p) => p.content ?? '').join('');
  const hits = limits.stop.filter((s) => s !== '' && text.includes(s)).map((s) => ({ stop: s, at: text.indexOf(s) }));
  const hit = hits.toSorted((a, b) => a.at + a.stop.length - (b.at + b.stop.length))[0];
  if (hit !== undefined) {
    let seen = 0;
    const end = hit.at + hit.stop.length;
    const last = cut.pieces.findIndex((p) => (seen += p.content?.length ?? 0) >= end);
    cut = { length: last + 1, pieces: trimContent(cut.pieces.slice(0, last + 1), hit.at), reason: 'stop', stopReason: hit.stop };
  }
  if (cut.length > limits.maxTokens) {
    return { length: limits.maxTokens, pieces: cut.pieces.slice(0, limits.maxTokens), reason: 'length', stopReason: null };
  }
  return cut;
}

function trimContent(pieces: readonly Piece[], keep: number): Piece[] {
  let left = keep;
  return pieces.map((piece) => {
    if (piece.content === undefined) return piece;
    const content = piece.content.slice(0, left);
    left -= content.length;
    return content === '' ? {} : { content };
  });
}

function alternatives(tokenizer: Tokenizer, id: number, logprob: number, count: number): Alternative[] {
  return Array.from({ length: count }, (_, i) =>
    i === 0 ? { id, logprob } : { id: (id + i * 7919) % tokenizer.textIds, logprob: Math.fround(logprob - 0.5 * i - 1) },
  );
}

function runsOf(versions: readonly number[]): PolicyRun[] {
  const runs: { length: number; version: number }[] = [];
  for (const version of versions) {
    const last = runs.at(-1);
    if (last?.version === version) last.length++;
    else runs.push({ length: 1, version });
  }
  return runs;
}

/** Between about -3 and 0, mostly near 0, exact in float32; depends on everything before it only through `state`. */
function logprobAt(state: number, version: number, place: number, id: number): number {
  const x = mix(mix(mix(state, version), place), id) / 2 ** 32;
  return Math.fround(-3 * x * x * x - 1e-6);
}

/** A 32-bit hash of two 32-bit values. */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x165667b1, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return (h ^ (h >>> 15)) >>> 0;
}

export function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}
