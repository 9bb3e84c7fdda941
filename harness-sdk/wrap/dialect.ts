/**
 * What a wrapped client needs to know of the API it speaks. Messages are in the neutral form that nodes have everywhere: `role`, `content`, `reasoning_content`?, `refusal`?,
 * `tool_calls`? (each `{id, name, arguments}`, arguments the model's own text), `tool_call_id`?, `provider_state`? (what only this API has, verbatim).
 */
import type { ErrorInfo, Message, Usage } from '../record-types.ts';

export type JsonMap = { readonly [key: string]: unknown };

export type Ask = {
  readonly model: string | undefined;
  readonly messages: readonly Message[];
  readonly tools: readonly unknown[];
  readonly stream: boolean;
  /** Everything else of the request, under its own names. */
  readonly sampling: JsonMap;
  /** Responses: the answer that this request goes on from. */
  readonly previous: string | undefined;
};

export type Choice = {
  readonly message: Message | null;
  readonly finishReason: string | undefined;
  /** What the engine sampled, where it says so; logprobs null where it gave none at all. */
  readonly ids: readonly number[] | null;
  readonly logprobs: readonly unknown[] | null;
};

export type Answer = {
  readonly id: string | undefined;
  readonly model: string | undefined;
  readonly choices: readonly Choice[];
  readonly usage: Usage | undefined;
  readonly promptIds: readonly number[] | null;
  /** An error that came inside the answer. */
  readonly error: ErrorInfo | undefined;
};

export const NO_ANSWER: Answer = { id: undefined, model: undefined, choices: [], usage: undefined, promptIds: null, error: undefined };

/** Folds the events of a stream. `answer` is what has arrived so far. */
export type Fold = {
  add(data: unknown): { readonly hasContent: boolean; readonly isLast: boolean };
  answer(): Answer;
};

export type Dialect = {
  readonly name: string;
  ask(body: JsonMap): Ask;
  answer(body: JsonMap): Answer;
  fold(): Fold;
};

export function isMap(value: unknown): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function mapOf(value: unknown): JsonMap {
  return isMap(value) ? value : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function mapsOf(value: unknown): readonly JsonMap[] {
  return listOf(value).filter(isMap);
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Nothing is said by it. */
export function isSilent(value: unknown): boolean {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** Without the keys that are silent. */
export function said<T extends JsonMap>(map: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(map).filter(([, value]) => !isSilent(value))) as { [K in keyof T]?: NonNullable<T[K]> };
}

export function without(map: JsonMap, keys: ReadonlySet<string>): JsonMap {
  return Object.fromEntries(Object.entries(map).filter(([key, value]) => !keys.has(key) && value !== undefined));
}

/** An error object of the OpenAI or Anthropic kind. */
export function errorOf(value: unknown, statusCode?: number): ErrorInfo {
  const error = isMap(value) ? (isMap(value['error']) ? value['error'] : value) : {};
  const type = textOf(error['type']) ?? textOf(error['code']) ?? '';
  const text = textOf(value) ?? (isSilent(value) ? '' : JSON.stringify(value));
  const message = textOf(error['message']) ?? (text === '' && statusCode !== undefined ? `status ${statusCode}` : text);
  return { type: type === '' ? 'upstream_error' : type, message, ...(statusCode !== undefined && { statusCode }) };
}
