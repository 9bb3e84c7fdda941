/**
 * The promise of cursors: pages of one list, read while rows arrive and change, give each row that existed at the start exactly once, in order, with the values of the
 * start; and they agree with a brute-force evaluation of the events. fast-check makes the events, the filter, the order and the page size.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import Fastify, { type FastifyInstance } from 'fastify';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import type { Draft } from '../events-for-tests.ts';
import { listRoutes } from '../routes/lists.ts';
import type { ListAnswer } from './read-list.ts';

let world: TestWorld;
let app: FastifyInstance;
let runs = 0;

before(async () => {
  world = await openTestWorld();
  app = Fastify();
  await app.register(listRoutes, { store: world.store });
});
after(async () => {
  await app?.close();
  await world?.close();
});

type Change = { readonly rollout: number; readonly reward: number | null; readonly step: number };

const score = fc.oneof(
  fc.constantFrom<(number | null)[]>(null, 0, 1, 0.1, NaN, Infinity, -Infinity, 5e-324, Number.MAX_VALUE),
  fc.double().map((x) => (x === 0 ? 0 : x)), // a sum of -0 is 0
);
const change: fc.Arbitrary<Change> = fc.record({ rollout: fc.nat(11), reward: score, step: fc.nat(2) });
const changes = fc.array(change, { minLength: 1, maxLength: 12 });
const scenario = fc.record({
  first: changes,
  later: fc.array(fc.record({ changes, summaries: fc.boolean() }), { minLength: 1, maxLength: 3 }),
  summariesFirst: fc.boolean(),
  sort: fc.constantFrom('', 'reward', '-reward', 'step,-reward', '-rollout', 'ended,step'),
  limit: fc.integer({ min: 1, max: 4 }),
  least: fc.option(fc.constantFrom(0, 0.5)),
});

function events(run: string, { rollout, reward, step }: Change): Draft[] {
  const id = `r${String(rollout).padStart(2, '0')}`;
  const ids = { run, rollout: id, trace: `${id}-t` };
  return [
    { type: 'rollout.started', run, rollout: id, data: { work: { type: 'train', step } } },
    { type: 'reward.assigned', ...ids, data: { scope: 'trace', name: 'exact', score: reward } },
  ];
}

type Row = { rollout: string; reward: number | null; step: number };

/** What the events say, latest first wins; no store involved. */
function expected(list: readonly Change[], sort: string, least: number | null): Row[] {
  const rows = new Map<string, Row>();
  for (const { rollout, reward, step } of list) rows.set(`r${String(rollout).padStart(2, '0')}`, { rollout: `r${String(rollout).padStart(2, '0')}`, reward, step }); // prettier-ignore
  const keys = [...(sort === '' ? [] : sort.split(',')), 'rollout'];
  const rank = (value: unknown): number => (value === null ? 2 : Number.isNaN(value) ? 1 : 0);
  const compare = (a: Row, b: Row): number => {
    for (const key of keys) {
      const name = key.replace('-', '');
      if (name === 'ended') continue; // null for all
      const [x, y] = [a[name as keyof Row], b[name as keyof Row]];
      if (rank(x) !== rank(y)) return rank(x) - rank(y);
      if (rank(x) > 0 || x === y) continue;
      return ((x as number) < (y as number) ? -1 : 1) * (key.startsWith('-') ? -1 : 1);
    }
    return 0;
  };
  return [...rows.values()].filter(({ reward }) => least === null || (reward !== null && reward >= least)).toSorted(compare);
}

async function list(query: Record<string, string>): Promise<ListAnswer> {
  const answer = await app.inject({ method: 'GET', url: `/v1/rollouts?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, 200, answer.body);
  return answer.json();
}

function plain(answer: ListAnswer): Row[] {
  return answer.rows.map((row) => {
    const reward = row['reward'] as number | null | { $float: string };
    return { rollout: row['rollout'] as string, reward: typeof reward === 'object' && reward !== null ? Number(reward.$float) : reward, step: Number(row['step']) };
  }); // prettier-ignore
}

test('pages read while rows arrive are one list of the moment it was begun', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ first, later, summariesFirst, sort, limit, least }) => {
      const run = `run-${++runs}`;
      const query = { run, fields: 'rollout,reward,step', ...(sort === '' ? {} : { sort }), ...(least === null ? {} : { 'reward[ge]': String(least) }) }; // prettier-ignore
      await world.append(first.flatMap((one) => events(run, one)));
      await world.project({ summaries: summariesFirst });
      const wanted = expected(first, sort, least);
      let page = await list({ ...query, limit: String(limit), asOf: 'latest' });
      const { asOf } = page;
      assert.deepEqual(page.count, { value: String(wanted.length), exact: true });
      const found = plain(page);
      for (let pages = 0; page.next !== null; pages++) {
        const round = later[pages];
        if (round !== undefined) {
          await world.append(round.changes.flatMap((one) => events(run, one)));
          await world.project({ summaries: round.summaries });
        }
        page = await list({ ...query, limit: String(limit), cursor: page.next });
        assert.equal(page.asOf, asOf);
        found.push(...plain(page));
      }
      assert.deepEqual(found, wanted);
      // much later, the same question at the same position has the same answer
      assert.deepEqual(plain(await list({ ...query, asOf })), wanted);
    }),
    { numRuns: 25, interruptAfterTimeLimit: 45_000 },
  );
});
