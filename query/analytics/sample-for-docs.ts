/** The small world that the examples of docs/analytics.md are computed on: two evals of the same tasks, and a training run with a feed. */
import { seededRandom } from '../../base/random.ts';
import type { ListedRow } from '../../events/row-list.ts';
import type { Draft } from '../../store/columns/projections/test-world.ts';
import { rolloutEvents, type TestLog } from './log-for-tests.ts';

const TASKS = 12;
const ROLLOUTS = 8;

/** Chance of each task under each run. */
function chanceOf(task: number, bonus: number): number {
  return Math.min(0.97, Math.max(0.03, Math.sin((Math.PI / 2) * (task / (TASKS - 1))) ** 2 + bonus));
}

function evalRun(run: string, bonus: number, seed: number): Draft[] {
  const random = seededRandom(seed);
  const started: Draft = { type: 'run.started', run, data: { kind: 'eval', name: run, model: 'solver-7b' } };
  const rollouts = Array.from({ length: TASKS * ROLLOUTS }, (_, place) => {
    const task = Math.floor(place / ROLLOUTS);
    const rollout = `${run}-${task}-${place % ROLLOUTS}`;
    const solved = random.next() < chanceOf(task, bonus) ? 1 : 0;
    const judged = random.next() < 0.9 ? solved : 1 - solved;
    const broken = place === 17 || place === 50;
    const drafts = rolloutEvents({ run, rollout, task: `task-${task}`, group: `${run}-g${task}`, size: ROLLOUTS, version: 1, ...(broken ? { ok: false } : { score: solved, rewards: { judge: judged } }) });
    const trace = { run, rollout, trace: `t-${run}-${rollout}` };
    const start = 1_760_000_000_000_000 + place * 1_000_000;
    return [
      ...drafts,
      { type: 'call.recorded', ...trace, data: { index: 0, node: 1, model: 'solver-7b', sampling: { temperature: run === 'eval-1' ? 0.7 : 1 }, finishReason: 'stop', usage: { promptTokens: 40, completionTokens: 20 + 5 * task }, start, firstToken: start + 200_000, end: start + 1_200_000, cost: 0.002 } },
      { type: 'metric.recorded', ...trace, data: { scope: 'trace', name: 'answer', value: solved === 1 ? 42 : Math.floor(random.next() * 3) } },
      ...(place % 3 === 0 ? [{ type: 'tool.recorded', ...trace, data: { toolCallId: 'c1', node: 1, name: 'python', started: start, ended: start + 300_000, ...(place % 9 === 0 ? { error: { type: 'timeout', message: 'too slow' } } : {}) } }] : []),
    ] as Draft[];
  });
  return [started, ...rollouts.flat()];
} // prettier-ignore

const STEPS = 4;
const FEED = { feed: 'main', timeline: 0 };

function trainRun(): Draft[] {
  const run = 'train-1';
  const random = seededRandom(7);
  const drafts: Draft[] = [{ type: 'run.started', run, data: { kind: 'train', name: run, model: 'solver-7b' } }];
  for (let step = 1; step <= STEPS; step++) {
    const version = Math.max(0, step - 2);
    const rows: ListedRow[] = [];
    for (let task = 0; task < 4; task++) {
      for (let n = 0; n < 4; n++) {
        const rollout = `train-${step}-${task}-${n}`;
        const score = random.next() < chanceOf(3 * task, step * 0.08) ? 1 : 0;
        drafts.push(...rolloutEvents({ run, rollout, task: `task-${3 * task}`, group: `g-${step}-${task}`, size: 4, step, version, score }));
        // tasks that are always solved teach nothing: the feed leaves them out
        if (task < 3) rows.push(rowOf(run, rollout, version, step, score, n));
      }
    }
    drafts.push(
      { type: 'batch.cut', run, data: { ...FEED, n: step, batchId: `b${step}`, algorithm: 'grpo' }, lists: { rows, excluded: [], places: [] } },
      { type: 'batch.committed', run, data: { ...FEED, n: step, batchId: `b${step}`, holder: 'trainer', step } },
      { type: 'policy.published', run, data: { version: step, step, uri: `s3://weights/${step}` } },
    );
  }
  return drafts;
} // prettier-ignore

function rowOf(run: string, rollout: string, version: number, step: number, reward: number, n: number): ListedRow {
  return {
    rowId: `${rollout}/1`, run, rollout, trace: `t-${run}-${rollout}`, leaf: 1, group: rollout.slice(0, -2), env: 'sums', taskKey: null, agent: 'solver', status: 'completed', seqLen: 6,
    lossMask: new Uint8Array([0, 0, 0, 1, 1, 1]), advantage: reward - 0.5, rlWeights: null, ceWeights: null, refKlWeights: null, temperature: 1, reward, policyVersionMin: version,
    policyVersionMax: version + (n === 0 ? 1 : 0), staleness: step - 1 - version, logOffset: [0, 0], nodes: [0, 1], multimodal: false, members: { rl: 3, ce: 0, refKl: 0 }, hasReference: false,
    contentHash: 'a'.repeat(64), signalHash: 'b'.repeat(64),
  };
} // prettier-ignore

/** Appends it; the order is fixed, so that positions are too. */
export async function writeSample(log: TestLog): Promise<void> {
  await log.append(evalRun('eval-1', 0, 3));
  await log.append(evalRun('eval-2', 0.22, 4));
  await log.append(trainRun());
}
