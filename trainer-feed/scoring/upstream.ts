/**
 * The model servers that workers may ask, by name. They come from the server's configuration alone: nothing in a request, a specification or an event can name an address, and
 * redirects are not followed. What can pass (no connection, 408, 425, 429, 5xx, an answer that is no JSON) is tried again until the signal aborts; all else is a failure by name.
 */
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import type { Result } from '../../base/result.ts';
import { isMap } from '../../events/fields.ts';
import { Slots } from './slots.ts';

/** What workers need to know of an upstream; docs/gateway.md has the whole table. */
export type ScoringUpstream = {
  readonly name: string;
  readonly kind: 'vllm' | 'sglang' | 'openai-compatible' | 'openai' | 'anthropic';
  /** Without trailing slash: `/tokenize` and `/generate` hang here. */
  readonly rootUrl: string;
  /** Without trailing slash: `/completions` hangs here. */
  readonly apiUrl: string;
  readonly apiKey: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly models?: readonly string[] | Readonly<Record<string, string>> | undefined;
  readonly policyVersion: { readonly header?: string | undefined; readonly field?: string | undefined };
  readonly tokenizerHash?: string | undefined;
};

/** Why a score will never come, by name and with a sentence for people. */
export type ScoringFailure = { readonly reason: string; readonly message: string };
export type Scored<T> = Result<T, ScoringFailure>;

export function failed(reason: string, message: string): { readonly ok: false; readonly error: ScoringFailure } {
  return { ok: false, error: { reason, message } };
}

export type Answer = { readonly body: Readonly<Record<string, unknown>>; readonly headers: Headers };

export type AskOptions = { readonly maxBytes: number; readonly signal: AbortSignal };

type Deps = {
  readonly clock: Clock;
  readonly random: Random;
  /** Requests to one upstream at a time. */
  readonly concurrency: number;
  readonly onRetry: (error: unknown, upstream: string) => void;
};

const PASSING = new Set([408, 425, 429]);
const SHOWN_BYTES = 300;

export class ScoringUpstreams {
  readonly #known: ReadonlyMap<string, ScoringUpstream>;
  readonly #slots = new Map<string, Slots>();
  readonly #models = new Map<string, string>();
  readonly #deps: Deps;

  constructor(upstreams: readonly ScoringUpstream[], deps: Deps) {
    this.#known = new Map(upstreams.map((upstream) => [upstream.name, upstream]));
    this.#deps = deps;
  }

  /** The upstream of that name; null = the only one there is. */
  find(name: string | null): Scored<ScoringUpstream> {
    const found = name === null ? (this.#known.size === 1 ? [...this.#known.values()][0] : undefined) : this.#known.get(name);
    if (found !== undefined) return { ok: true, value: found };
    const names = [...this.#known.keys()].join(', ') || 'none';
    return name === null
      ? failed('upstream_not_named', `the specification names no upstream, and this server has not exactly one (${names})`)
      : failed('upstream_unknown', `this server has no upstream ${name} (it has ${names}): add it to TAPEDECK_UPSTREAMS`);
  }

  /** The name by which the upstream knows its model: as wanted, or the only one it serves. */
  async modelOf(upstream: ScoringUpstream, wanted: string | null, signal: AbortSignal): Promise<Scored<string>> {
    const { models } = upstream;
    if (wanted !== null) return { ok: true, value: models === undefined || isList(models) ? wanted : (models[wanted] ?? wanted) };
    const named = models === undefined ? null : isList(models) ? models : [...new Set(Object.values(models))];
    if (named?.length === 1) return { ok: true, value: named[0] as string };
    const known = this.#models.get(upstream.name);
    if (known !== undefined) return { ok: true, value: known };
    if (named !== null) return failed('model_not_named', `upstream ${upstream.name} serves ${named.join(', ')}: say which (model)`);
    const answer = await this.#send(upstream, `${upstream.apiUrl}/models`, null, { maxBytes: 4 * 1024 * 1024, signal });
    if (!answer.ok) return answer;
    const listed = Array.isArray(answer.value.body['data']) ? (answer.value.body['data'] as unknown[]) : [];
    const ids = listed.flatMap((each) => (isMap(each) && typeof each['id'] === 'string' ? [each['id']] : []));
    if (ids.length !== 1) return failed('model_not_named', `upstream ${upstream.name} serves ${ids.length} models: say which (model)`);
    this.#models.set(upstream.name, ids[0] as string);
    return { ok: true, value: ids[0] as string };
  }

  /** Posts JSON to `path` below the API base (or the root). Rejects only when the signal aborts. */
  ask(upstream: ScoringUpstream, base: 'api' | 'root', path: string, body: string, options: AskOptions): Promise<Scored<Answer>> {
    return this.#send(upstream, (base === 'api' ? upstream.apiUrl : upstream.rootUrl) + path, body, options);
  }

  async #send(upstream: ScoringUpstream, url: string, body: string | null, options: AskOptions): Promise<Scored<Answer>> {
    const { clock, random, concurrency, onRetry } = this.#deps;
    const slots = this.#slots.get(upstream.name) ?? new Slots(concurrency);
    this.#slots.set(upstream.name, slots);
    const release = await slots.take(options.signal);
    try {
      return await retry(() => once(upstream, url, body, options), {
        clock,
        random,
        signal: options.signal,
        backoff: { firstMs: 200, maxMs: 10_000 },
        classify: (error) =>
          isTapedeckError(error, 'upstream_unavailable', 'upstream_malformed') && !options.signal.aborted ? 'retry' : 'permanent',
        onRetry: (error) => onRetry(error, upstream.name),
      });
    } finally {
      release();
    }
  }
}

function isList(models: NonNullable<ScoringUpstream['models']>): models is readonly string[] {
  return Array.isArray(models);
}

async function once(
  upstream: ScoringUpstream,
  url: string,
  body: string | null,
  { maxBytes, signal }: AskOptions,
): Promise<Scored<Answer>> {
  const response = await fetchFrom(upstream, url, body, signal);
  const read = await bodyOf(response, maxBytes, upstream.name, signal);
  if (read === null) return failed('upstream_answer_too_large', `upstream ${upstream.name} answered with more than ${maxBytes} bytes`);
  const text = read.toString('utf8');
  const said = `upstream ${upstream.name} answered ${response.status}: ${text.slice(0, SHOWN_BYTES)}`;
  if (response.status >= 500 || PASSING.has(response.status)) throw new TapedeckError('upstream_unavailable', said);
  if (response.status >= 300) return failed('upstream_refused', said);
  try {
    const value: unknown = JSON.parse(text);
    if (isMap(value)) return { ok: true, value: { body: value, headers: response.headers } };
  } catch {
    // said below
  }
  throw new TapedeckError(
    'upstream_malformed',
    `upstream ${upstream.name} answered with what is no JSON object: ${text.slice(0, SHOWN_BYTES)}`,
  );
}

async function fetchFrom(upstream: ScoringUpstream, url: string, body: string | null, signal: AbortSignal): Promise<Response> {
  const headers = {
    ...upstream.headers,
    ...(upstream.apiKey === null ? {} : { authorization: `Bearer ${upstream.apiKey}` }),
    ...(body === null ? {} : { 'content-type': 'application/json' }),
  };
  try {
    return await fetch(url, { method: body === null ? 'GET' : 'POST', headers, body, redirect: 'manual', signal });
  } catch (cause) {
    throw new TapedeckError('upstream_unavailable', `upstream ${upstream.name} cannot be reached`, { cause });
  }
}

/** The whole body, or null when it is longer than `maxBytes`: then the rest is not read. */
async function bodyOf(response: Response, maxBytes: number, name: string, signal: AbortSignal): Promise<Buffer | null> {
  const parts: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const part of response.body ?? []) {
      length += (part as Uint8Array).length;
      if (length > maxBytes) return null;
      parts.push(part as Uint8Array);
    }
  } catch (cause) {
    if (signal.aborted) throw cause;
    throw new TapedeckError('upstream_unavailable', `the answer of upstream ${name} broke off`, { cause });
  }
  return Buffer.concat(parts);
}
