/** Views of rewards, metrics, errors and notes. */
import { before, column, finalOf, maybeId, maybeNode, plain, plains, PROJECT_AND_RUN, ROLLOUT, type View } from './view.ts';

const POSITION = [
  column('partition', 't._partition % 32768', 'log partition of the event', 'none'),
  column('offset', 't._offset', 'offset of the event in its partition', 'none'),
];

const EXTRA = plain('extra', 'what the producer could not map, as JSON text');
const TIME = plain('time', "producer's clock", 'µs');
const NODE = maybeNode('node', '_node', 'node, for scope node');
const REWARD_ENTITY = [
  ...PROJECT_AND_RUN,
  ROLLOUT,
  maybeId('trace', 'trace id; NULL for scope rollout'),
  NODE,
  plain('scope', 'rollout, trace or node'),
  plain('name', 'name of the reward'),
];

export const rewards: View = {
  name: 'rewards',
  about: 'The latest reward of each name per rollout, trace or node. A NULL score was not measured; it is never 0.',
  columns: [
    ...REWARD_ENTITY,
    column('group', 't.last.1', 'group id, where the event carried one'),
    column('score', 't.last.2', 'the score', 'none'),
    column('weight', 'ifNull(t.last.3, 1.)', 'its weight; 1 when none was given', 'none'),
    column('source_kind', 't.last.4', 'code, model or human'),
    column('source_name', 't.last.5', 'who or what gave it'),
    column('source_version', 't.last.6', 'version of the source'),
    column('time', 't.last.7', "producer's clock", 'µs'),
    column('id', 't.last.8', 'id of the event that gave it'),
  ],
  from: (source) =>
    `FROM (SELECT project, run, rollout, scope, trace, _node, name, argMax((\`group\`, score, weight, source_kind, source_name, source_version, time, id), _offset) AS last ` +
    `FROM ${source.db}reward_events FINAL WHERE project = ${source.project}${before(source)} GROUP BY project, run, rollout, scope, trace, _node, name) AS t`,
  example: 'SELECT name, count() AS n, avg(score) AS mean, countIf(score IS NULL) AS missing FROM rewards GROUP BY name ORDER BY name',
}; // prettier-ignore

export const rewardsHistory: View = {
  name: 'rewards_history',
  about: 'Every reward event: what was said when, and where it lies in the log.',
  columns: [
    ...REWARD_ENTITY,
    plain('group', 'group id, where the event carried one'),
    plain('score', 'the score', 'none'),
    column('weight', 'ifNull(t.weight, 1.)', 'its weight; 1 when none was given', 'none'),
    ...plains({ source_kind: 'code, model or human', source_name: 'who or what gave it', source_version: 'version of the source' }),
    plain('id', 'event id'),
    plain('supersedes', 'id of the event it replaces, where said'),
    EXTRA,
    TIME,
    ...POSITION,
  ],
  from: finalOf('reward_events'),
  example: "SELECT name, score, time FROM rewards_history WHERE rollout = 'rollout-1' ORDER BY time",
}; // prettier-ignore

const METRIC_ENTITY = [
  ...PROJECT_AND_RUN,
  maybeId('group', 'group id'),
  maybeId('rollout', 'rollout id; NULL above that scope'),
  maybeId('trace', 'trace id; NULL above that scope'),
  NODE,
  plain('scope', 'run, group, rollout, trace or node'),
  plain('name', 'name of the metric'),
];

export const metrics: View = {
  name: 'metrics',
  about: 'The latest value of each metric per entity. Metrics are logged, not trained on.',
  columns: [...METRIC_ENTITY, column('value', 't.last.1', 'the value; NULL was not measured', 'as the metric has it'), column('time', 't.last.2', "producer's clock", 'µs')],
  from: (source) =>
    `FROM (SELECT project, run, rollout, scope, \`group\`, trace, _node, name, argMax((value, time), (_offset, _partition)) AS last ` +
    `FROM ${source.db}metric_events FINAL WHERE project = ${source.project}${before(source)} GROUP BY project, run, rollout, scope, \`group\`, trace, _node, name) AS t`,
  example: 'SELECT scope, name, count() AS n, avg(value) AS mean FROM metrics GROUP BY scope, name ORDER BY scope, name',
}; // prettier-ignore

export const metricsHistory: View = {
  name: 'metrics_history',
  about: 'Every metric event.',
  columns: [
    ...METRIC_ENTITY,
    plain('value', 'the value; NULL was not measured', 'as the metric has it'),
    plain('id', 'event id'),
    EXTRA,
    TIME,
    ...POSITION,
  ],
  from: finalOf('metric_events'),
  example: "SELECT time, value FROM metrics_history WHERE scope = 'run' AND name = 'loss' ORDER BY time",
};

const FACT_ENTITY = [
  ...PROJECT_AND_RUN,
  maybeId('group', 'group id, where the event carried one'),
  maybeId('rollout', 'rollout id'),
  maybeId('trace', 'trace id'),
  plain('node', 'node, for scope node', 'none'),
  plain('scope', 'run, group, rollout, trace or node'),
];

export const errors: View = {
  name: 'errors',
  about: 'Errors of any entity. Errors of single model calls are in `calls`.',
  columns: [
    ...FACT_ENTITY,
    ...plains({
      type: 'type of the error',
      message: 'text',
      status_code: ['status, where there was one', 'none'],
      traceback: 'where it happened',
    }),
    plain('id', 'event id'),
    EXTRA,
    TIME,
  ],
  from: finalOf('errors'),
  example: 'SELECT type, count() AS n, max(time) AS last FROM errors GROUP BY type ORDER BY n DESC',
};

export const notes: View = {
  name: 'notes',
  about: 'Labels and comments by people or programs on any entity.',
  columns: [...FACT_ENTITY, ...plains({ label: 'label', text: 'comment', author: 'who wrote it', id: 'event id' }), EXTRA, TIME],
  from: finalOf('notes'),
  example: 'SELECT label, count() AS n FROM notes GROUP BY label',
};

/** The position columns of a row that keeps its event's place in the log. */
export const POSITION_COLUMNS = POSITION;
