/** The one table of resources behind `GET /v1/<resource>`: routes, validation, OpenAPI and docs/rest.md derive from it. */
import { errors, metricsHistory, notes, rewards } from '../../store/columns/views/judgement-views.ts';
import { groups, rollouts, runs, traces } from '../../store/columns/views/run-views.ts';
import { calls, nodes, tools } from '../../store/columns/views/trace-views.ts';
import { batches, batchRows, policies, trainerSteps } from '../../store/columns/views/trainer-views.ts';
import { envs, tasks } from './aggregate-views.ts';
import { computed, fieldsOf, type Field } from './field.ts';
import type { Resource } from './resource.ts';

const IN_RUN = { run: 'string' } as const;
const IN_ROLLOUT = { ...IN_RUN, rollout: 'string' } as const;
const IN_TRACE = { ...IN_ROLLOUT, trace: 'string' } as const;
const TASK = { group: 'string?', task_key: 'string?', env: 'string?' } as const;
const OUTCOME = {
  policy_version_min: 'long?', policy_version_max: 'long?', ok: 'bool?', stop_condition: 'string?', truncated: 'bool?', reward: 'float?', rewards_missing: 'long',
} as const; // prettier-ignore
const SIZE = {
  input_tokens: 'long?', output_tokens: 'long?', turns: 'long', branches: 'long', nodes: 'long', calls: 'long', cost: 'float?', errors: 'long', error_type: 'string?',
  started: 'time?', ended: 'time?',
} as const; // prettier-ignore
const ROLLUP = {
  rollouts: 'long', rewarded: 'long', reward_mean: 'float?', solved: 'long?', failed: 'long', truncated: 'long', output_tokens: 'long?', started: 'time?', ended: 'time?',
} as const; // prettier-ignore
const NONE = { rewards: null, metrics: null } as const;

const DURATION: Field = computed(
  'duration',
  'long?',
  'toUnixTimestamp64Micro(v.ended) - toUnixTimestamp64Micro(v.started)',
  'from start to end; null while it runs or when a time is not known',
  { unit: 'µs' },
);
const TRAINING: readonly Field[] = [
  computed('advantage', 'float?', 'training.advantage', 'mean advantage of its rows in batches that were not abandoned', {
    join: 'training',
  }),
  computed('staleness', 'float?', 'training.staleness', 'largest staleness of these rows', { join: 'training', unit: 'steps' }),
  computed('trained_step', 'long?', 'training.step', 'last optimizer step that trained on it; null while none has', { join: 'training' }),
];

export const RESOURCES: readonly Resource[] = [
  {
    name: 'runs',
    one: 'run',
    about: runs.about,
    view: runs,
    fields: [
      ...fieldsOf(runs, { run: 'string', kind: 'string?', name: 'string?', model: 'string?', tags: 'strings', started: 'time?', ended: 'time?', status: 'string?' }),
      DURATION,
      ...fieldsOf(runs, { config: '+json?', envs: '+json?', metrics: '+json?' }),
    ],
    key: ['run'],
    sort: ['-started'],
    fetch: '/runs/:run',
    isSummary: false,
    rewards: null,
    metrics: 'run',
  },
  {
    name: 'envs',
    one: 'environment',
    about: envs.about,
    view: envs,
    fields: fieldsOf(envs, { run: 'string', env: 'string', env_name: 'string?', tasks: 'long', groups: 'long', ...ROLLUP }),
    key: ['run', 'env'],
    sort: ['run', 'env'],
    fetch: '/runs/:run/envs/:env',
    isSummary: true,
    ...NONE,
  },
  {
    name: 'tasks',
    one: 'task',
    about: tasks.about,
    view: tasks,
    fields: fieldsOf(tasks, { run: 'string', env: 'string?', task_key: 'string?', task_hash: 'string?', task_type: 'string?', groups: 'long', ...ROLLUP }),
    key: ['run', 'env', 'task_key', 'task_hash'],
    sort: ['run', 'env', 'task_key'],
    fetch: '/runs/:run/tasks/:task_key',
    isSummary: true,
    ...NONE,
  },
  {
    name: 'groups',
    one: 'group',
    about: groups.about,
    view: groups,
    fields: fieldsOf(groups, {
      run: 'string', group: 'string', task_key: 'string?', env: 'string?', size: 'long?', sealed: 'time?', reason: 'string?', rollouts: 'long', reward_mean: 'float?',
      reward_std: 'float?', solved: 'long?',
    }),
    key: ['run', 'group'],
    sort: ['run', 'group'],
    fetch: '/groups/:group',
    isSummary: true,
    rewards: null,
    metrics: 'group',
  },
  {
    name: 'rollouts',
    one: 'rollout',
    about: rollouts.about,
    view: rollouts,
    fields: [
      ...fieldsOf(rollouts, {
        ...IN_ROLLOUT, ...TASK, env_name: 'string?', task_type: 'string?', task_hash: 'string?', work_type: 'string?', attempt: 'long?', parent_rollout: 'string?',
        fork_trace: 'string?', fork_node: 'int?', step: 'long?', mirror_of: 'string?', ...OUTCOME, cancelled: 'string?', traces: 'long', ...SIZE,
      }),
      DURATION,
      computed('agent', 'string?', 'tupleElement(agent.first, 1)', 'name of the trained agent that began first', { join: 'agent' }),
      computed('model', 'string?', 'tupleElement(agent.first, 2)', 'model of that agent', { join: 'agent' }),
      ...TRAINING,
    ],
    key: ['run', 'rollout'],
    sort: ['run', 'rollout'],
    fetch: '/rollouts/:rollout',
    isSummary: true,
    rewards: 'rollout',
    metrics: 'rollout',
  },
  {
    name: 'traces',
    one: 'trace',
    about: traces.about,
    view: traces,
    fields: [
      ...fieldsOf(traces, { ...IN_TRACE, ...TASK, agent: 'string?', model: 'string?', trainable: 'bool?', mirror_of: 'string?', ...OUTCOME, ...SIZE }),
      DURATION,
      ...TRAINING,
    ],
    key: ['run', 'rollout', 'trace'],
    sort: ['run', 'rollout', 'trace'],
    fetch: null,
    isSummary: true,
    rewards: 'trace',
    metrics: 'trace',
  },
  {
    name: 'nodes',
    one: 'node',
    about: 'Nodes of trace graphs: one message each. Tokens of a branch come from `/v1/traces/{trace}/tokens`.',
    view: nodes,
    fields: fieldsOf(nodes, {
      ...IN_TRACE, index: 'int', parent: 'int?', role: 'string', sampled: 'bool', tool_call_id: 'string?', tokens: 'long?', sampled_tokens: 'long?', policy_version: 'long?',
      call: 'int?', fork_reason: 'string?', attribution: 'string?', partial: 'bool?', time: 'time', text: '+string?', reasoning: '+string?', tool_calls: '+records',
      message: '+json?', extra: '+json?', rest: '+json?',
    }),
    key: ['run', 'rollout', 'trace', 'index'],
    sort: ['run', 'rollout', 'trace', 'index'],
    fetch: '/traces/:trace/nodes/:index',
    isSummary: false,
    rewards: 'node',
    metrics: 'node',
  },
  {
    name: 'calls',
    one: 'call',
    about: calls.about,
    view: calls,
    fields: [
      ...fieldsOf(calls, {
        ...IN_TRACE, index: 'int', node: 'int?', model: 'string?', endpoint: 'string?', dialect: 'string?', request_digest: 'string?', finish_reason: 'string?',
        prompt_tokens: 'long?', completion_tokens: 'long?', cached_tokens: 'long?', reasoning_tokens: 'long?', cost: 'float?', started: 'time?', first_token: 'time?',
        ended: 'time?', policy_version: 'long?', policy_version_end: 'long?', logprobs_mode: 'string?', tokenizer_hash: 'string?', template_hash: 'string?', stream: 'bool?',
        extends: 'bool?', retry_of: 'int?', error_type: 'string?', error_status: 'long?', error_message: 'string?', time: 'time',
      }),
      DURATION,
      ...fieldsOf(calls, { sampling: '+json?', drift: '+json?' }),
    ],
    key: ['run', 'rollout', 'trace', 'index'],
    sort: ['run', 'rollout', 'trace', 'index'],
    fetch: '/traces/:trace/calls/:index',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'tools',
    one: 'tool run',
    about: tools.about,
    view: tools,
    fields: [
      ...fieldsOf(tools, {
        ...IN_TRACE, tool_call_id: 'string', name: 'string', node: 'int?', result_node: 'int?', started: 'time?', ended: 'time?', error: 'string?', error_type: 'string?',
        error_status: 'long?', time: 'time',
      }),
      DURATION,
      ...fieldsOf(tools, { extra: '+json?' }),
    ],
    key: ['run', 'rollout', 'trace', 'tool_call_id', 'node'],
    sort: ['run', 'rollout', 'trace', 'tool_call_id'],
    fetch: '/traces/:trace/tools/:tool_call_id',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'rewards',
    one: 'reward',
    about: rewards.about,
    view: rewards,
    fields: fieldsOf(rewards, {
      ...IN_ROLLOUT, trace: 'string?', node: 'int?', scope: 'string', name: 'string', group: 'string?', score: 'float?', weight: 'float', source_kind: 'string?',
      source_name: 'string?', source_version: 'string?', time: 'time', id: 'string',
    }),
    key: ['run', 'rollout', 'scope', 'trace', 'node', 'name'],
    sort: ['run', 'rollout', 'scope', 'trace', 'node', 'name'],
    fetch: '/rewards/:id',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'errors',
    one: 'error',
    about: errors.about,
    view: errors,
    fields: fieldsOf(errors, {
      ...IN_RUN, rollout: 'string?', trace: 'string?', group: 'string?', node: 'int?', scope: 'string', type: 'string', message: 'string', status_code: 'long?', id: 'string',
      time: 'time', traceback: '+string?', extra: '+json?',
    }),
    key: ['run', 'id'],
    sort: ['run', 'id'],
    fetch: '/errors/:id',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'policies',
    one: 'policy version',
    about: policies.about,
    view: policies,
    fields: fieldsOf(policies, { ...IN_RUN, version: 'long', timeline: 'long', step: 'long?', uri: 'string?', trainer: 'string?', time: 'time', extra: '+json?' }),
    key: ['run', 'version', 'timeline'],
    sort: ['run', 'version', 'timeline'],
    fetch: '/runs/:run/policies/:version',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'steps',
    one: 'step',
    about: trainerSteps.about,
    view: trainerSteps,
    fields: fieldsOf(trainerSteps, { ...IN_RUN, feed: 'string?', timeline: 'long', step: 'long', batch: 'string?', time: 'time', metrics: '+json', extra: '+json?' }),
    key: ['run', 'feed', 'timeline', 'step'],
    sort: ['run', 'feed', 'timeline', 'step'],
    fetch: '/runs/:run/steps/:step',
    isSummary: false,
    rewards: null,
    metrics: 'step',
  },
  {
    name: 'batches',
    one: 'batch',
    about: batches.about,
    view: batches,
    fields: fieldsOf(batches, {
      run: 'string?', feed: 'string', timeline: 'long', n: 'long', batch_id: 'string?', algorithm: 'string?', policy_version: 'long?', cut: 'time?', committed: 'time?',
      step: 'long?', plan_id: 'string?', abandoned: 'bool', data: '+json?',
    }),
    key: ['feed', 'timeline', 'n'],
    sort: ['feed', 'timeline', 'n'],
    fetch: '/batches/:batch_id',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'notes',
    one: 'note',
    about: notes.about,
    view: notes,
    fields: fieldsOf(notes, {
      ...IN_RUN, rollout: 'string?', trace: 'string?', group: 'string?', node: 'int?', scope: 'string', label: 'string?', text: 'string?', author: 'string?', id: 'string',
      time: 'time', extra: '+json?',
    }),
    key: ['run', 'id'],
    sort: ['run', 'id'],
    fetch: '/notes/:id',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'metrics',
    one: 'metric event',
    about: 'Every metric event, also those that a later one of the same name replaced: the points of a curve over time.',
    view: metricsHistory,
    fields: fieldsOf(metricsHistory, {
      ...IN_RUN, group: 'string?', rollout: 'string?', trace: 'string?', node: 'int?', scope: 'string', name: 'string', value: 'float?', id: 'string', time: 'time',
      extra: '+json?',
    }),
    key: ['run', 'id'],
    sort: ['run', 'id'],
    fetch: '/metrics/:id',
    isSummary: false,
    ...NONE,
  },
  {
    name: 'batch_rows',
    one: 'row of a batch',
    about: batchRows.about,
    view: batchRows,
    fields: fieldsOf(batchRows, {
      run: 'string?', rollout: 'string', trace: 'string', group: 'string?', env: 'string', feed: 'string', timeline: 'long', n: 'long', batch_id: 'string', policy_version: 'long?',
      step: 'long?', abandoned: 'bool', row_id: 'string', leaf: 'int', rank: 'int?', micro_batch: 'int?', position: 'int?', seq_len: 'long?', trained: 'long?',
      advantage: 'float?', reward: 'float?', policy_version_min: 'long?', policy_version_max: 'long?', staleness: 'float?', weights: '+json?',
    }),
    key: ['feed', 'timeline', 'n', 'row_id'],
    sort: ['feed', 'timeline', 'n', 'row_id'],
    fetch: '/batch_rows/:row_id',
    isSummary: false,
    ...NONE,
  },
]; // prettier-ignore
