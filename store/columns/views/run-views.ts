/** Views of runs, groups, rollouts and traces: lists read summaries and per-event rows of small tables only. */
import { knownTime } from '../known-time.ts';
import {
  before,
  column,
  finalOf,
  maybeId,
  plain,
  plains,
  PROJECT_AND_RUN,
  ROLLOUT,
  summaryOf,
  TRACE,
  type View,
  type ViewColumn,
  type ViewSource,
} from './view.ts';

/**
 * Leaves out the mirrors of what is there itself. The innermost list is short (mirrors only) and read by key, as are their originals: a project without
 * mirrors pays for an empty list. A rollout may be the mirror of a trace, where its producer did not know the rollout of the original.
 */
export function withoutMirrors(of: 'rollout' | 'trace', source: ViewSource): string {
  const { db, project } = source;
  const mirrored = `(SELECT id FROM ${db}ids WHERE project = ${project} AND kind = '${of}_mirror'${before(source)})`;
  const kinds = of === 'trace' ? "'trace'" : "'rollout', 'trace'";
  const there = `(SELECT id FROM ${db}ids WHERE project = ${project} AND kind IN (${kinds}) AND id GLOBAL IN ${mirrored}${before(source)})`;
  return `(isNull(t.mirror_of) OR assumeNotNull(t.mirror_of) GLOBAL NOT IN ${there})`;
}

const MIRROR_OF = plain(
  'mirror_of',
  'the original that another producer records of the same work: shown only while that one is not there; it then stands for both',
);

/** The latest value that is not NULL. Fields come from one event type, so one log partition; the partition breaks ties. */
function latest(name: string, meaning: string, unit?: string): ViewColumn {
  return column(name, latestSql(name), meaning, unit);
}

function latestSql(name: string): string {
  return `argMaxIf(t.${name}, (t._offset, t._partition), t.${name} IS NOT NULL)`;
}

/** Runs that have rollouts, also those that never said anything themselves. */
function runsOfRollouts(source: ViewSource): string {
  return `FROM ${source.db}ids WHERE project = ${source.project} AND kind = 'run'${before(source)}`;
}

export const runs: View = {
  name: 'runs',
  about: 'Training and evaluation runs.',
  columns: [
    ...PROJECT_AND_RUN,
    latest('kind', 'train or eval'),
    latest('name', 'name a person gave'),
    latest('model', 'model the run is about'),
    latest('config', 'configuration as JSON text'),
    latest('envs', 'environments as JSON text'),
    column('tags', `JSONExtract(ifNull(${latestSql('tags')}, '[]'), 'Array(String)')`, 'tags; empty when none were given'),
    column('started', `minIf(${knownTime('t.time')}, t.type = 'run.started')`, 'when the run started; NULL when not known', 'µs'),
    column('ended', `if(countIf(t.type = 'run.ended') = 0, NULL, ifNull(${latestSql('ended')}, maxIf(${knownTime('t.time')}, t.type = 'run.ended')))`, 'when the run ended; NULL while it runs or when not known', 'µs'),
    column('status', `multiIf(countIf(t.type = 'run.ended') > 0, ${latestSql('status')}, countIf(t.type = 'run.started') > 0, 'running', NULL)`, 'running, completed, failed or cancelled; NULL when the run itself never said'),
    latest('metrics', 'final metrics of the run as JSON text'),
  ],
  from: (source) =>
    `FROM (SELECT project, run, type, kind, name, model, config, envs, tags, status, ended, metrics, toNullable(time) AS time, _offset, _partition FROM ${source.db}run_events FINAL WHERE project = ${source.project}${before(source)} ` +
    `UNION ALL SELECT DISTINCT project, run, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0 ${runsOfRollouts(source)}) AS t GROUP BY t.project, t.run`,
  example: 'SELECT run, kind, name, status, started FROM runs ORDER BY started DESC LIMIT 20',
}; // prettier-ignore

const SORTED_REWARDS = 'arraySort(groupArray(t.reward))';
const MEAN = `(arraySum(${SORTED_REWARDS}) / count(t.reward))`;

export const groups: View = {
  name: 'groups',
  about: 'Groups: the rollouts of one task that are scored against each other.',
  columns: [
    ...PROJECT_AND_RUN,
    plain('group', 'group id'),
    column('task_key', latestSql('task_key'), 'key of the task'),
    column('env', latestSql('env'), 'environment id'),
    column('size', `ifNull(${latestSql('sealed_size')}, max(t.size))`, 'number of rollouts: actual when sealed, else as announced', 'rollouts'),
    latest('sealed', 'when the group was sealed; NULL while it is open or when not known', 'µs'),
    latest('reason', 'why it was sealed: complete, deadline or cancelled'),
    column('rollouts', 'sum(t.rollout_count)', 'rollouts seen so far', 'rollouts'),
    column('reward_mean', `if(count(t.reward) = 0, NULL, if(min(t.reward) = max(t.reward), min(t.reward), ${MEAN}))`, 'mean reward of the rollouts that have one', 'none'),
    column('reward_std', `multiIf(count(t.reward) < 2, NULL, min(t.reward) = max(t.reward), 0., sqrt(arraySum(x -> (x - ${MEAN}) * (x - ${MEAN}), ${SORTED_REWARDS}) / (count(t.reward) - 1)))`, 'standard deviation of these rewards with n - 1; exactly 0 when all are equal', 'none'),
    column('solved', 'if(count(t.reward) = 0, NULL, countIf(t.reward >= 1))', 'rollouts with a reward of at least 1', 'rollouts'),
  ],
  from: (source) =>
    `FROM (SELECT project, run, \`group\`, task_key, env, size, sealed_size, sealed, reason, CAST(NULL, 'Nullable(Float64)') AS reward, toUInt64(0) AS rollout_count, _offset, _partition FROM ${source.db}group_events FINAL WHERE project = ${source.project}${before(source)} ` +
    `UNION ALL SELECT project, run, assumeNotNull(\`group\`), NULL, NULL, NULL, NULL, NULL, NULL, reward, 1, 0, 0 ${summaryOf('rollout_summary')(source)} AND isNotNull(\`group\`) AND ${withoutMirrors('rollout', source)}) AS t GROUP BY t.project, t.run, t.\`group\``,
  example: 'SELECT env, count() AS groups, countIf(solved = 0) AS solved_none, countIf(solved = rollouts) AS solved_all FROM groups GROUP BY env',
}; // prettier-ignore

const TASK_COLUMNS = plains({ group: 'group id', task_key: 'key of the task', env: 'environment id' });

const REWARD_COLUMNS = [
  plain('rewards_missing', 'weighted rewards that were assigned without a score; then `reward` is NULL', 'rewards'),
  column('reward', 't.reward', 'sum of score times weight over the latest reward of each name; NULL when none was assigned or a weighted score is NULL', 'none'),
]; // prettier-ignore

const SIZE_COLUMNS = [
  plain('input_tokens', 'tokens fed in, a shared prefix counted once; when no node carries tokens, the prompt tokens its calls reported', 'tokens'),
  plain('output_tokens', 'sampled tokens, each node once; when no node carries tokens, the completion tokens its calls reported', 'tokens'),
  plain('turns', 'sampled nodes', 'nodes'),
  plain('branches', 'leaves of the graph', 'branches'),
  plain('nodes', 'nodes', 'nodes'),
  plain('calls', 'model calls, failed ones included', 'calls'),
  plain('cost', 'sum over the calls that report a cost', 'USD'),
  plain('errors', 'error events', 'errors'),
  plain('error_type', 'type of the last error'),
  plain('started', 'when it started; NULL when not known', 'µs'),
  plain('ended', 'when it ended; NULL while it runs or when not known', 'µs'),
]; // prettier-ignore

const OUTCOME_COLUMNS = plains({
  ok: 'whether it ended well; NULL while unknown',
  stop_condition: 'why it stopped',
  truncated: 'whether a limit on turns, tokens or context cut it off; NULL while unknown',
});

export const rollouts: View = {
  name: 'rollouts',
  about: 'Rollouts: one attempt at one task each. A mirror is left out as soon as its original is there.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    ...TASK_COLUMNS,
    ...plains({ env_name: 'name of the environment', task_type: 'type of the task', task_hash: 'sha256 of the canonical JSON of the task data' }),
    ...plains({ work_type: 'train or eval', attempt: ['number of the attempt', 'none'], parent_rollout: 'the rollout it was forked from' }),
    ...plains({ fork_trace: 'trace it was forked from', fork_node: ['node it was forked at', 'none'], step: ['training step it was made for', 'none'] }),
    MIRROR_OF,
    plain('policy_version_min', 'oldest policy version that sampled in it', 'none'),
    plain('policy_version_max', 'newest policy version that sampled in it', 'none'),
    ...OUTCOME_COLUMNS,
    plain('cancelled', 'reason when it was cancelled: stale, overload, user or superseded'),
    ...REWARD_COLUMNS,
    plain('traces', 'traces seen so far', 'traces'),
    ...SIZE_COLUMNS,
  ],
  from: (source) => `${summaryOf('rollout_summary')(source)} AND ${withoutMirrors('rollout', source)}`,
  example: 'SELECT env, count() AS rollouts, avg(reward) AS reward, avg(output_tokens) AS tokens FROM rollouts GROUP BY env ORDER BY env',
}; // prettier-ignore

export const traces: View = {
  name: 'traces',
  about: 'Traces: what one agent did in a rollout. A mirror is left out as soon as its original is there.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    ...TASK_COLUMNS,
    ...plains({ agent: 'name of the agent', model: 'model of the agent', trainable: 'whether the agent is trained' }),
    MIRROR_OF,
    plain('policy_version_min', 'oldest policy version that sampled in it', 'none'),
    plain('policy_version_max', 'newest policy version that sampled in it', 'none'),
    ...OUTCOME_COLUMNS,
    ...REWARD_COLUMNS,
    ...SIZE_COLUMNS,
  ],
  from: (source) => `${summaryOf('trace_summary')(source)} AND ${withoutMirrors('trace', source)}`,
  example: "SELECT agent, count() AS traces, avg(turns) AS turns, countIf(truncated) / count() AS truncated FROM traces GROUP BY agent",
}; // prettier-ignore

const BODY = [plain('type', 'event type'), plain('data', 'what the event said, as JSON text')];

export const rolloutBodies: View = {
  name: 'rollout_bodies',
  about: 'What rollout events said in full: task data, environment arguments, timing, extra. One row per event; fetch it by rollout.',
  columns: [...PROJECT_AND_RUN, ROLLOUT, ...BODY],
  from: finalOf('rollout_payloads'),
  example: "SELECT rollout, JSONExtractRaw(data, 'task', 'data') AS task FROM rollout_bodies WHERE type = 'rollout.started' LIMIT 10",
};

export const traceBodies: View = {
  name: 'trace_bodies',
  about: 'What trace events said in full: agent configuration, runtime, tool schemas, timing, extra. One row per event; fetch it by trace.',
  columns: [...PROJECT_AND_RUN, ROLLOUT, TRACE, ...BODY],
  from: finalOf('trace_payloads'),
  example: "SELECT JSONExtractRaw(data, 'tools') AS tools FROM trace_bodies WHERE trace = 'trace-1' AND type = 'trace.started'",
};

export const ids: View = {
  name: 'ids',
  about: 'Finds the run of a group, rollout or trace id, and what mirrors it.',
  columns: [
    plain('project', 'tenant'),
    plain('run', 'run id'),
    maybeId('rollout', 'rollout id; NULL for groups'),
    plain('kind', 'group, rollout or trace; rollout_mirror and trace_mirror: run and rollout are those of a mirror of `id`'),
    plain('id', 'the id itself'),
  ],
  from: (source) => `${finalOf('ids')(source)} AND t.kind != 'run'`,
  example: "SELECT kind, run, rollout FROM ids WHERE id = 'trace-1'",
};
