/** Keys for the recording gateway: programs that call models through it are recorded there, token for token, under a rollout of ours. */
import { withDeadline } from '../base/deadline.ts';
import { systemClock } from '../base/clock.ts';
import { ERROR_CODES, TapedeckError, type ErrorCode } from '../base/errors.ts';
import type { GatewayKey, GatewayOptions } from './api.ts';
import { isMap, mapOf, textOf } from './wrap/dialect.ts';

export type GatewayCall = (path: string, body: object, key?: string) => Promise<unknown>;

const REQUEST_MS = 30_000;

/** Throws the server's own error, `log_unavailable` when it cannot be reached, `deadline_exceeded`. */
export function gatewayCall(url: string, ownKey: string | undefined, send: typeof fetch): GatewayCall {
  const base = url.endsWith('/') ? url : `${url}/`;
  return async (path, body, key = ownKey) => {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (key !== undefined) headers['authorization'] = `Bearer ${key}`;
    return await withDeadline(systemClock, REQUEST_MS, `the gateway at ${url}`, async (signal) => {
      const response = await send(new URL(path, base), { method: 'POST', headers, body: JSON.stringify(body), signal }).catch(
        (error: unknown) => {
          throw new TapedeckError('log_unavailable', `cannot reach the gateway at ${url}`, { cause: error });
        },
      );
      const answer = await response.json().catch(() => null);
      if (response.ok) return answer;
      const { code, message } = mapOf(mapOf(answer)['error']);
      const known = typeof code === 'string' && Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : 'bad_request';
      throw new TapedeckError(known, textOf(message) ?? `the gateway at ${url} answered with status ${response.status}`);
    });
  };
}

/** The gateway's side of one rollout: it begins with the first key and ends with the rollout. */
export type GatewayRollout = {
  /** A key was asked for. */
  readonly isUsed: boolean;
  /** Traces that were begun through it. */
  readonly traces: number;
  key(options: GatewayOptions): Promise<GatewayKey>;
  /** Refuses later calls and ends its traces. Throws the gateway's errors. */
  end(ok: boolean | null, stopCondition: string | undefined): Promise<void>;
};

/** `started` describes the rollout to the gateway: ids, env, task, group. */
export function gatewayRollout(call: GatewayCall, rollout: string, project: string | undefined, started: object): GatewayRollout {
  let first: Promise<GatewayKey> | null = null;
  let traces = 0;
  const added = (answer: unknown): GatewayKey => {
    const made = keyOf(answer);
    traces++;
    return made;
  };
  return {
    get isUsed() {
      return first !== null;
    },
    get traces() {
      return traces;
    },
    key: async (options) => {
      const settings = { ...options, agent: typeof options.agent === 'string' ? { name: options.agent } : options.agent };
      if (first === null) {
        first = call('v1/rollouts', { ...started, ...settings }).then(added);
        // a first one that failed is tried again by the next
        first.catch(() => {
          first = null;
        });
        return await first;
      }
      const { key } = await first;
      return added(await call(`v1/rollouts/${encodeURIComponent(rollout)}/traces`, { project, ...settings }, key));
    },
    end: async (ok, stopCondition) => {
      const key = await first?.catch(() => null);
      if (key) await call(`v1/rollouts/${encodeURIComponent(rollout)}/end`, { project, ok, stopCondition }, key.key);
    },
  };
}

function keyOf(answer: unknown): GatewayKey {
  const { trace, key, expires, baseUrls } = mapOf(answer);
  const { openai, anthropic, root } = mapOf(baseUrls);
  if (![trace, key, expires, openai, anthropic, root].every((value) => typeof value === 'string') || !isMap(answer))
    throw new TapedeckError('bad_request', 'the gateway answered with something else than a key: is the address right?');
  return { trace, key, expires, baseUrls: { openai, anthropic, root } } as GatewayKey;
}

/** A client of the package `openai` pointed at the gateway. Throws `usage` when the package is not installed. */
export async function openaiAt({ key, baseUrls }: GatewayKey, options: object): Promise<unknown> {
  const found = await import('openai').catch((error: unknown) => {
    throw new TapedeckError('usage', 'rollout.openai() needs the package openai: npm install openai', { cause: error });
  });
  return new found.OpenAI({ ...options, apiKey: key, baseURL: baseUrls.openai });
}
