/**
 * The data that the cookbook is answered on: a training run `maths` of three steps (two environments, groups of four rollouts, eight rollouts a step) with the feed that trained on
 * it, and two evals of the same four tasks, `eval-1` and `eval-2`. Every number follows from the places of the rollouts, so that answers can be checked by hand.
 */
import { PackedArray } from '../../../events/packed-array.ts';
import type { TestWorld } from '../../log-for-tests.ts';
import type { Draft } from '../../events-for-tests.ts';

const START = 1_767_225_600_000_000; // 2026-01-01 00:00:00 UTC
const SECOND = 1_000_000;
export const STEPS = [1, 2, 3] as const;
const ENVS = ['arith', 'code'] as const;
const GROUP: readonly number[] = [0, 1, 2, 3];
type Env = (typeof ENVS)[number];

type Place = { readonly step: number; readonly env: Env; readonly k: number };

/** When a rollout began: a minute a step, ten seconds a rollout. */
const began = ({ step, env, k }: Place): number => START + (step * 60 + ENVS.indexOf(env) * 5 + k * 10) * SECOND;
const idsOf = ({ step, env, k }: Place) => ({
  run: 'maths',
  group: `${env}-${step}`,
  rollout: `${env}-${step}-${k}`,
  trace: `${env}-${step}-${k}/policy`,
});
/** The last rollout of a group was sampled one version late. */
const versionOf = ({ step, k }: Place): number => Math.max(0, step - 1 - (k === 3 ? 1 : 0));
/** More of a group is solved with every step: at step s the first s of four (arith), the first s - 1 (code). */
const isSolved = ({ step, env, k }: Place): boolean => k < step - ENVS.indexOf(env);
const sampled = ({ step, k }: Place): number => 20 + 5 * k + step;

function node(place: Place, index: number, role: string, tokens: number, more: { sampled?: boolean; text: string }): Draft {
  const ids = Uint32Array.from({ length: tokens }, (_, i) => 100 + index * 1000 + i);
  const isSampled = more.sampled === true;
  const logprobs = { logprobs: PackedArray.of(new Float32Array(tokens).fill(-0.5 - place.k / 4)) };
  const streams = { ids: PackedArray.of(ids), mask: PackedArray.of(new Uint8Array(tokens).fill(isSampled ? 1 : 0)), ...(isSampled ? logprobs : {}) };
  const version = isSampled ? { policyVersion: versionOf(place) } : {};
  const message = { role, content: more.text };
  return { type: 'node.appended', ...idsOf(place), time: began(place) + index * SECOND, data: { index, parent: index === 0 ? null : index - 1, role, sampled: isSampled, message, tokens: streams, ...version } };
} // prettier-ignore

function call(place: Place, index: number, answer: number, prompt: number, completion: number): Draft {
  const start = began(place) + (1 + index * 3) * SECOND;
  const drifted = place.env === 'code' && place.k === 1;
  const again = index === 0 ? {} : { extends: !drifted, ...(drifted ? { drift: ['content'] } : {}) };
  const cut = place.env === 'arith' && place.k === 3;
  const usage = { promptTokens: prompt, completionTokens: completion, cachedTokens: index * 8, cost: (prompt + 4 * completion) / 1_000_000 };
  const time = { start, end: start + completion * 50_000 };
  return { type: 'call.recorded', ...idsOf(place), time: time.end, data: { index, node: answer, model: place.env === 'arith' ? 'toy-1b' : 'toy-4b', dialect: 'openai.chat', finishReason: cut ? 'length' : 'stop', usage, time, firstToken: start + 200_000, policyVersion: versionOf(place), ...again } };
} // prettier-ignore

function rollout(place: Place): Draft[] {
  const ids = idsOf(place);
  const { step, env, k } = place;
  const time = began(place);
  const { trace: _, ...scope } = ids;
  const isCode = env === 'code';
  const failed = isCode && step === 2 && k === 2;
  const nodes = isCode ? 5 : 3;
  const first = sampled(place);
  const ended = time + 9 * SECOND;
  const tool = { toolCallId: `call-${k}`, node: 2, name: k === 3 ? 'read_file' : 'run_tests', resultNode: 3, time: { start: time + 3 * SECOND, end: time + (4 + k) * SECOND }, ...(k === 2 ? { error: { type: 'timeout', message: 'took too long' } } : {}) };
  return [
    { type: 'rollout.started', ...scope, time, data: { env: { id: env, name: env }, task: { type: env, key: `${env}/${step % 2}` }, group: { id: ids.group, size: 4 }, work: { type: 'train', step }, policyVersion: versionOf(place), started: time } },
    { type: 'trace.started', ...ids, time, data: { agent: { name: 'policy', model: isCode ? 'toy-4b' : 'toy-1b', trainable: true }, started: time } },
    node(place, 0, 'system', 8, { text: 'You solve tasks.' }),
    node(place, 1, 'user', 12, { text: isCode ? 'Fix the bug.' : 'What is 17 + 25?' }),
    node(place, 2, 'assistant', first, { sampled: true, text: isSolved(place) ? 'It is 42.' : 'Sorry, I do not know.' }),
    call(place, 0, 2, 20, first),
    ...(isCode ? [node(place, 3, 'tool', 6, { text: 'ok' }), node(place, 4, 'assistant', 10 + k, { sampled: true, text: 'Done.' }), call(place, 1, 4, 26 + first, 10 + k), { type: 'tool.recorded', ...ids, time, data: tool }] : []),
    { type: 'reward.assigned', ...ids, time: ended, data: { scope: 'trace', name: 'correct', score: isSolved(place) ? 1 : 0, weight: 1, source: { kind: 'code', name: 'checker' } } },
    { type: 'reward.assigned', ...ids, time: ended, data: { scope: 'trace', name: 'format', score: k % 2, weight: 0.1, source: { kind: 'model', name: 'judge-a' } } },
    { type: 'metric.recorded', ...ids, time: ended, data: { scope: 'trace', name: 'lines', value: 3 + k } },
    ...(failed ? [{ type: 'error.recorded', ...ids, time: ended, data: { scope: 'trace', type: 'SandboxError', message: 'the sandbox went away' } }] : []),
    { type: 'trace.ended', ...ids, time: ended, data: { ok: !failed, stopCondition: failed ? 'error' : env === 'arith' && k === 3 ? 'max_tokens' : 'done', truncated: env === 'arith' && k === 3, counts: { nodes, calls: isCode ? 2 : 1 }, started: time, ended } },
    { type: 'rollout.ended', ...scope, time: ended, data: { ok: !failed, stopCondition: failed ? 'error' : 'done', counts: { traces: 1 }, started: time, ended } },
  ];
} // prettier-ignore

const places = STEPS.flatMap((step) => ENVS.flatMap((env) => GROUP.map((k): Place => ({ step, env, k }))));

function training(): Draft[] {
  const run = 'maths';
  return [
    { type: 'run.started', run, time: START, data: { kind: 'train', name: 'maths with tools', model: 'toy', tags: ['demo'], envs: ENVS.map((id) => ({ id })) } },
    { type: 'policy.published', run, time: START, data: { version: 0, step: 0, uri: 'file:///weights/0' } },
    ...places.flatMap(rollout),
    ...STEPS.flatMap((step): Draft[] => [
      { type: 'trainer.stepped', run, time: START + step * 60 * SECOND + 55 * SECOND, data: { step, feed: 'main', batch: `batch-${step}`, timeline: 0, metrics: { loss: 1 / step, kl: step / 100, entropy: 2 - step / 4 } } },
      { type: 'policy.published', run, time: START + step * 60 * SECOND + 56 * SECOND, data: { version: step, step, uri: `file:///weights/${step}` } },
    ]),
  ];
} // prettier-ignore

/** Two attempts at each of four tasks: which of them were right. */
const EVALS: Readonly<Record<string, readonly (readonly [number, number])[]>> = {
  'eval-1': [[1, 1], [1, 0], [0, 0], [1, 1]],
  'eval-2': [[1, 1], [1, 1], [1, 0], [0, 0]],
}; // prettier-ignore

function evals(): Draft[] {
  return Object.entries(EVALS).flatMap(([run, tasks], version): Draft[] => [
    { type: 'run.started', run, time: START + 3600 * SECOND, data: { kind: 'eval', name: run, model: 'toy' } },
    ...tasks.flatMap((attempts, task) =>
      attempts.flatMap((score, attempt): Draft[] => {
        const scope = { run, group: `task-${task}`, rollout: `${run}/${task}/${attempt}`, time: START + (3601 + task) * SECOND };
        return [
          { type: 'rollout.started', ...scope, data: { env: { id: 'arith', name: 'arith' }, task: { type: 'arith', key: `held-out/${task}`, hash: `hash-${task}` }, group: { id: scope.group, size: 2 }, work: { type: 'eval' }, policyVersion: version * 3, attempt } },
          { type: 'reward.assigned', ...scope, data: { scope: 'rollout', name: 'correct', score } },
          { type: 'rollout.ended', ...scope, data: { ok: true, stopCondition: 'done', counts: { traces: 0 } } },
        ];
      }),
    ),
    { type: 'run.ended', run, time: START + 3700 * SECOND, data: { status: 'completed' } },
  ]);
} // prettier-ignore

const feed = (step: number): Draft[] => [
  { type: 'batch.cut', run: 'maths', time: START + (step * 60 + 50) * SECOND, data: { feed: 'main', timeline: 0, n: step, batchId: `batch-${step}`, algorithm: 'grpo', policyVersion: step - 1, counts: { rows: 8 } } },
  { type: 'batch.committed', run: 'maths', time: START + (step * 60 + 56) * SECOND, data: { feed: 'main', timeline: 0, n: step, batchId: `batch-${step}`, holder: 'trainer', step } },
]; // prettier-ignore

/** What the feed made of the rollouts: one row each, with the advantage over its group. */
function batchRow(place: Place): string {
  const { run, group, rollout: id, trace } = idsOf(place);
  const reward = (k: number): number => (isSolved({ ...place, k }) ? 1 : 0) + 0.1 * (k % 2);
  const advantage = reward(place.k) - GROUP.reduce((sum, k) => sum + reward(k), 0) / 4;
  const isCode = place.env === 'code';
  const trained = sampled(place) + (isCode ? 10 + place.k : 0);
  const text = (value: string): string => `'${value}'`;
  return `(${['default', 'main'].map(text).join(', ')}, 0, ${place.step}, ${[`row-${id}`, `batch-${place.step}`, run, id, trace].map(text).join(', ')}, ${isCode ? 4 : 2}, ${[group, place.env].map(text).join(', ')}, ${20 + trained + (isCode ? 6 : 0)}, ${trained}, ${advantage.toFixed(4)}, ${reward(place.k)}, ${versionOf(place)}, ${versionOf(place)}, ${place.step - 1 - versionOf(place)}, 32768, ${places.indexOf(place)})`;
}

export async function writeSample(world: TestWorld): Promise<void> {
  await world.write([...training(), ...evals()]);
  await world.write(STEPS.flatMap(feed), 'feeds');
  await world.store.command(
    `INSERT INTO batch_rows (project, feed, timeline, n, row_id, batch_id, run, rollout, trace, leaf, \`group\`, env, seq_len, trained, advantage, reward, policy_version_min, policy_version_max, staleness, _partition, _offset) VALUES ${places.map(batchRow).join(', ')}`,
  );
  await world.store.command(
    "INSERT INTO dropped_samples (project, feed, timeline, run, rollout, trace, _leaf, _item, id, n, `group`, reason, staleness, length, time, _partition, _offset) VALUES ('default', 'main', 0, 'maths', 'code-1-3', 'code-1-3/policy', 4, 0, generateUUIDv4(), 3, 'code-1', 'stale', 3, 61, '2026-01-01 00:03:50', 32768, 900), ('default', 'main', 0, 'maths', 'arith-1-3', 'arith-1-3/policy', 2, 1, generateUUIDv4(), 3, 'arith-1', 'too_long', 3, 56, '2026-01-01 00:03:50', 32768, 901)",
  );
}
