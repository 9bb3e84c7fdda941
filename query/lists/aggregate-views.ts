/** Environments and tasks, which no event creates: rollouts grouped. */
import { rollouts } from '../../store/columns/views/run-views.ts';
import { column, plain, viewSelect, type View, type ViewColumn } from '../../store/columns/views/view.ts';

const SORTED = 'arraySort(groupArray(t.reward))';
const MEAN = `if(count(t.reward) = 0, NULL, if(min(t.reward) = max(t.reward), min(t.reward), arraySum(${SORTED}) / count(t.reward)))`;

const OUTCOMES: readonly ViewColumn[] = [
  column('rollouts', 'count()', 'rollouts seen so far', 'rollouts'),
  column('rewarded', 'count(t.reward)', 'rollouts that have a reward', 'rollouts'),
  column('reward_mean', MEAN, 'mean reward of the rollouts that have one'),
  column('solved', 'if(count(t.reward) = 0, NULL, countIf(t.reward >= 1))', 'rollouts with a reward of at least 1', 'rollouts'),
  column('failed', 'countIf(t.ok = false)', 'rollouts that ended badly', 'rollouts'),
  column('truncated', 'countIf(t.truncated = true)', 'rollouts that a limit cut off', 'rollouts'),
  column('output_tokens', 'sumOrNull(t.output_tokens)', 'sampled tokens', 'tokens'),
  column('started', 'min(t.started)', 'when the first rollout started; NULL when not known'),
  column('ended', 'max(t.ended)', 'when the last rollout ended; NULL when not known'),
];

function grouped(name: string, about: string, keys: readonly ViewColumn[], more: readonly ViewColumn[], where: string): View {
  const columns = [plain('project', 'tenant'), plain('run', 'run id'), ...keys, ...more, ...OUTCOMES];
  const by = ['project', 'run', ...keys.map((key) => key.name)].map((key) => `t.\`${key}\``);
  return {
    name,
    about,
    columns,
    from: (source) => `FROM (${viewSelect(rollouts, source)}) AS t WHERE ${where} GROUP BY ${by.join(', ')}`,
    example: '',
  };
}

export const envs: View = grouped(
  'envs',
  'Environments, per run.',
  [column('env', 'assumeNotNull(t.env)', 'environment id')],
  [
    column('env_name', 'anyIf(t.env_name, isNotNull(t.env_name))', 'name of the environment'),
    column('tasks', 'uniqExact(t.task_key, t.task_hash)', 'different tasks', 'tasks'),
    column('groups', 'uniqExact(t.`group`)', 'groups', 'groups'),
  ],
  'isNotNull(t.env)',
);

export const tasks: View = grouped(
  'tasks',
  'Tasks, per run and environment: one problem each.',
  [
    plain('env', 'environment id'),
    plain('task_key', 'key of the task'),
    plain('task_hash', 'sha256 of the canonical JSON of the task data'),
  ],
  [
    column('task_type', 'anyIf(t.task_type, isNotNull(t.task_type))', 'type of the task'),
    column('groups', 'uniqExact(t.`group`)', 'groups', 'groups'),
  ],
  'isNotNull(t.task_key) OR isNotNull(t.task_hash)',
);
