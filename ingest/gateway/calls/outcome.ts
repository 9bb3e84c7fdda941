/** What became of a call, as the relays see it. Types and small makers; nothing here is dialect-specific. */
import type { Answer, Json, Message } from '../dialects/dialect.ts';
import type { Choice } from '../graph/exchange.ts';
import type { Encoded } from '../record/draft.ts';
import type { TokenData } from '../upstreams/token-cut.ts';
import type { ChunkSummary } from './chunk-times.ts';
import type { Told } from './reply.ts';
import type { Versions } from './versions.ts';

/**
 * `type` is one of: cancelled, client_stalled, rollout_ended, upstream_unavailable, upstream_timeout, upstream_refused (4xx), upstream_failed (5xx), engine_error
 * (said in a stream), stream_truncated, malformed_stream, malformed_answer, answer_too_large, empty_answer, cannot_translate, max_wall_time.
 */
export type CallError = { readonly type: string; readonly message: string; readonly statusCode?: number };

export type Attempt = { readonly upstream: string; readonly error: string; readonly ms: number };

export type Outcome = {
  /** The upstream's status; null when it gave none. */
  readonly status: number | null;
  /** What came of the answer; partial when `error` says that it broke. Null when nothing did. */
  readonly answer: Answer | null;
  readonly tokens: TokenData | null;
  readonly error: CallError | null;
  /** Microseconds. */
  readonly firstToken: number | null;
  readonly end: number;
  readonly chunks: ChunkSummary | null;
  readonly versions: Versions | null;
  /** The answer as it came, without the token data that the nodes hold; undefined = none. */
  readonly response: Encoded | Json | undefined;
  /** What the harness gets, byte for byte. */
  readonly told: Told;
  readonly flags: readonly string[];
};

/** Answers and their tokens as the graph takes them, by choice index. A choice without a message (token-in) exists by its tokens alone. */
export function choicesOf({ answer, tokens, error, versions }: Outcome, withMessages: boolean): Choice[] {
  const indices = new Set([...(answer?.choices ?? []).map((c) => c.index), ...(tokens?.choices.keys() ?? [])]);
  return [...indices]
    .toSorted((a, b) => a - b)
    .map((index) => {
      const choice = answer?.choices.find((c) => c.index === index);
      const data = tokens?.choices.get(index);
      const isPartial = error !== null && error.type !== 'empty_answer' && (choice?.finishReason ?? null) === null;
      return {
        index,
        message: withMessages ? ((choice?.message ?? null) as Message | null) : null,
        ids: data?.hasIds === true ? data.ids.take() : null,
        logprobs: data?.hasLogprobs === true ? data.logprobs.take() : null,
        policyRuns: versions?.runsOf(index) ?? null,
        partial: isPartial,
        tokenError: tokens?.fault ?? null,
      };
    });
}

/** Counts over all choices, from the ids themselves; null where the engine gave none. */
export function countedTokens(tokens: TokenData | null): { readonly prompt: number | null; readonly completion: number | null } {
  if (tokens === null) return { prompt: null, completion: null };
  let completion: number | null = null;
  for (const { hasIds, ids } of tokens.choices.values()) if (hasIds) completion = (completion ?? 0) + ids.length;
  return { prompt: tokens.promptIds?.length ?? null, completion };
}

/** True for an answer in which the model said nothing at all. */
export function isEmpty({ choices }: Answer): boolean {
  const nothing = (value: Json | undefined): boolean =>
    value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
  return choices.every(({ message }) =>
    ['content', 'reasoning_content', 'tool_calls', 'refusal', 'provider_state'].every((key) => nothing(message[key])),
  );
}
