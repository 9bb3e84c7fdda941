/** A training or eval run. */
import { scopeHead, type ScopeIds } from './encode-event.ts';
import type { Extra, RolloutOptions, RunOptions } from './record-types.ts';
import { openRollout } from './rollout.ts';
import type { Scribe } from './scribe.ts';
import { recordError, recordMetric, recordNote } from './values.ts';
import type { Rollout, Run } from './api.ts';

/** Starts a run. Throws what recording throws. */
export function openRun(scribe: Scribe, project: string | undefined, options: RunOptions): Run {
  const id = options.id ?? scribe.newId();
  const ids: ScopeIds & { run: string } = { project, run: id };
  const head = scopeHead(ids);
  let failed = false;
  let ended = false;
  const { kind, name, model, config, envs, tags, extra } = options;
  scribe.write(head, 'run.started', {
    kind,
    name,
    model,
    config,
    envs: envs as Extra[] | undefined,
    tags: tags as string[] | undefined,
    extra,
  });

  const within = async <T>(given: RolloutOptions, work: (rollout: Rollout) => Promise<T> | T): Promise<T> => {
    await scribe.ready();
    const rollout = openRollout(scribe, ids, given);
    try {
      const result = await work(rollout);
      rollout.end();
      return result;
    } catch (error) {
      rollout.error(error);
      rollout.end({ ok: false });
      throw error;
    } finally {
      await rollout[Symbol.asyncDispose]();
    }
  };
  const run: Run = {
    id,
    rollout: ((given: RolloutOptions = {}, work?: (rollout: Rollout) => unknown) =>
      work === undefined ? openRollout(scribe, ids, given) : within(given, work)) as Run['rollout'],
    sealGroup: (group, size, reason = 'complete') => void scribe.write(scopeHead({ ...ids, group }), 'group.sealed', { size, reason }),
    metric: (metric, value) => void recordMetric(scribe, head, 'run', metric, value),
    error: (error) => {
      failed = true;
      recordError(scribe, head, 'run', error);
    },
    note: (note) => void recordNote(scribe, head, 'run', note),
    end: ({ status = failed ? 'failed' : 'completed', metrics, extra: more } = {}) => {
      if (ended) return;
      ended = true;
      scribe.write(head, 'run.ended', { status, ended: scribe.now(), metrics, extra: more });
    },
    [Symbol.asyncDispose]: async () => run.end(),
  };
  return run;
}
