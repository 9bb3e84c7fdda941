/**
 * The one neutral shape that everything inside the gateway speaks, and what a dialect can do with it. It is the chat shape that verifiers uses,
 * so that nodes of all dialects compare. Types only; one file per dialect implements them, `dialects.ts` finds them by name.
 *
 * Values are exact: an integer beyond 2^53 is a bigint, a lone surrogate stays one, the arguments of a tool call are the model's own text.
 * `json.ts` reads and writes such values; JSON.parse and JSON.stringify round or throw.
 */
import type { Problem, Result } from '../../../base/result.ts';
import type { SseEvent, SseFrame } from '../sse/sse-event.ts';

export type Json = null | boolean | number | bigint | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [key: string]: Json };

export const DIALECTS = [
  'openai.chat', 'openai.responses', 'anthropic.messages', 'openai.completions', 'openai.embeddings', 'vllm.generate', 'sglang.generate',
] as const; // prettier-ignore
export type DialectName = (typeof DIALECTS)[number];

/**
 * One message as stored in node.message: `role`, `content` (text, parts, or null), `reasoning_content`?, `refusal`?, `tool_calls`? (each
 * `{id, name, arguments}`, arguments the raw text of the model, and `type: 'custom'` for a tool that takes free text), `tool_call_id`?, `name`?,
 * `is_error`? (true on a failed tool's result), and `provider_state`?: a list of what only its dialect has, verbatim, told apart by `type`.
 * Parts are chat parts: `{type: 'text', text}`, `{type: 'image_url', image_url: {url}}`, `{type: 'file', file: {…}}`, and others verbatim.
 */
export type Message = JsonObject & { readonly role: string };

/** What a harness asks, in neutral form. */
export type Ask = {
  readonly dialect: DialectName;
  readonly model: string;
  readonly stream: boolean;
  readonly n: number;
  /** System prompt or instructions first, as role system (or developer). Empty for completions, embeddings and token-in calls. */
  readonly messages: readonly Message[];
  /** How many of the leading messages come from a field of their own (`instructions`, `system`): they belong to this request only. */
  readonly instructions: number;
  /** Chat function tools `{type: 'function', function: {name, description?, parameters?, strict?}}`; provider-only tools verbatim. */
  readonly tools: readonly JsonObject[];
  /** The chat form: 'none' | 'auto' | 'required' | {type: 'function', function: {name}}; anything else verbatim. */
  readonly toolChoice: Json | undefined;
  /** Parameters only, under their chat names: temperature, top_p, max_tokens, stop, seed, reasoning_effort, response_format, parallel_tool_calls … */
  readonly sampling: JsonObject;
  readonly wants: {
    readonly logprobs: boolean;
    readonly topLogprobs: number | null;
    readonly tokenIds: boolean;
    /** The harness asked for a usage report in a chat or completions stream. Other dialects always have one: true. */
    readonly usageInStream: boolean;
  };
  readonly previousResponseId: string | null;
  /** Fields that are not interpreted: passed through to an engine of the same dialect, verbatim; refused by name when translated. */
  readonly rest: JsonObject;
};

/** Counts as the engine gave them; null = not said. `promptTokens` INCLUDES cached and cache-written tokens, whatever the dialect's own convention. */
export type Usage = {
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly cachedTokens: number | null;
  readonly cacheWriteTokens: number | null;
  readonly reasoningTokens: number | null;
  /** US dollars, where the engine says it. */
  readonly cost: number | null;
};

export type Choice = {
  readonly index: number;
  readonly message: Message;
  /** In chat words: stop, length, tool_calls, content_filter; a word that has no such meaning stays as it is; null = not finished. */
  readonly finishReason: string | null;
  /** The reason in the dialect's own words (end_turn, max_output_tokens …), when it differs. */
  readonly nativeFinish: string | null;
  /** The stop sequence (or the stop token id) that ended it, when the engine says so. */
  readonly stopSequence: string | number | null;
};

/** One answer (n > 1: several choices, by index). Token data is not in here: the adapter of the engine has it. `created` is in seconds. */
export type Answer = {
  readonly id: string;
  readonly model: string;
  readonly created: number;
  readonly choices: readonly Choice[];
  readonly usage: Usage | null;
};

/** One step of a streamed answer in neutral form. `choice` is the choice's index, `call` the tool call's ordinal in its choice, from 0. */
export type Delta =
  | { readonly type: 'start'; readonly id: string; readonly model: string; readonly created: number }
  | { readonly type: 'text'; readonly choice: number; readonly text: string }
  | { readonly type: 'reasoning'; readonly choice: number; readonly text: string }
  | { readonly type: 'refusal'; readonly choice: number; readonly text: string }
  | {
      readonly type: 'tool_call';
      readonly choice: number;
      readonly call: number;
      readonly id: string;
      readonly name: string;
      /** A custom tool takes free text as its arguments. */
      readonly custom: boolean;
    }
  | { readonly type: 'tool_arguments'; readonly choice: number; readonly call: number; readonly text: string }
  /** One complete entry of `provider_state` (a signed thinking block, encrypted reasoning). */
  | { readonly type: 'state'; readonly choice: number; readonly state: JsonObject }
  /** Output that has no neutral form (a server-side tool's block): a writer of another dialect refuses it by name. */
  | { readonly type: 'opaque'; readonly choice: number; readonly what: string; readonly value: JsonObject }
  | {
      readonly type: 'finish';
      readonly choice: number;
      readonly finishReason: string;
      readonly nativeFinish: string | null;
      readonly stopSequence: string | number | null;
    }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'error'; readonly error: StreamError };

/** An error that the engine reported inside its stream; `status` is its HTTP status where one is told or follows from the type. */
export type StreamError = { readonly type: string; readonly message: string; readonly status: number | null; readonly body: Json };

/** What one event of a stream said. */
export type FoldStep = {
  readonly deltas: readonly Delta[];
  /** The event's data as parsed, so that nobody parses it twice; null for comments, [DONE] and empty data. */
  readonly json: Json;
  /** From this event on a client may take the answer for finished: hold it, and all that follow, until the call is durable. */
  readonly terminal: boolean;
};

export type FoldState = {
  /** Every choice has its finish reason. */
  readonly finished: boolean;
  /** The dialect's own end of stream was seen ([DONE], message_stop, response.completed …). */
  readonly ended: boolean;
  readonly error: StreamError | null;
};

/** Folds the events of one stream into its answer. */
export type AnswerFold = {
  /** A malformed event is a problem (`invalid_json`, `malformed_stream`, `sse_event_too_large` …); the fold stays as it was. */
  add(event: SseEvent): Result<FoldStep>;
  /** The answer so far: partial while `state().finished` is false. */
  answer(): Answer;
  state(): FoldState;
};

/** A frame to send; from the first `terminal` one on, frames are held until the call is durable. */
export type OutFrame = SseFrame & { readonly terminal: boolean };

/** Turns the deltas of an answer into the dialect's own events, with its order, indices and sequence numbers. */
export type StreamWriter = {
  /** `cannot_translate` when the delta has no form in this dialect. */
  write(delta: Delta): Result<readonly OutFrame[]>;
  /** The frames that end the stream, once, after the last delta. All terminal. */
  end(): readonly OutFrame[];
  /** The stream breaks: the dialect's error event, after which nothing follows. */
  fail(status: number, code: string, message: string): readonly OutFrame[];
};

/** Ids and times that a writer has to make up; injected, so that a replay makes the same ones. */
export type Naming = { readonly newId: (prefix: string) => string; readonly nowSeconds: () => number };

export type Dialect = {
  readonly name: DialectName;
  parseAsk(body: JsonObject): Result<Ask>;
  /** The request for an engine of this dialect. `cannot_translate` names the field that it cannot say, and the remedy. */
  writeAsk(ask: Ask): Result<JsonObject>;
  parseAnswer(body: JsonObject): Result<Answer>;
  writeAnswer(answer: Answer, ask: Ask, naming: Naming): Result<JsonObject>;
  /** The dialect's own error body. `code` is one of ours or the upstream's; `message` is for people. */
  errorBody(status: number, code: string, message: string): JsonObject;
  /** `n` is the number of choices that were asked for. */
  createFold(n: number): AnswerFold;
  createWriter(ask: Ask, naming: Naming): StreamWriter;
};

export type { Problem };
