/** Search over a real log, projector, word index and engine, against the same search done by hand. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { searchRoutes } from '../routes/search.ts';
import type { SearchAnswer } from './read-search.ts';

let world: TestWorld;
let app: FastifyInstance;

const TEXTS = [
  'Run sudo rm -rf /tmp/x now',
  'PSEUDO code, not sudo_er',
  'sudo SUDO Sudo sUdO',
  '请运行 sudo 谢谢，你好吗',
  '',
  'über-cool "quoted" text with 💥 emoji and 💥 again',
  `${'long text without it. '.repeat(80)}needle in ${'the rest of a long text. '.repeat(80)}needle`,
  'a\u0000b \u202e odd',
];

before(async () => {
  world = await openTestWorld();
  app = Fastify();
  await app.register(searchRoutes, { store: world.store });
  const drafts = TEXTS.flatMap((content, at): Draft[] =>
    ['run-1', 'run-2'].map((run) => ({
      type: 'node.appended', run, rollout: `o${at % 3}`, trace: `t${at % 3}`,
      data: { index: at, parent: null, role: at % 2 === 0 ? 'user' : 'tool', sampled: false, message: { role: 'x', content } },
    })),
  ); // prettier-ignore
  await world.write(drafts);
});
after(async () => {
  await app?.close();
  await world?.close();
});

async function search(query: Record<string, string>, status = 200): Promise<SearchAnswer & { error?: { message: string } }> {
  const answer = await app.inject({ method: 'GET', url: `/v1/search?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, status, answer.body);
  return answer.json();
}

const found = (answer: SearchAnswer): number[] => answer.hits.map((hit) => hit.index).toSorted((a, b) => a - b);

test('words match whole, phrases exactly, minus excludes', async () => {
  const cases: [string, number[], Record<string, string>?][] = [
    ['sudo', [0, 1, 2, 3]],
    ['SUDO', [2], { case: 'exact' }],
    ['pseudo', [1]],
    ['sudo -rm', [1, 2, 3]],
    ['"sudo rm"', [0]],
    ['rm sudo', [0]],
    ['/tmp/x', [0]],
    ['你好', [3]],
    ['über-cool', [5]],
    ['ÜBER-cool', [5]],
    ['💥', [5]],
    ['sudo', [1, 3], { role: 'tool' }],
    ['sudo', [1], { trace: 't1' }],
    ["x' OR 1=1 --", []],
    ['nothing', []],
  ];
  for (const [q, expected, more] of cases) assert.deepEqual(found(await search({ q, run: 'run-1', ...more })), expected, q);
});

test('fragments show each hit, and highlights are exactly the words', async () => {
  const { hits } = await search({ q: 'needle', run: 'run-1', chars: '60' });
  const [hit] = hits;
  assert.equal(hit?.hits, 2);
  assert.equal(hit?.fragments.length, 2);
  const whole = TEXTS[6] as string;
  for (const { at, text, highlights } of hit?.fragments ?? []) {
    assert.equal(whole.slice(at, at + text.length), text);
    assert.deepEqual(highlights.map(([start, end]) => text.slice(start, end)), ['needle']); // prettier-ignore
  }
  const emoji = (await search({ q: '💥', run: 'run-1' })).hits[0]?.fragments[0];
  assert.deepEqual(emoji?.highlights.map(([start, end]) => emoji.text.slice(start, end)), ['💥', '💥']); // prettier-ignore
});

test('pages hold together while messages arrive, a foreign cursor is refused, bad questions are named', async () => {
  const first = await search({ q: 'sudo', limit: '3' });
  assert.deepEqual(first.count, { value: '3', exact: false });
  assert.deepEqual((await search({ q: 'sudo', limit: '3', count: 'bounded' })).count, { value: '8', exact: true });
  await world.write([
    { type: 'node.appended', run: 'run-1', rollout: 'o2', trace: 't2', data: { index: 99, parent: null, role: 'user', sampled: false, message: { role: 'user', content: 'sudo' } } },
  ]); // prettier-ignore
  const all = [...first.hits];
  for (let page = first; page.next !== null;) {
    page = await search({ q: 'sudo', limit: '3', cursor: page.next });
    assert.equal(page.asOf, first.asOf);
    all.push(...page.hits);
  }
  assert.equal(new Set(all.map((hit) => `${hit.run} ${hit.index}`)).size, 8);
  assert.equal(all.length, 8);
  assert.match((await search({ q: 'rm', cursor: first.next as string }, 400)).error?.message ?? '', /another filter/);
  assert.match((await search({ q: '-sudo' }, 400)).error?.message ?? '', /nothing to look for/);
  assert.match((await search({ q: ' ' }, 400)).error?.message ?? '', /nothing to look for/);
});

test('equal to looking through the texts', async () => {
  const words = fc.constantFrom('sudo', 'rm', 'code', 'text', 'long', 'not', 'the', 'needle', 'now', 'er', 'zzz');
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(words, { minLength: 1, maxLength: 3 }), async (list) => {
      const has = (text: string): boolean =>
        list.every((word) => {
          const forms = new Set([word, word.toUpperCase(), word.charAt(0).toUpperCase() + word.slice(1)]);
          return text.split(/[^A-Za-z0-9\u0080-\u{10ffff}]+/u).some((each) => forms.has(each));
        });
      const expected = TEXTS.flatMap((text, at) => (has(text) ? [at] : []));
      const indexes = found(await search({ q: list.join(' '), run: 'run-2' }));
      assert.deepEqual(indexes, expected);
    }),
    { numRuns: 25 },
  );
});
