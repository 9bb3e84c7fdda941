/**
 * Pages of a search against the messages themselves: each message that fits stands in them once, in order, at every position of the log, while further messages arrive and runs
 * are deleted; also where rows lie twice in the index, as after a crash of what fills it.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { searchRoutes } from '../routes/search.ts';
import type { SearchAnswer } from './read-search.ts';

const PROJECTS = ['first', 'second'] as const;
const WORDS = ['alpha', 'beta', 'Beta', 'gamma', 'alphabet'] as const;
let world: TestWorld;
let app: FastifyInstance;
let cases = 0;

before(async () => {
  world = await openTestWorld();
  app = Fastify();
  await app.register(searchRoutes, { store: world.store });
});
after(async () => {
  await app?.close();
  await world?.close();
});

type Message = { readonly project: string; readonly run: string; readonly rollout: string; readonly index: number; readonly text: string };

const message = fc.record({
  project: fc.constantFrom(...PROJECTS),
  run: fc.nat(1),
  rollout: fc.nat(2),
  text: fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 4 }).map((words) => words.join(' ')),
});
const round = fc.record({
  messages: fc.array(message, { minLength: 1, maxLength: 12 }),
  deleted: fc.option(fc.record({ project: fc.constantFrom(...PROJECTS), run: fc.nat(1) }), { freq: 4 }),
});
const scenario = fc.record({
  rounds: fc.array(round, { minLength: 1, maxLength: 3 }),
  question: fc.constantFrom('alpha', 'beta', '"beta gamma"', 'alpha -beta', 'alpha gamma', '"alpha"', 'delta'),
  limit: fc.integer({ min: 1, max: 5 }),
});

/** Whether a text fits, by the words of WORDS only. */
const FITS: Readonly<Record<string, (words: readonly string[], text: string) => boolean>> = {
  alpha: (words) => words.includes('alpha'),
  beta: (words) => words.includes('beta'),
  '"beta gamma"': (_, text) => text.includes('beta gamma'),
  'alpha -beta': (words) => words.includes('alpha') && !words.includes('beta'),
  'alpha gamma': (words) => words.includes('alpha') && words.includes('gamma'),
  '"alpha"': (words) => words.includes('alpha'),
  delta: () => false,
};

const keyOf = ({ run, rollout, index }: Pick<Message, 'run' | 'rollout' | 'index'>): string =>
  `${run} ${rollout} ${String(index).padStart(4, '0')}`;

function expected(messages: readonly Message[], project: string, question: string): string[] {
  const fits = FITS[question] as (words: readonly string[], text: string) => boolean;
  const lower = messages.map((one) => ({ ...one, text: one.text.toLowerCase() }));
  return lower.filter((one) => one.project === project && fits(one.text.split(' '), one.text)).map(keyOf).toSorted(); // prettier-ignore
}

function draftOf({ project, run, rollout, index, text }: Message): Draft {
  const data = { index, parent: null, role: 'user', sampled: false, message: { role: 'user', content: text } };
  return { type: 'node.appended', project, run, rollout, trace: `${rollout}-t`, data };
}

async function search(query: Record<string, string>): Promise<SearchAnswer> {
  const answer = await app.inject({ method: 'GET', url: `/v1/search?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, 200, answer.body);
  return answer.json();
}

test('pages of a search hold each message that fits once, in order, at every position', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ rounds, question, limit }) => {
      const [prefix, q] = [`c${++cases}-`, question];
      const run = `${prefix}0`;
      const mine = (hits: SearchAnswer['hits']): string[] => hits.filter((hit) => hit.run.startsWith(prefix)).map(keyOf);
      const written: Message[] = [];
      const gone = new Set<string>();
      const stillThere = (keys: readonly string[], project: string): string[] => keys.filter((key) => !gone.has(`${project} ${key.split(' ')[0]}`));
      const taken: { readonly project: string; readonly asOf: string; readonly wanted: string[] }[] = [];
      const begun = new Map<string, { found: string[]; next: string | null; wanted: string[] }>();
      for (const { messages, deleted } of rounds) {
        const fresh = messages.map((one, at): Message => ({ ...one, run: `${prefix}${one.run}`, rollout: `${prefix}${one.run}r${one.rollout}`, index: written.length + at }));
        const kept = fresh.filter(({ project, run }) => !gone.has(`${project} ${run}`)); // what comes for a deleted run is not kept
        await world.write(kept.map(draftOf));
        written.push(...kept);
        for (const project of PROJECTS) {
          const wanted = stillThere(expected(written, project, question), project);
          const page = begun.get(project);
          const answer = await search({ q, project, limit: page === undefined ? String(limit) : '200', ...(page === undefined || page.next === null ? {} : { cursor: page.next }) });
          if (page === undefined) begun.set(project, { found: mine(answer.hits), next: answer.next, wanted });
          else if (page.next !== null) begun.set(project, { ...page, found: [...page.found, ...mine(answer.hits)], next: answer.next });
          taken.push({ project, asOf: (await search({ q, project, limit: '1' })).asOf, wanted });
        }
        if (deleted !== null && kept.some(({ project, run }) => project === deleted.project && run === `${prefix}${deleted.run}`)) {
          await world.write([{ type: 'run.deleted', project: deleted.project, run: `${prefix}${deleted.run}`, data: {} }]);
          gone.add(`${deleted.project} ${prefix}${deleted.run}`);
        }
      }
      for (const [project, page] of begun) {
        while (page.next !== null) {
          const answer = await search({ q, project, limit: '200', cursor: page.next });
          page.found.push(...mine(answer.hits));
          page.next = answer.next;
        }
        assert.deepEqual(stillThere(page.found, project), stillThere(page.wanted, project), `${q}: pages begun in the first round`);
      }
      for (const { project, asOf, wanted } of taken) {
        const left = stillThere(wanted, project);
        const query = { q, project, asOf, run };
        const of = left.filter((key) => key.startsWith(`${run} `));
        const all = await search({ ...query, limit: '200' });
        assert.deepEqual([all.hits.map(keyOf), all.count], [of, { value: String(of.length), exact: true }], `${q} as of ${asOf}`);
        const first = await search({ ...query, limit: String(limit) });
        assert.deepEqual(first.hits.map(keyOf), of.slice(0, limit));
        assert.deepEqual(first.count, { value: String(Math.min(of.length, limit)), exact: of.length <= limit });
        assert.deepEqual((await search({ ...query, limit: String(limit), count: 'bounded' })).count, all.count);
      }
    }),
    { numRuns: 10, interruptAfterTimeLimit: 50_000, markInterruptAsFailure: false },
  );
}); // prettier-ignore

test('what fills the index may do it twice, and each message is found once', async () => {
  const messages = [0, 1, 2, 3, 4].map((index): Message => ({ project: 'third', run: 'twice', rollout: 'r', index, text: 'omega' }));
  await world.write(messages.map(draftOf));
  const columns = 'project, run, rollout, trace, `index`, role, text, _partition, _offset';
  await world.store.command('SYSTEM STOP MERGES node_search');
  try {
    await world.store.command(`INSERT INTO node_search (${columns}) SETTINGS async_insert = 0, deduplicate_insert = 'disable' SELECT ${columns} FROM node_search WHERE project = 'third'`);
    const [row] = await world.store.rows<{ n: string }>("SELECT count() AS n FROM node_search WHERE project = 'third'");
    assert.equal(Number(row?.n), 10);
    const found: number[] = [];
    for (let next: string | null | undefined; next !== null;) {
      const page: SearchAnswer = await search({ q: 'omega', project: 'third', limit: '2', count: 'bounded', ...(next === undefined ? {} : { cursor: next }) });
      if (next === undefined) assert.deepEqual(page.count, { value: '5', exact: true });
      found.push(...page.hits.map((hit) => hit.index));
      next = page.next;
    }
    assert.deepEqual(found, [0, 1, 2, 3, 4]);
  } finally {
    await world.store.command('SYSTEM START MERGES node_search');
  }
}); // prettier-ignore
