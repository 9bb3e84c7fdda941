/** Answers as of random positions equal a brute-force recomputation from the events; the latest ones equal the views. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import type { ListedRow } from '../../events/row-list.ts';
import type { Draft } from '../../store/columns/projections/test-world.ts';
import { projectDatabase } from '../../store/columns/project-database.ts';
import { startTestEngine } from '../engine-for-tests.ts';
import type { TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { formatPosition, parseAsOf, type Position } from './as-of.ts';
import { readTrainedRows } from './curves/trained-rows.ts';
import { stalenessOf } from './curves/staleness.ts';
import { estimatesOf, type Method } from './estimates.ts';
import { loadEvaluation, versionsOf } from './evaluation.ts';
import { createPositionReader, type PositionReader } from './log-position.ts';
import { testLog, type Placed, type TestLog } from './log-for-tests.ts';
import { openReader, type Reader } from './reader.ts';
import { readVersions } from './rollout-facts.ts';
import { readSizes } from './rollout-sizes.ts';

let engine: TestEngine;
let log: TestLog;
let positions: PositionReader;

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default']);
  log = testLog(engine.store);
  positions = createPositionReader(engine.store);
});
after(() => engine?.close());

const { signal } = new AbortController();

function readerAt(asOf: string): Promise<Reader> {
  const parsed = parseAsOf(asOf);
  assert.ok(parsed.ok);
  return openReader(engine.store, positions, { project: 'default', asOf: parsed.value, signal });
}

const METHOD: Method = {
  reward: null,
  answer: null,
  chooseBy: null,
  threshold: 1,
  missing: 'excluded',
  over: 'tasks',
  confidence: 0.95,
  resamples: 0,
  seed: 0,
};

// ---- worlds

const score = fc.constantFrom<number | null>(0, 1, 1, 0.5, null, NaN, 2);
const step = fc.oneof(
  fc.record({ do: fc.constant('start' as const), rollout: fc.nat(5), task: fc.nat(2), version: fc.option(fc.nat(3)) }),
  fc.record({ do: fc.constant('reward' as const), rollout: fc.nat(5), trace: fc.nat(1), name: fc.constantFrom('x', 'y'), score, weight: fc.constantFrom(undefined, 0, 1, 0.25), own: fc.boolean() }),
  fc.record({ do: fc.constant('node' as const), rollout: fc.nat(5), trace: fc.nat(1), version: fc.option(fc.nat(3)) }),
  fc.record({ do: fc.constant('end' as const), rollout: fc.nat(5), ok: fc.constantFrom(true, false, null) }),
  fc.record({ do: fc.constant('cancel' as const), rollout: fc.nat(5), reason: fc.constantFrom('stale' as const, 'superseded' as const) }),
  fc.record({ do: fc.constant('call' as const), rollout: fc.nat(5), trace: fc.nat(1), cost: fc.constantFrom(null, 0.5, 0.1), finish: fc.constantFrom('stop', 'length'), tokens: fc.nat(50) }),
  fc.record({ do: fc.constant('traceEnd' as const), rollout: fc.nat(5), trace: fc.nat(1), stop: fc.constantFrom('done', 'max_turns') }),
  fc.record({ do: fc.constant('size' as const), rollout: fc.nat(5), size: fc.nat(4) }),
); // prettier-ignore
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Events of the steps; indexes of nodes and calls count up, so that each is a new entity. */
function draftsOf(run: string, steps: readonly Step[]): Draft[] {
  const counters = new Map<string, number>();
  const count = (key: string): number => {
    const n = counters.get(key) ?? 0;
    counters.set(key, n + 1);
    return n;
  };
  return steps.map((each): Draft => {
    const rollout = `${run}-r${each.rollout}`;
    const group = `${run}-g${each.rollout % 2}`;
    const key = { run, rollout, group };
    switch (each.do) {
      case 'start':
        return { type: 'rollout.started', ...key, data: { env: { id: 'e' }, task: { key: `t${each.rollout % 3}`, hash: `h${each.rollout % 3}` }, group: { id: group, size: 3 }, policyVersion: each.version } };
      case 'reward': {
        const data = { name: each.name, score: each.score, weight: each.weight };
        return each.own ? { type: 'reward.assigned', ...key, data: { scope: 'rollout', ...data } } : { type: 'reward.assigned', ...key, trace: `${rollout}-t${each.trace}`, data: { scope: 'trace', ...data } };
      }
      case 'node': {
        const trace = `${rollout}-t${each.trace}`;
        const index = count(`n-${trace}`);
        return { type: 'node.appended', ...key, trace, data: { index, parent: index === 0 ? null : index - 1, role: index % 2 === 0 ? 'user' : 'assistant', sampled: index % 2 === 1, message: { role: 'user', content: 'x' }, policyVersion: each.version } };
      }
      case 'call': {
        const trace = `${rollout}-t${each.trace}`;
        return { type: 'call.recorded', ...key, trace, data: { index: count(`c-${trace}`), model: 'm', finishReason: each.finish, usage: { promptTokens: each.tokens, completionTokens: each.tokens * 2 }, ...(each.cost === null ? {} : { cost: each.cost }) } };
      }
      case 'traceEnd':
        return { type: 'trace.ended', ...key, trace: `${rollout}-t${each.trace}`, data: { ok: true, stopCondition: each.stop } };
      case 'end':
        return { type: 'rollout.ended', ...key, data: { ok: each.ok } };
      case 'cancel':
        return { type: 'rollout.cancelled', ...key, data: { reason: each.reason } };
      case 'size':
        return { type: 'group.sealed', run, group, data: { size: each.size, reason: 'complete' } };
    }
  });
} // prettier-ignore

// ---- the same by brute force

type Brute = {
  score: number | null;
  started: boolean;
  ok: boolean | null;
  ended: boolean;
  cancelled: string | null;
  task: string | null;
  group: string | null;
};

function bruteRollouts(events: readonly Placed[]): Map<string, Brute> {
  const found = new Map<string, Brute>();
  const rewards = new Map<string, Map<string, { score: number | null; weight: number }>>();
  for (const { draft } of events) {
    const { rollout } = draft;
    if (rollout === undefined || !/^rollout|^reward/.test(draft.type)) continue;
    const data = draft.data as Record<string, unknown>;
    if (draft.type === 'reward.assigned') {
      const entity = JSON.stringify([data['scope'], draft.trace, data['name']]);
      const of = rewards.get(rollout) ?? new Map<string, { score: number | null; weight: number }>();
      of.set(entity, { score: data['score'] as number | null, weight: (data['weight'] as number | undefined) ?? 1 });
      rewards.set(rollout, of);
      continue;
    }
    const row = found.get(rollout) ?? { score: null, started: false, ok: null, ended: false, cancelled: null, task: null, group: null };
    if (draft.type === 'rollout.started') found.set(rollout, { ...row, started: true, task: (data['task'] as { hash: string }).hash, group: draft.group ?? null });
    if (draft.type === 'rollout.ended') found.set(rollout, { ...row, ended: true, ok: (data['ok'] as boolean | null) ?? row.ok });
    if (draft.type === 'rollout.cancelled') found.set(rollout, { ...row, ended: true, cancelled: data['reason'] as string });
  }
  for (const [rollout, row] of found) {
    const entries = [...(rewards.get(rollout)?.values() ?? [])];
    const isMissing = entries.some((entry) => entry.score === null && entry.weight !== 0);
    const known = entries.filter((entry) => entry.score !== null);
    found.set(rollout, { ...row, score: isMissing || known.length === 0 ? null : known.reduce((sum, entry) => sum + (entry.score as number) * entry.weight, 0) });
  }
  return found;
} // prettier-ignore

type BruteAnswer = { counts: Record<string, number>; pass: (number | null)[]; avg: number | null };

function bruteAnswer(events: readonly Placed[], most: number): BruteAnswer {
  const rollouts = [...bruteRollouts(events)];
  const outcome = ({ score: value, ok, cancelled, ended }: Brute): string => {
    if (cancelled === 'superseded') return 'superseded';
    if (value !== null) return Number.isNaN(value) ? 'nan' : 'scored';
    return ok === false || cancelled !== null ? 'failed' : ended ? 'unscored' : 'running';
  };
  const counts = { scored: 0, nan: 0, failed: 0, unscored: 0, running: 0, superseded: 0 } as Record<string, number>;
  const tasks = new Map<string, number[]>();
  for (const [rollout, row] of rollouts) {
    counts[outcome(row)] = (counts[outcome(row)] ?? 0) + 1;
    const task = row.task ?? rollout;
    if (outcome(row) === 'scored') tasks.set(task, [...(tasks.get(task) ?? []), row.score as number]);
  }
  const all = [...tasks.values()];
  const meanOf = (values: number[]): number | null => (values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length);
  // by the definition: the share of subsets of k in which one succeeds
  const passing = (scores: number[], k: number): number => {
    const drawn = subsets(scores, k);
    return drawn.filter((each) => each.some((value) => value >= 1)).length / drawn.length;
  };
  const pass = Array.from({ length: most }, (_, place) => meanOf(all.filter((scores) => scores.length > place).map((scores) => passing(scores, place + 1))));
  return { counts, pass, avg: meanOf(all.map((scores) => meanOf(scores) as number)) };
} // prettier-ignore

function subsets<T>(items: readonly T[], k: number): T[][] {
  if (k === 0) return [[]];
  return items.flatMap((item, place) => subsets(items.slice(place + 1), k - 1).map((rest) => [item, ...rest]));
}

function near(actual: number | null | undefined, expected: number | null, what: string): void {
  if (expected === null || actual === null || actual === undefined) assert.equal(actual, expected, what);
  else assert.ok(Math.abs(actual - expected) < 1e-9, `${what}: ${actual} is not ${expected}`);
}

function upTo(events: readonly Placed[], position: Position): Placed[] {
  return events.filter(({ partition, offset }) => offset <= (position.get(partition) ?? -1));
}

let worlds = 0;

test('estimates as of any position equal a recomputation from the events', { timeout: 600_000 }, async () => {
  const cut = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), fc.array(cut, { minLength: 2, maxLength: 3 }), async (steps, cuts) => {
      const run = `world-${worlds++}`;
      const before = new Map(log.events.map(({ partition, offset }) => [partition, offset]));
      await log.append([{ type: 'run.started', run, data: { kind: 'eval' } }, ...draftsOf(run, steps)]);
      const events = log.events.filter(({ draft }) => draft.run === run);
      const ends = new Map(log.events.map(({ partition, offset }) => [partition, offset]));
      const between = (fractions: readonly number[]): Position =>
        new Map([...ends].map(([partition, end], place) => {
          const start = before.get(partition) ?? -1;
          return [partition, start + Math.round((end - start) * (fractions[place] ?? 1))] as const;
        }).filter(([, offset]) => offset >= 0));
      for (const position of [...cuts.map(between), ends]) await checkEstimates(run, upTo(events, position), position);
    }),
    { numRuns: 15, endOnFailure: true },
  );
}); // prettier-ignore

async function checkEstimates(run: string, events: readonly Placed[], position: Position): Promise<void> {
  const reader = await readerAt(formatPosition(position));
  const isKnown = events.some(({ draft }) => draft.type === 'run.started' || draft.type.startsWith('rollout.'));
  if (!isKnown) {
    await assert.rejects(loadEvaluation(reader, { run }, METHOD), { code: 'not_found' });
    return;
  }
  const evaluation = await loadEvaluation(reader, { run }, METHOD);
  const answer = estimatesOf(evaluation, METHOD, null, { project: 'default', asOf: reader.asOf });
  const most = evaluation.tasks.reduce((largest, task) => Math.max(largest, task.judged.length), 0);
  const expected = bruteAnswer(events, most);
  for (const [outcome, count] of Object.entries(expected.counts)) assert.equal(answer.counts[outcome as 'scored'], count, outcome);
  near(answer.estimates.avg.estimate, expected.avg, 'avg');
  for (const { k, estimate } of answer.estimates.passAtK) near(estimate, expected.pass[(k ?? 0) - 1] ?? null, `pass@${k}`);
}

test('at the end, rewards, versions and sizes of rollouts equal the view', async () => {
  const { run } = { run: 'view' };
  const steps = fc.sample(step, { numRuns: 250, seed: 42 });
  await log.append([{ type: 'run.started', run, data: { kind: 'eval' } }, ...draftsOf(run, steps)]);
  const reader = await readerAt('latest');
  const { rollouts, scores } = await loadEvaluation(reader, { run }, METHOD);
  const [sizes, versions] = await Promise.all([readSizes(reader, run, rollouts, null), readVersions(reader, run)]);
  const rows = await engine.store.rows<Record<string, unknown>>(
    'SELECT rollout, reward, ok, stop_condition, truncated, turns, branches, calls, input_tokens, output_tokens, cost, policy_version_min, policy_version_max, task_hash FROM rollouts WHERE run = {run:String} ORDER BY rollout',
    { database: projectDatabase('default'), params: { run } },
  );
  const whole = (value: number | null): string | null => (value === null ? null : String(value));
  const ours = rollouts.map((row) => {
    const size = sizes.get(row.rollout);
    const version = versionsOf(row, versions);
    assert.ok(size);
    const reward = scores.get(row.rollout) ?? null;
    return {
      rollout: row.rollout, reward: Number.isNaN(reward) ? 'nan' : reward, ok: row.ok, stop_condition: size.stopCondition, truncated: size.truncated, turns: whole(size.turns),
      branches: whole(size.branches), calls: whole(size.calls), input_tokens: whole(size.inputTokens), output_tokens: whole(size.outputTokens), cost: size.cost,
      policy_version_min: whole(version.min), policy_version_max: whole(version.max), task_hash: row.taskHash,
    };
  }); // prettier-ignore
  assert.deepEqual(ours, rows);
  assert.ok(rows.length >= 5);
});

const trained = (run: string, n: number, place: number, versionMin: number): ListedRow => ({
  rowId: `${run}/${n}/${place}`, run, rollout: `${run}-r${place}`, trace: `${run}-t${place}`, leaf: 1, group: `${run}-g`, env: 'e', taskKey: 't', agent: 'a', status: 'completed', seqLen: 4,
  lossMask: new Uint8Array([0, 0, 1, 1]), advantage: place - 1, rlWeights: null, ceWeights: null, refKlWeights: null, temperature: 1, reward: place / 2, policyVersionMin: versionMin,
  policyVersionMax: versionMin + (place % 2), staleness: n - 1 - versionMin, logOffset: [0, 0], nodes: [0, 1], multimodal: false, members: { rl: 2, ce: 0, refKl: 0 }, hasReference: false,
  contentHash: 'a'.repeat(64), signalHash: 'b'.repeat(64),
}); // prettier-ignore

test('what was trained on: committed by then, first decisions count, rewinds give up', async () => {
  const run = 'fed';
  const feed = { feed: 'feed-fed', timeline: 0 };
  const cutOf = (timeline: number, n: number, id: string, rows: ListedRow[]): Draft => ({ type: 'batch.cut', run, data: { ...feed, timeline, n, batchId: id, algorithm: 'grpo' }, lists: { rows, excluded: [], places: [] } });
  const commit = (timeline: number, n: number, id: string): Draft => ({ type: 'batch.committed', run, data: { ...feed, timeline, n, batchId: id, holder: 'h', step: n } });
  const rows = (n: number): ListedRow[] => [0, 1, 2].map((place) => trained(run, n, place, Math.max(0, n - 2)));
  const stepsAt = async (asOf: string): Promise<number[]> => (await readTrainedRows(await readerAt(asOf), run, null)).map(({ step: at }) => at);
  await log.append([cutOf(0, 1, 'b1', rows(1)), cutOf(0, 2, 'b2', rows(2))]);
  const cutOnly = log.position();
  await log.append([commit(0, 1, 'b1'), commit(0, 2, 'b2')]);
  const both = log.position();
  await log.append([{ type: 'feed.rewound', run, data: { ...feed, timeline: 1, from: 2, to: 1, mode: 'recut' } }, cutOf(1, 2, 'b2-again', rows(2).slice(0, 1)), commit(1, 2, 'b2-again')]);
  assert.deepEqual(await stepsAt(cutOnly), []);
  assert.deepEqual(await stepsAt(both), [1, 1, 1, 2, 2, 2]);
  assert.deepEqual(await stepsAt('latest'), [1, 1, 1, 2]);
  assert.deepEqual(await stepsAt(both), [1, 1, 1, 2, 2, 2]);
  const view = await engine.store.rows<{ step: string }>("SELECT step FROM batch_rows WHERE run = 'fed' AND NOT abandoned AND step IS NOT NULL ORDER BY timeline, n, row_id", { database: projectDatabase('default') });
  assert.deepEqual(await stepsAt('latest'), view.map((row) => Number(row.step)));
}); // prettier-ignore

test('staleness in parts, as prime-rl counts them', () => {
  assert.deepEqual(stalenessOf({ n: 10, versionMin: 6, versionMax: 8 }), { total: 3, inFlight: 2, inQueue: 1 });
  assert.deepEqual(stalenessOf({ n: 10, versionMin: 6, versionMax: 12 }), { total: 3, inFlight: 3, inQueue: 0 });
  assert.deepEqual(stalenessOf({ n: 1, versionMin: 3, versionMax: 3 }), { total: 0, inFlight: 0, inQueue: 0 });
  assert.equal(stalenessOf({ n: 1, versionMin: null, versionMax: null }), null);
});

test('a time means the records before the first later one in each partition, for ever once each has one', async () => {
  const times = [1_000, 3_000, 2_000, 5_000].map((ms) => 1_900_000_000_000_000 + ms * 1_000);
  const at = async (time: number): Promise<{ position: string; settled: boolean }> => (await readerAt(String(time))).asOf;
  const draft = (place: number): Draft => ({
    type: 'metric.recorded',
    run: 'timed',
    time: times[place] as number,
    data: { scope: 'run', name: 'm', value: place },
  });
  const start = log.position();
  await log.append([draft(0), draft(1), draft(2)]);
  const before = await at(times[2] as number);
  assert.equal(before.settled, false);
  const partition = log.events.at(-1)?.partition ?? 0;
  const first = log.events.at(-3)?.offset ?? 0;
  const parsed = parseAsOf(before.position);
  assert.ok(parsed.ok && parsed.value.kind === 'position');
  assert.equal(parsed.value.position.get(partition), first, start);
  await log.append([draft(3)]);
  const again = parseAsOf((await at(times[2] as number)).position);
  assert.ok(again.ok && again.value.kind === 'position');
  assert.equal(again.value.position.get(partition), first);
});
