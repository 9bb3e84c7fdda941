/**
 * Which upstream takes a call: one that serves the model and is healthy, the same one for all calls of a trace as long as it is (its prefix cache holds the
 * trace), others only when it cannot be reached. Health is asked for in the background and learnt from calls.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../../../base/clock.ts';
import { fail, ok, type Result } from '../../../base/result.ts';
import { createUpstreamHttp, type UpstreamHttp } from './http.ts';
import type { UpstreamSettings } from './settings.ts';

export type Upstream = {
  readonly settings: UpstreamSettings;
  readonly http: UpstreamHttp;
  /** What the upstream calls a model that a harness asks for; null when it does not serve it. */
  modelName(asked: string): string | null;
  readonly isHealthy: boolean;
  /** A call could not reach it, or did. */
  note(reached: boolean): void;
};

export type UpstreamPool = {
  readonly all: readonly Upstream[];
  /** Those that can take the call, best first: at least one. Errors: `model_unknown`, `upstream_unavailable` when nothing is configured. */
  candidates(model: string, options: { readonly sticky: string; readonly pinned: string | null }): Result<readonly Upstream[]>;
  close(): Promise<void>;
};

export type PoolOptions = { readonly upstreams: readonly UpstreamSettings[]; readonly clock: Clock };

export function createUpstreamPool({ upstreams, clock }: PoolOptions): UpstreamPool {
  const stop = new AbortController();
  const all = upstreams.map((settings) => createUpstream(settings));
  const watching = all.map((upstream) => watch(upstream, clock, stop.signal));
  return {
    all,
    candidates(model, { sticky, pinned }) {
      if (all.length === 0) return fail('upstream_unavailable', 'no upstream is configured; set TAPEDECK_UPSTREAMS (docs/gateway.md)');
      const named = pinned === null ? all : all.filter(({ settings }) => settings.name === pinned);
      if (named.length === 0) return fail('upstream_unavailable', `no upstream is called ${pinned}; there are: ${names(all)}`);
      // token-in routes need not name a model
      const serving = model === '' ? named : named.filter((upstream) => upstream.modelName(model) !== null);
      if (serving.length === 0)
        return fail('model_unknown', `no upstream serves the model ${JSON.stringify(model)}; there are: ${models(named)}`, 'model');
      return ok(ranked(serving, sticky));
    },
    close: async () => {
      stop.abort();
      await Promise.all([...watching, ...all.map(({ http }) => http.close())]);
    },
  };
}

function names(all: readonly Upstream[]): string {
  return all.map(({ settings }) => settings.name).join(', ');
}

function models(all: readonly Upstream[]): string {
  const known = new Set(all.flatMap(({ settings: { models: m } }) => (m === undefined ? [] : Array.isArray(m) ? m : Object.keys(m))));
  return [...known].slice(0, 50).join(', ');
}

type Health = { isUp: boolean };

function createUpstream(settings: UpstreamSettings): Upstream & { readonly health: Health } {
  const health: Health = { isUp: true };
  const { models: served } = settings;
  return {
    settings,
    health,
    http: createUpstreamHttp(settings.timeouts.connectMs),
    modelName: (asked) => {
      if (served === undefined) return asked;
      if (Array.isArray(served)) return served.includes(asked) ? asked : null;
      return Object.hasOwn(served, asked) ? ((served as Record<string, string>)[asked] as string) : null;
    },
    get isHealthy() {
      return health.isUp;
    },
    note: (reached) => {
      // without a health route nothing would bring it back but the next call
      health.isUp = reached || settings.healthPath === null;
    },
  };
}

/** Rendezvous hashing: a trace keeps its upstream when others come and go. Unhealthy ones stand last and are tried when nothing else is left. */
function ranked(upstreams: readonly Upstream[], sticky: string): readonly Upstream[] {
  if (upstreams.length === 1) return upstreams;
  const weight = ({ settings }: Upstream): string => createHash('sha256').update(settings.name).update('\0').update(sticky).digest('hex');
  return upstreams
    .map((upstream) => ({ upstream, weight: weight(upstream) }))
    .toSorted((a, b) => Number(b.upstream.isHealthy) - Number(a.upstream.isHealthy) || (a.weight < b.weight ? -1 : 1))
    .map(({ upstream }) => upstream);
}

async function watch(upstream: Upstream & { readonly health: Health }, clock: Clock, signal: AbortSignal): Promise<void> {
  const { settings, health } = upstream;
  if (settings.healthPath === null) return;
  while (!signal.aborted) {
    health.isUp = await asksWell(upstream, signal);
    await clock.sleep(settings.health.everyMs, signal).catch(() => {});
  }
}

function asksWell({ settings, http }: Upstream, signal: AbortSignal): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const request = {
    method: 'GET' as const,
    url: settings.rootUrl + (settings.healthPath as string),
    headers: { ...settings.headers, ...(settings.apiKey !== null && { authorization: `Bearer ${settings.apiKey}` }) },
    body: null,
    firstByteMs: settings.health.timeoutMs,
    idleMs: settings.health.timeoutMs,
  };
  let isGood = false;
  const exchange = http.send(request, {
    onHead: (status) => (isGood = status < 500),
    onChunk: () => true,
    onEnd: () => resolve(isGood),
    onError: () => resolve(false),
  });
  const onAbort = (): void => exchange.abort(new Error('closing'));
  signal.addEventListener('abort', onAbort, { once: true });
  return promise.finally(() => signal.removeEventListener('abort', onAbort));
}
