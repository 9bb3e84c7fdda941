/** One attempt at one task. */
import { scopeHead, type ScopeIds } from './encode-event.ts';
import type { Env, RolloutOptions, Task, TraceOptions } from './record-types.ts';
import { gatewayRollout, openaiAt } from './gateway-keys.ts';
import type { Scribe } from './scribe.ts';
import { openTrace } from './trace.ts';
import { recordError, recordMetric, recordNote, recordReward } from './values.ts';
import type { Rollout, Trace } from './api.ts';

/** Starts a rollout. Throws what recording throws. */
export function openRollout(scribe: Scribe, run: ScopeIds & { readonly run: string }, options: RolloutOptions): Rollout {
  const id = options.id ?? scribe.newId();
  const group = typeof options.group === 'string' ? { id: options.group } : options.group;
  const ids = { ...run, group: group?.id, rollout: id };
  const head = scopeHead(ids);
  const env: Env | undefined = typeof options.env === 'string' ? { id: options.env } : options.env;
  const task: Task | undefined = typeof options.task === 'string' ? { key: options.task } : options.task;
  const traces = new Set<Trace>();
  let count = 0;
  let failed = false;
  let ended = false;
  const started = scribe.now();
  const { work, policyVersion, attempt, parentRollout, forkNode, extra } = options;
  scribe.write(head, 'rollout.started', { env, task, group, work, policyVersion, attempt, parentRollout, forkNode, started, extra });

  const { project } = run;
  const gateway = gatewayRollout(scribe.gateway, id, project, { project, run: run.run, rollout: id, env, task, group, work, policyVersion, attempt, parentRollout, forkNode }); // prettier-ignore
  let closing: Promise<void> = Promise.resolve();
  /** Writes the end; where the gateway had a part in it, after the gateway's own end, which knows of its traces only. */
  const endWith = (ok: boolean | null, stopCondition: string | undefined, write: () => void): void => {
    if (!gateway.isUsed) return write();
    closing = gateway
      .end(ok, stopCondition)
      .catch((error: unknown) => scribe.onFailure(error))
      .then(write)
      .catch((error: unknown) => scribe.onFailure(error));
    scribe.pending(closing);
  };

  const begin = (given: TraceOptions): Trace => {
    const trace = openTrace(scribe, ids, given);
    traces.add(trace);
    count++;
    return trace;
  };
  const within = async <T>(given: TraceOptions, work: (trace: Trace) => Promise<T> | T): Promise<T> => {
    await scribe.ready();
    const trace = begin(given);
    try {
      const result = await trace.run(() => work(trace));
      trace.end();
      return result;
    } catch (error) {
      trace.error(error);
      trace.end({ ok: false });
      throw error;
    }
  };
  const rollout: Rollout = {
    id,
    run: run.run,
    group: group?.id,
    trace: ((given: TraceOptions = {}, work?: (trace: Trace) => unknown) =>
      work === undefined ? begin(given) : within(given, work)) as Rollout['trace'],
    gateway: (given = {}) => gateway.key(given),
    openai: async ({ client = {}, ...given } = {}) =>
      (await openaiAt(await gateway.key(given), client)) as Awaited<ReturnType<Rollout['openai']>>,
    link: (type, from, to) => void scribe.write(head, 'link.added', { from, to, type }),
    reward: (name, score, weight, source, given = {}) => recordReward(scribe, head, 'rollout', name, score, weight, source, given),
    metric: (name, value) => void recordMetric(scribe, head, 'rollout', name, value),
    error: (error) => {
      failed = true;
      recordError(scribe, head, 'rollout', error);
    },
    note: (note) => void recordNote(scribe, head, 'rollout', note),
    cancel: (reason, message) => {
      if (ended) return;
      ended = true;
      for (const trace of traces) trace.end({ ok: null });
      endWith(null, reason, () => void scribe.write(head, 'rollout.cancelled', { reason, message }));
    },
    end: (given = {}) => {
      if (ended) return;
      ended = true;
      for (const trace of traces) trace.end({ ok: null });
      const { ok = !failed, stopCondition, timing, extra: more } = given;
      const timed = { timing: timing as Record<string, unknown> | undefined, started, ended: scribe.now() };
      endWith(ok, stopCondition, () => {
        scribe.write(head, 'rollout.ended', { ok, stopCondition, counts: { traces: count + gateway.traces }, ...timed, extra: more });
      });
    },
    [Symbol.asyncDispose]: async () => {
      rollout.end({ ok: failed ? false : null });
      await closing;
    },
  };
  return rollout;
}
