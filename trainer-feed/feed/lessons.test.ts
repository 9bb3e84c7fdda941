/**
 * What trainers elsewhere got wrong in silence, each as a property of what a feed serves (off-by-one masks, shifted log-probabilities, trained padding, local denominators …). Every
 * token id says what it is: 1xxx prompt, 2xxx sampled, 3xxx environment, 4xxx scaffold before an answer, 9 the end of an answer.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import fc from 'fast-check';
import { z } from 'zod';
import type { TapedeckEvent } from '../../events/registry.ts';
import { bindable } from '../algorithms/bind.ts';
import { extendRegistry, PRESET_REGISTRY } from '../algorithms/registry.ts';
import { RL_STREAMS, type Algorithm } from '../algorithms/algorithm.ts';
import type { Row } from '../cut/row.ts';
import { planBatch } from '../planner/plan.ts';
import { planRequest } from '../planner/plan-request.ts';
import { readSlice, type ReadMicroBatch } from '../planner/read-slice.ts';
import { prepareSlices } from '../planner/slices.ts';
import { lastCut, type BatchRecord } from './decision-state.ts';
import { feedsUnderTest, temporaryFolder, type FeedsUnderTest, type TestOptions } from './feed-under-test.ts';
import { event, f32, T0, u32, u8 } from './feed-world.ts';
import type { FeedSpecInput } from './spec.ts';

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

const END = 9;
const logprobOf = (id: number): number => Math.fround(-(id + 1) / 1024);

/** One turn: prompt or environment ids, scaffold before the answer, sampled ids (the last is END). `fork`: it answers the first message again. */
type Turn = { readonly input: number; readonly scaffold: number; readonly sampled: number; readonly fork: boolean };
type Sketch = {
  readonly reward: number;
  readonly turns: readonly Turn[];
  readonly logprobs?: boolean;
  readonly mode?: 'raw' | 'processed';
};

const turn: fc.Arbitrary<Turn> = fc.record({ input: fc.integer({ min: 1, max: 5 }), scaffold: fc.nat(2), sampled: fc.integer({ min: 1, max: 6 }), fork: fc.boolean() }); // prettier-ignore
const sketch: fc.Arbitrary<Sketch> = fc.record({ reward: fc.integer({ min: 0, max: 4 }).map((k) => k / 4), turns: fc.array(turn, { minLength: 1, maxLength: 4 }) }); // prettier-ignore

/** Ids of the paths of one rollout, by leaf: what the engine saw. */
type Truth = { readonly paths: Map<string, number[]>; sampled: number };

function rollout(group: string, i: number, size: number, { reward, turns, logprobs = true, mode = 'processed' }: Sketch, truth: Truth): TapedeckEvent[] {
  const ids = { run: 'r', group, rollout: `${group}-${i}` };
  const trace = { ...ids, trace: `t-${group}-${i}` };
  let time = T0 + i * 1000;
  const events = [
    event('rollout.started', ids, time++, { env: { id: 'e' }, task: { key: 'k' }, group: { id: group, size }, work: { type: 'train' }, policyVersion: 0 }),
    event('trace.started', trace, time++, { agent: { name: 'a', trainable: true } }),
  ];
  const upTo = new Map<number | null, number[]>([[null, []]]);
  let index = 0;
  let last: number | null = null;
  let serial = i * 64;
  for (const [t, { input, scaffold, sampled, fork }] of turns.entries()) {
    const parent: number | null = t > 0 && fork ? 0 : last;
    const asked = Array.from({ length: input }, () => (t === 0 ? 1000 : 3000) + (serial++ % 999));
    const answer = [...Array.from({ length: scaffold }, () => 4000 + (serial++ % 999)), ...Array.from({ length: sampled - 1 }, () => 2000 + (serial++ % 999)), END];
    const mask = answer.map((_, k) => (k < scaffold ? 0 : 1));
    truth.sampled += sampled;
    events.push(
      event('node.appended', trace, time++, { index, parent, role: t === 0 ? 'user' : 'tool', sampled: false, tokens: { ids: u32(asked), mask: u8(asked.map(() => 0)) } }),
      event('node.appended', trace, time++, { index: index + 1, parent: index, role: 'assistant', sampled: true, call: t, tokens: { ids: u32(answer), mask: u8(mask), ...(logprobs ? { logprobs: f32(answer.slice(scaffold).map(logprobOf)) } : {}) } }),
      event('call.recorded', trace, time++, { index: t, node: index + 1, policyVersion: 0, sampling: { temperature: 1 }, logprobsMode: mode }),
    );
    const before = upTo.get(parent) as number[];
    truth.paths.delete(`r/${group}-${i}/t-${group}-${i}/${parent}`);
    upTo.set(index, [...before, ...asked]);
    upTo.set(index + 1, [...before, ...asked, ...answer]);
    truth.paths.set(`r/${group}-${i}/t-${group}-${i}/${index + 1}`, [...before, ...asked, ...answer]);
    last = index + 1;
    index += 2;
  }
  return [
    ...events,
    event('reward.assigned', trace, time++, { scope: 'trace', name: 'x', score: reward }),
    event('trace.ended', trace, time++, { ok: true }),
    event('rollout.ended', ids, time++, { ok: true }),
  ];
} // prettier-ignore

async function start(options: TestOptions = {}): Promise<FeedsUnderTest> {
  const folder = temporaryFolder();
  const feeds = await feedsUnderTest(folder.path, options);
  closers.push(folder.remove, () => feeds.close());
  return feeds;
}

const SPEC = {
  maxRowTokens: 400,
  batch: { by: 'groups', size: 1 },
  runs: ['r'],
  dropZeroAdvantage: false,
  cutAhead: 64,
  staleness: { maxOffPolicySteps: null },
} satisfies FeedSpecInput;

async function batch(feeds: FeedsUnderTest, n: number): Promise<{ rows: readonly Row[]; record: BatchRecord }> {
  await feeds.until('f', ({ fold }) => fold !== null && lastCut(fold.decisions) >= n);
  const record = feeds.engine('f').fold?.decisions.batches.get(n) as BatchRecord;
  const rows = await feeds.engine('f').rowsOf(record);
  assert.ok(rows !== null);
  return { rows, record };
}

/** What all ranks read, as they read it. */
function ranksOf(rows: readonly Row[], { batchId, counts }: BatchRecord, world: number): { header: string; microBatches: ReadMicroBatch[] }[] {
  const plan = planBatch(batchId, rows, planRequest.parse({ world, maxTokens: 512, padToMultiple: 16 }));
  assert.ok(plan.ok);
  const header = { feed: 'f', timeline: 0, n: 1, batchId, algorithm: 'grpo', policyVersion: 0, counts: { nRl: counts.N_rl, nCe: counts.N_ce, nRefKl: counts.N_ref_kl } };
  return [...prepareSlices(header, rows, plan.value)].map(({ bytes }) => ({
    header: tableFromIPC(bytes).schema.metadata.get('tapedeck.n_rl') ?? '',
    microBatches: readSlice(bytes),
  }));
} // prettier-ignore

test('masks, log-probabilities, provenance, padding, order of ids and denominators, for any graph of turns and any number of ranks', async () => {
  const feeds = await start();
  await feeds.directory.create({ project: 'default', feed: 'f' }, SPEC);
  let n = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(sketch, { minLength: 2, maxLength: 4 }), fc.constantFrom(1, 2, 4, 8), async (sketches, world) => {
      const truth: Truth = { paths: new Map(), sampled: 0 };
      const name = `g${n}`;
      await feeds.append(sketches.flatMap((each, i) => rollout(name, i, sketches.length, each, truth)));
      const { rows, record } = await batch(feeds, ++n);
      const ranks = ranksOf(rows, record, world);
      let trained = 0;
      const served = new Map<string, number[]>();
      const rollouts = new Set<string>();
      for (const { header, microBatches } of ranks) {
        assert.equal(header, String(record.counts.N_rl), '30: every rank divides by the count of the whole batch');
        for (const microBatch of microBatches) {
          const stream = (of: string): number[] => Array.from(microBatch.stream(of) ?? []);
          const [ids, mask, logprobs, advantages] = [stream('token_ids'), stream('loss_mask'), stream('logprobs'), microBatch.advantages()];
          const states = microBatch.values('status');
          for (const [row, state] of states.entries()) {
            const [from, to] = [microBatch.offsets[row] as number, microBatch.offsets[row + 1] as number];
            if (state === 'padding') {
              assert.equal(row, states.length - 1, '26: padding comes last, and says so');
              for (let at = from; at < to; at++) assert.deepEqual([mask[at], logprobs[at], advantages[at]], [0, 0, 0], '26: nothing in padding is trained');
              continue;
            }
            served.set(String(microBatch.values('row_id')[row]), ids.slice(from, to));
            rollouts.add(String(microBatch.values('rollout_id')[row]));
            assert.equal(logprobs[from], 0, '24: the first token has no context');
            for (let at = from; at < to; at++) {
              const id = ids[at] as number;
              if (mask[at] === 1) {
                trained++;
                assert.ok(id === END || (id >= 2000 && id < 3000), `25: ${id} was not sampled and is trained`);
                assert.equal(logprobs[at], logprobOf(id), '24: a log-probability belongs to another token');
                const ends = at + 1 === to || mask[at + 1] === 0;
                if (ends) assert.equal(id, END, '23: the last trained token of an answer is its end');
              } else assert.equal(logprobs[at], 0, '24: what is not trained here has no log-probability');
            }
          }
        }
      }
      assert.equal(trained, truth.sampled, '25, 29: every sampled token is trained, once');
      assert.equal(trained, record.counts.N_rl, '30: the denominator counts exactly the trained tokens');
      assert.deepEqual(served, new Map([...served.keys()].map((id) => [id, truth.paths.get(id)])), '29: a row is what the engine saw, id by id');
      assert.equal(rollouts.size, sketches.length, '31: a batch holds whole groups');
    }),
    { numRuns: 25, endOnFailure: true },
  );
}); // prettier-ignore

describe('what cannot be trained is said by name, and the feed goes on', () => {
  const answer: Turn = { input: 2, scaffold: 1, sampled: 3, fork: false };
  const plain = (reward: number, more: Partial<Sketch> = {}): Sketch => ({ reward, turns: [answer], ...more });
  const group = (name: string, ...members: Sketch[]): TapedeckEvent[] =>
    members.flatMap((each, i) => rollout(name, i, members.length, each, { paths: new Map(), sampled: 0 }));
  const excluded = (feeds: FeedsUnderTest): Record<string, number> => Object.fromEntries([...(feeds.engine('f').fold?.decisions.totals.dropped ?? [])].map(([reason, { rollouts }]) => [reason, rollouts])); // prettier-ignore

  test('27: rows without log-probabilities fail their group', async () => {
    const feeds = await start();
    await feeds.directory.create({ project: 'default', feed: 'f' }, SPEC);
    await feeds.append([...group('bad', plain(1, { logprobs: false }), plain(0)), ...group('good', plain(1), plain(0))]);
    const { rows } = await batch(feeds, 1);
    assert.deepEqual([...new Set(rows.map((row) => row.group))], ['good']);
    assert.deepEqual(excluded(feeds), { missing_logprobs: 2 });
  });

  test('28: a batch of raw and processed log-probabilities says so', async () => {
    const feeds = await start();
    await feeds.directory.create({ project: 'default', feed: 'f' }, SPEC);
    await feeds.append(group('g', plain(1, { mode: 'raw' }), plain(0), plain(0)));
    const { record } = await batch(feeds, 1);
    assert.deepEqual(record.statistics['logprobsModes'], { raw: 1, processed: 2, unknown: 0 });
  });

  test('31: a batch is never empty: groups that bring nothing are left out with their reason, and the end is an event of its own', async () => {
    const feeds = await start();
    await feeds.directory.create({ project: 'default', feed: 'f' }, { ...SPEC, dropZeroAdvantage: true });
    await feeds.append([...group('equal', plain(1), plain(1)), event('run.ended', { run: 'r' }, T0 + 9_999_999, { status: 'completed' })]);
    await feeds.until('f', ({ view }) => view.ended);
    assert.equal(lastCut(feeds.engine('f').fold?.decisions as never), 0);
  });

  test('an algorithm of a module that throws fails its group', async () => {
    const broken: Algorithm<object> = {
      name: 'broken', version: 1, scope: 'group', params: z.strictObject({}), streams: () => RL_STREAMS,
      score: ({ group: name, rewards }) => {
        if (name === 'bad') throw new TypeError('undefined is not a function');
        return { values: rewards };
      },
    }; // prettier-ignore
    const registry = extendRegistry(PRESET_REGISTRY, { algorithms: [bindable(broken)] });
    assert.ok(registry.ok);
    const feeds = await start({ registry: registry.value });
    await feeds.directory.create({ project: 'default', feed: 'f' }, { ...SPEC, others: { score: { algorithm: 'broken' } } });
    await feeds.append([...group('bad', plain(1), plain(0)), ...group('good', plain(1), plain(0.5))]);
    const { rows } = await batch(feeds, 1);
    assert.deepEqual(rows.map((row) => [row.group, row.advantage]), [['good', 1], ['good', 0.5]]); // prettier-ignore
    assert.deepEqual(excluded(feeds), { algorithm_threw: 2 });
    assert.deepEqual(feeds.troubles, []);
  });
});
