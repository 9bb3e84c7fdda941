/**
 * The list of runs against the events themselves: a run is there as soon as it said anything or has a rollout, at every position of the log, whoever deletes what; and pages of it
 * fit together while further runs arrive.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import Fastify, { type FastifyInstance } from 'fastify';
import { partitionKey } from '../../events/partition-key.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { positionText } from '../positions/log-position.ts';
import { listRoutes } from '../routes/lists.ts';
import type { ListAnswer } from './read-list.ts';

const PARTITIONS = 3;
const PROJECTS = ['first', 'second'] as const;
let world: TestWorld;
let app: FastifyInstance;
/** Everything in the log so far, with the partition of each event; offsets count up in each. */
const written: { readonly event: Draft; readonly partition: number }[] = [];
let cases = 0;

before(async () => {
  world = await openTestWorld(PARTITIONS);
  app = Fastify();
  await app.register(listRoutes, { store: world.store });
});
after(async () => {
  await app?.close();
  await world?.close();
});

type Step = {
  readonly kind: 'started' | 'rollout' | 'node' | 'note' | 'deleted';
  readonly project: string;
  readonly run: number;
  readonly rollout: number;
};

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.oneof({ weight: 8, arbitrary: fc.constantFrom('started', 'rollout', 'node', 'note') }, { weight: 1, arbitrary: fc.constant('deleted') }),
  project: fc.constantFrom(...PROJECTS),
  run: fc.nat(5),
  rollout: fc.nat(6),
}) as fc.Arbitrary<Step>; // prettier-ignore
const scenario = fc.record({
  rounds: fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
  limit: fc.integer({ min: 1, max: 3 }),
});

function draftOf({ kind, project, run: n, rollout: m }: Step, at: number): Draft {
  const [run, rollout] = [`${cases}/${n}`, `${cases}/r${m}`];
  const ids = { project, run, rollout };
  switch (kind) {
    case 'started':
      return { type: 'run.started', project, run, data: { kind: 'eval' } };
    case 'rollout':
      return { type: 'rollout.started', ...ids, data: {} };
    case 'node':
      return { type: 'node.appended', ...ids, trace: `${cases}/t${m}`, data: { index: at, parent: null, role: 'user', sampled: false, message: { role: 'user', content: 'x' } } };
    case 'note':
      return { type: 'note.added', project, run, data: { scope: 'run', text: 'says nothing about the run itself' } };
    case 'deleted':
      return { type: 'run.deleted', project, run, data: {} };
  }
} // prettier-ignore

async function write(drafts: readonly Draft[]): Promise<void> {
  for (const event of await world.append(drafts)) written.push({ event, partition: partitionOf(partitionKey(event, 'events'), PARTITIONS) });
  await world.project();
} // prettier-ignore

const positionNow = (): number[] => Array.from({ length: PARTITIONS }, (_, p) => written.filter(({ partition }) => partition === p).length);

const deletedIn = (project: string): Set<unknown> =>
  new Set(written.flatMap(({ event }) => (event.type === 'run.deleted' && event.project === project ? [event.run] : [])));

/** The runs of this case in a project before a position, as the events say. */
function expected(project: string, position: readonly number[]): string[] {
  const offsets = position.map(() => 0);
  const found = new Set<string>();
  for (const { event, partition } of written) {
    const offset = offsets[partition] as number;
    offsets[partition] = offset + 1;
    const { type, run = '', rollout } = event;
    if (event.project !== project || !run.startsWith(`${cases}/`) || offset >= (position[partition] as number)) continue;
    if (type === 'run.started' || rollout !== undefined) found.add(run);
  }
  const deleted = deletedIn(project);
  return [...found].filter((run) => !deleted.has(run)).toSorted();
} // prettier-ignore

async function list(query: Record<string, string>): Promise<ListAnswer> {
  const answer = await app.inject({ method: 'GET', url: `/v1/runs?${new URLSearchParams({ sort: 'run', fields: 'run', 'run[starts]': `${cases}/`, ...query }).toString()}` });
  assert.equal(answer.statusCode, 200, answer.body);
  return answer.json();
} // prettier-ignore

const runsOf = (answer: ListAnswer): unknown[] => answer.rows.map((row) => row['run']);

test('the list of runs is what the events say, at every position, and its pages are one list', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ rounds, limit }) => {
      cases++;
      const positions: number[][] = [];
      const pages = new Map(PROJECTS.map((project) => [project, { found: [] as unknown[], next: undefined as string | null | undefined }]));
      const turn = async (project: (typeof PROJECTS)[number]): Promise<void> => {
        const so = pages.get(project) as { found: unknown[]; next: string | null | undefined };
        if (so.next === null) return;
        const page = await list({ project, limit: String(limit), ...(so.next === undefined ? {} : { cursor: so.next }) });
        so.found.push(...runsOf(page));
        so.next = page.next;
      };
      for (const [at, round] of rounds.entries()) {
        await write(round.map((one, n) => draftOf(one, at * 10 + n)));
        positions.push(positionNow());
        for (const project of PROJECTS) {
          assert.deepEqual(runsOf(await list({ project })), expected(project, positionNow()));
          await turn(project);
        }
      }
      for (const project of PROJECTS) {
        for (const position of positions) {
          const { rows, count } = await list({ project, asOf: positionText({ events: position, feeds: [] }) });
          const wanted = expected(project, position);
          assert.deepEqual(rows.map((row) => row['run']), wanted); // prettier-ignore
          assert.deepEqual(count, { value: String(wanted.length), exact: true });
        }
        const so = pages.get(project);
        while (so?.next !== null) await turn(project);
        // a run that was deleted between two pages may stand in the first ones
        const deleted = deletedIn(project);
        assert.deepEqual(so.found.filter((run) => !deleted.has(run)), expected(project, positions[0] as number[])); // prettier-ignore
      }
    }),
    { numRuns: 15, interruptAfterTimeLimit: 45_000 },
  );
});
