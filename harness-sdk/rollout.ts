/** One attempt at one task. */
import { scopeHead, type ScopeIds } from './encode-event.ts';
import type { Env, RolloutOptions, Task, TraceOptions } from './record-types.ts';
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

  const begin = (given: TraceOptions): Trace => {
    const trace = openTrace(scribe, ids, given);
    traces.add(trace);
    count++;
    return trace;
  };
  const within = async <T>(given: TraceOptions, work: (trace: Trace) => Promise<T> | T): Promise<T> => {
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
      scribe.write(head, 'rollout.cancelled', { reason, message });
    },
    end: (given = {}) => {
      if (ended) return;
      ended = true;
      for (const trace of traces) trace.end({ ok: null });
      const { ok = !failed, stopCondition, timing, extra: more } = given;
      scribe.write(head, 'rollout.ended', {
        ok, stopCondition, counts: { traces: count }, timing: timing as Record<string, unknown> | undefined, started, ended: scribe.now(), extra: more,
      }); // prettier-ignore
    },
    [Symbol.asyncDispose]: async () => rollout.end({ ok: failed ? false : null }),
  };
  return rollout;
}
