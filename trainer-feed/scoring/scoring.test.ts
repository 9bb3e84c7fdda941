/** Groups in scoring over a real log and a real engine: judged, scored by teachers, given up by name; and never asked for twice. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promptLogprob } from '../../e2e/fake-engine/completions-route.ts';
import { startFakeEngine, type FakeEngine, type FakeEngineOptions } from '../../e2e/fake-engine/engine.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import { lastCut } from '../feed/decision-state.ts';
import { feedsUnderTest, temporaryFolder, type FeedsUnderTest, type TestOptions } from '../feed/feed-under-test.ts';
import { event, f32, T0, u32, u8 } from '../feed/feed-world.ts';
import type { FeedSpecInput } from '../feed/spec.ts';
import { stateBytes } from '../feed/state-codec.ts';
import type { ScoringUpstream } from './upstream.ts';

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

async function engine(options: FakeEngineOptions = {}): Promise<FakeEngine> {
  const made = await startFakeEngine({ models: [{ id: 'toy', maxModelLen: 32_768, thinks: false, earlierReasoning: 'keep' }], ...options });
  closers.push(() => made.close());
  return made;
}

const upstream = (name: string, { url }: Pick<FakeEngine, 'url'>, more: Partial<ScoringUpstream> = {}): ScoringUpstream => ({
  name, kind: 'vllm', rootUrl: url, apiUrl: `${url}/v1`, apiKey: null, headers: {}, policyVersion: {}, ...more,
}); // prettier-ignore

async function start(options: TestOptions): Promise<FeedsUnderTest> {
  const folder = options.folder === undefined ? temporaryFolder() : { path: options.folder, remove: () => {} };
  const feeds = await feedsUnderTest(folder.path, options);
  closers.push(folder.remove, () => feeds.close());
  return feeds;
}

/** Judges by the number after `#`: more is better. */
const numbers = (text: string): number => Number(/#(\d+)/.exec(text)?.[1] ?? Number.NaN);
const judge = () =>
  engine({
    behaviour: ({ messages }) => {
      const [, first = '', second = ''] = /<answer_A>([\s\S]*)<\/answer_A>[\s\S]*<answer_B>([\s\S]*)<\/answer_B>/.exec(messages.at(-1)?.content ?? '') ?? []; // prettier-ignore
      const difference = numbers(first) - numbers(second);
      return { content: `I compared them.\n**${difference > 0 ? 'A' : difference < 0 ? 'B' : 'tie'}**` };
    },
  });

type Told = {
  readonly answer?: string;
  readonly score?: number;
  readonly ids?: readonly number[];
  readonly demonstration?: string;
  readonly env?: string;
};

/** One group of finished rollouts: a prompt of three ids, an answer of `ids`. */
function group(name: string, members: readonly Told[]): TapedeckEvent[] {
  return members.flatMap(({ answer = 'fine', score, ids = [40, 41, 42], demonstration, env = 'toy' }, i) => {
    const rollout = { run: 'r', group: name, rollout: `${name}-${i}` };
    const trace = { ...rollout, trace: `t-${name}-${i}` };
    let time = T0 + i * 100;
    const data = demonstration === undefined ? {} : { data: { demonstration } };
    return [
      event('rollout.started', rollout, time++, { env: { id: env }, task: { key: 'k', ...data }, group: { id: name, size: members.length }, work: { type: 'train' }, policyVersion: 0 }),
      event('trace.started', trace, time++, { agent: { name: 'solver', trainable: true } }),
      event('node.appended', trace, time++, { index: 0, parent: null, role: 'user', sampled: false, message: { role: 'user', content: 'Which number is best? {first}' }, tokens: { ids: u32([10, 11, 12]), mask: u8([0, 0, 0]) } }),
      event('node.appended', trace, time++, { index: 1, parent: 0, role: 'assistant', sampled: true, call: 0, message: { role: 'assistant', content: answer }, tokens: { ids: u32([13, ...ids]), mask: u8([0, ...ids.map(() => 1)]), logprobs: f32(ids.map(() => -0.5)) } }),
      event('call.recorded', trace, time++, { index: 0, node: 1, policyVersion: 0, sampling: { temperature: 1 }, logprobsMode: 'processed', tokenizerHash: 'tok' }),
      ...(score === undefined ? [] : [event('reward.assigned', trace, time++, { scope: 'trace', name: 'correct', score })]),
      event('trace.ended', trace, time++, { ok: true }),
      event('rollout.ended', rollout, time++, { ok: true }),
    ];
  }); // prettier-ignore
}

const SPEC = { maxRowTokens: 100, batch: { by: 'groups', size: 1 }, runs: ['r'], cutAhead: 4 } satisfies FeedSpecInput;
const NAME = { project: 'default', feed: 'f' };
const pairwise = (more: object = {}) => ({ kind: 'pairwise' as const, name: 'preference', upstream: 'judge', ...more });

async function advantages(feeds: FeedsUnderTest, n: number): Promise<unknown[]> {
  await feeds.until('f', ({ fold }) => fold !== null && lastCut(fold.decisions) >= n);
  const link = feeds.engine('f').fold?.decisions.chain[n - 1];
  const rows = link === undefined ? null : await feeds.engine('f').rowsOf(link);
  return (rows ?? []).toSorted((a, b) => (a.rollout < b.rollout ? -1 : 1)).map(({ advantage }) => advantage);
}

const failedGroups = (feeds: FeedsUnderTest): Promise<Record<string, number>> =>
  feeds.until('f', ({ fold }) => fold !== null && fold.decisions.totals.failedGroups.size > 0 && Object.fromEntries(fold.decisions.totals.failedGroups)); // prettier-ignore

/** The feed again with nothing it had kept. */
async function rebuilt(feeds: FeedsUnderTest, options: TestOptions): Promise<FeedsUnderTest> {
  await feeds.close();
  for (const folder of readdirSync(join(feeds.folder, 'feeds'))) rmSync(join(feeds.folder, 'feeds', folder), { recursive: true });
  return start({ ...options, folder: feeds.folder });
}

const bytes = (feeds: FeedsUnderTest): string => Buffer.from(stateBytes(feeds.engine('f').fold as never)).toString('hex');

describe('group rewards', () => {
  test('a judge is asked for every pair in both orders; the rewards make the advantages; a feed folded anew asks nobody', async () => {
    const server = await judge();
    const upstreams = [upstream('judge', server)];
    const feeds = await start({ upstreams });
    await feeds.directory.create(NAME, { ...SPEC, others: { groupRewards: [pairwise()] } });
    await feeds.append(group('g', [{ answer: 'x #1' }, { answer: 'y #3' }, { answer: '{second} #2' }]));
    // win rates 0, 1, 0.5
    assert.deepEqual(await advantages(feeds, 1), [-0.5, 0.5]);
    assert.equal(server.requests().length, 1 + 6, 'the models, and 3 x 2 questions');
    const asked = server
      .requests()
      .flatMap(({ body }) => (body as { messages?: { content: string }[] } | undefined)?.messages?.[0]?.content ?? []);
    assert.ok(
      asked.every((text) => text.includes('user: Which number is best? {first}')),
      'nothing in a text is taken for a place of the template',
    );
    const known = bytes(feeds);
    server.clearRequests();
    const again = await rebuilt(feeds, { upstreams });
    await again.until('f', ({ fold, view }) => fold !== null && view.caughtUp && lastCut(fold.decisions) === 1);
    assert.equal(bytes(again), known);
    assert.equal(server.requests().length, 0);
  });

  test('ranking, and a bonus that rests on it: in the order of the specification', async () => {
    const server = await judge();
    const feeds = await start({ upstreams: [upstream('judge', server)] });
    const bonus = { kind: 'conciseness' as const, name: 'short', bonus: 1, threshold: 0, on: 'rank', weight: 2 };
    await feeds.directory.create(NAME, {
      ...SPEC,
      dropZeroAdvantage: false,
      others: { groupRewards: [{ ...pairwise(), kind: 'ranking', name: 'rank', weight: 0 }, bonus] },
    });
    await feeds.append(
      group('g', [
        { answer: '#9', ids: [1, 2, 3, 4] },
        { answer: '#8', ids: [1, 2] },
        { answer: '#1', ids: [1] },
      ]),
    );
    // correct = log strength >= 0: the first two; the shorter gets 1, weight 2; the mean is 2/3
    assert.deepEqual(await advantages(feeds, 1), [-2 / 3, 4 / 3, -2 / 3].map(Math.fround));
  });

  test('two feeds with one comparison pay for it once, and other members are another comparison', async () => {
    const server = await judge();
    const feeds = await start({ upstreams: [upstream('judge', server, { models: ['toy'] })] });
    const spec = { ...SPEC, others: { groupRewards: [pairwise()] } };
    await feeds.directory.create(NAME, spec);
    await feeds.append(group('g', [{ answer: '#1' }, { answer: '#2' }]));
    await advantages(feeds, 1);
    assert.equal(server.requests().length, 2);
    await feeds.directory.create({ ...NAME, feed: 'second' }, { ...spec, seed: 1 });
    await feeds.until('second', ({ fold }) => fold !== null && lastCut(fold.decisions) === 1);
    assert.equal(server.requests().length, 2);
    await feeds.directory.create({ ...NAME, feed: 'third' }, { ...spec, others: { groupRewards: [pairwise({ show: 'transcript' })] } });
    await feeds.until('third', ({ fold }) => fold !== null && lastCut(fold.decisions) === 1);
    assert.equal(server.requests().length, 4);
  });

  for (const [what, reason, setUp] of [
    ['no such upstream', 'upstream_unknown', (server) => [upstream('other', server)]],
    ['a refusal', 'upstream_refused', (server) => [upstream('judge', server, { models: ['absent'] })]],
    ['a judge that says nothing clear', 'judge_unclear', (server) => [upstream('judge', server, { models: ['toy'] })]],
    ['an API of another shape', 'judge_upstream_kind', (server) => [upstream('judge', server, { kind: 'anthropic' })]],
  ] as const satisfies readonly (readonly [string, string, (server: FakeEngine) => ScoringUpstream[]])[]) {
    // prettier-ignore
    test(`${what} fails the group by name, and the feed goes on`, async () => {
      const server = await engine({ behaviour: () => ({ content: 'Both are nice' }) });
      const feeds = await start({ upstreams: setUp(server) });
      await feeds.directory.create(NAME, { ...SPEC, envs: { toy: { groupRewards: [pairwise()] }, plain: {} } });
      await feeds.append(group('g', [{ answer: '#1' }, { answer: '#2' }]));
      assert.deepEqual(await failedGroups(feeds), { [reason]: 1 });
      await feeds.append(group('h', [{ score: 1, env: 'plain' }, { score: 0, env: 'plain' }]));
      assert.deepEqual(await advantages(feeds, 1), [0.5, -0.5]);
    });
  }

  test('a redirect is not followed', async () => {
    const inner = await judge();
    const server = createServer((_, response) => response.writeHead(302, { location: `${inner.url}/v1/chat/completions` }).end());
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    closers.push(() => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const feeds = await start({ upstreams: [upstream('judge', { url }, { models: ['toy'] })] });
    await feeds.directory.create(NAME, { ...SPEC, others: { groupRewards: [pairwise()] } });
    await feeds.append(group('g', [{ answer: '#1' }, { answer: '#2' }]));
    assert.deepEqual(await failedGroups(feeds), { upstream_refused: 1 });
    assert.equal(inner.requests().length, 0);
  });

  test('what can pass is tried again; what takes too long fails by name', async () => {
    const server = await judge();
    server.failNext({ kind: 'status', status: 503, message: 'busy' });
    server.failNext({ kind: 'empty_body' });
    const feeds = await start({ upstreams: [upstream('judge', server, { models: ['toy'] })] });
    await feeds.directory.create(NAME, { ...SPEC, others: { groupRewards: [pairwise()] } });
    await feeds.append(group('g', [{ answer: '#1' }, { answer: '#2' }]));
    assert.deepEqual(await advantages(feeds, 1), [-0.5, 0.5]);
    const late = await start({ upstreams: [upstream('judge', { url: 'http://127.0.0.1:9' }, { models: ['toy'] })] });
    await late.directory.create(NAME, { ...SPEC, group: { scoringDeadlineSeconds: 0.2 }, others: { groupRewards: [pairwise()] } });
    await late.append(group('g', [{ answer: '#1' }, { answer: '#2' }]));
    assert.deepEqual(await failedGroups(late), { group_reward_late: 1 });
  });

  test('specifications that could never be met are refused by field', async () => {
    const feeds = await start({});
    const refused = (more: object, pattern: RegExp): Promise<void> => assert.rejects(feeds.directory.create(NAME, { ...SPEC, ...more }), pattern);
    await refused({ others: { groupRewards: [pairwise(), pairwise()] } }, /groupRewards\.1\.name: preference is the name of an earlier one/);
    await refused({ others: { groupRewards: [pairwise({ template: 'which?' })] } }, /must contain \{prompt\}, \{first\}, \{second\}/);
    await refused({ others: { groupRewards: [pairwise({ url: 'http://169.254.169.254/' })] } }, /url/, );
    const onItself = { kind: 'conciseness', name: 'short', bonus: 1, threshold: 1, on: 'short' };
    await refused({ others: { groupRewards: [onItself] } }, /groupRewards\.0\.on/);
    await refused({ membership: 'as:g', others: { groupRewards: [pairwise()] } }, /groupRewards would never be asked for/);
  }); // prettier-ignore
});

describe('teachers', () => {
  const OPD = { score: { algorithm: 'opd', params: { teacher: 'big' } } };
  const PROMPT = [10, 11, 12, 13];
  const expected = (ids: readonly number[], before: readonly number[] = []): number[] => {
    const all = Uint32Array.from([...before, ...PROMPT, ...ids]);
    return Array.from(ids, (_, i) => promptLogprob(all, before.length + PROMPT.length + i));
  };
  const references = async (feeds: FeedsUnderTest, feed = 'f'): Promise<number[][]> => {
    await feeds.until(feed, ({ fold }) => fold !== null && lastCut(fold.decisions) >= 1);
    const rows = await feeds.engine(feed).rowsOf(feeds.engine(feed).fold?.decisions.chain[0] as never);
    return (rows ?? []).toSorted((a, b) => (a.rollout < b.rollout ? -1 : 1)).map(({ refLogprobs }) => [...(refLogprobs ?? [])].slice(PROMPT.length));
  }; // prettier-ignore

  test('opd: ids are scored verbatim, values of sampled tokens are recorded; a feed folded anew asks nobody', async () => {
    const server = await engine();
    const upstreams = [upstream('big', server)];
    const feeds = await start({ upstreams });
    await feeds.directory.create(NAME, { ...SPEC, others: OPD });
    await feeds.append(group('g', [{ ids: [40, 41] }, { ids: [50, 51, 52] }]));
    assert.deepEqual(await references(feeds), [expected([40, 41]), expected([50, 51, 52])]);
    assert.deepEqual(server.requests().filter(({ path }) => path === '/v1/completions').map(({ body }) => (body as { prompt: number[] }).prompt).toSorted((a, b) => a.length - b.length), [[...PROMPT, 40, 41], [...PROMPT, 50, 51, 52]]); // prettier-ignore
    const known = bytes(feeds);
    server.clearRequests();
    const again = await rebuilt(feeds, { upstreams });
    assert.deepEqual(await references(again), [expected([40, 41]), expected([50, 51, 52])]);
    await again.until('f', ({ view }) => view.caughtUp);
    assert.equal(bytes(again), known);
    assert.equal(server.requests().length, 0);
  });

  test('SGLang scores too', async () => {
    const server = await engine({ kind: 'sglang' });
    const feeds = await start({ upstreams: [upstream('big', server, { kind: 'sglang' })] });
    await feeds.directory.create(NAME, { ...SPEC, others: OPD });
    await feeds.append(group('g', [{}, {}]));
    const values = await references(feeds);
    assert.ok(values.flat().length === 6 && values.flat().every((value) => value < 0), String(values));
  });

  test('opsd: the policy reads the demonstration first; another template is another teacher; who has none ships nothing', async () => {
    const server = await engine();
    const feeds = await start({ upstreams: [upstream('policy-server', server)] });
    const opsd = (params: object = {}) => ({ ...SPEC, others: { score: { algorithm: 'opsd', params } } });
    await feeds.directory.create(NAME, opsd());
    await feeds.append(group('g', [{ demonstration: 'do $& this' }, {}]));
    const tokenize = (await server.ended(({ path }) => path === '/tokenize')).body as { messages: { role: string; content: string }[]; add_generation_prompt: boolean };
    assert.deepEqual([tokenize.messages.map(({ role }) => role), tokenize.add_generation_prompt], [['system'], false]);
    assert.match(tokenize.messages[0]?.content ?? '', /<demonstration>\ndo \$& this\n<\/demonstration>/);
    const asked = (await server.ended(({ path }) => path === '/v1/completions')).body as { prompt: number[] };
    const hint = asked.prompt.slice(0, -7);
    assert.ok(hint.length > 10);
    assert.deepEqual(await references(feeds), [expected([40, 41, 42], hint)]);
    await feeds.directory.create({ ...NAME, feed: 'other' }, opsd({ template: 'See {demonstration}' }));
    assert.equal((await references(feeds, 'other')).length, 1);
    assert.equal(server.requests().filter(({ path }) => path === '/tokenize').length, 2);
  }); // prettier-ignore

  test('envs have teachers of their own', async () => {
    const [one, two] = [await engine(), await engine()];
    const feeds = await start({ upstreams: [upstream('big', one), upstream('bigger', two)] });
    const other = { score: { algorithm: 'opd', params: { teacher: 'bigger' } } };
    await feeds.directory.create(NAME, { ...SPEC, batch: { by: 'groups', size: 2 }, envs: { toy: OPD, other } });
    await feeds.append([...group('g', [{ ids: [1, 2] }]), ...group('h', [{ ids: [3], env: 'other' }])]);
    assert.deepEqual(await references(feeds), [expected([1, 2]), expected([3])]);
    const asked = (server: FakeEngine) => server.requests().filter(({ path }) => path === '/v1/completions').length;
    assert.deepEqual([asked(one), asked(two)], [1, 1]);
  });

  test('a teacher elsewhere may record scores itself; without them the deadline decides', async () => {
    const scored = group('g', [{ ids: [1] }, { ids: [2] }]).flatMap((each) =>
      each.type === 'rollout.ended'
        ? [each, event('reference.scored', { run: 'r', group: 'g', rollout: each.rollout as string, trace: `t-${each.rollout}` }, each.time + 1, { node: 1, source: 'big', logprobs: f32([-2]) })]
        : [each],
    ); // prettier-ignore
    const feeds = await start({});
    await feeds.append(scored);
    await feeds.directory.create(NAME, { ...SPEC, others: OPD });
    assert.deepEqual(await references(feeds), [[-2], [-2]]);
  });

  for (const [what, unscored, outcome] of [
    ['fail', 'fail', { reference_late: 1 }],
    ['exclude: no row has scores', 'exclude', { missing_reference: 1 }],
  ] as const) {
    test(`a teacher that does not answer in time: ${what}`, async () => {
      const feeds = await start({ upstreams: [upstream('big', { url: 'http://127.0.0.1:9' }, { models: ['toy'] })] });
      await feeds.directory.create(NAME, { ...SPEC, group: { scoringDeadlineSeconds: 0.2, unscored }, others: OPD, runs: ['r'] });
      await feeds.append([...group('g', [{}, {}]), event('run.ended', { run: 'r' }, T0 + 9999, { status: 'completed' })]);
      assert.deepEqual(await failedGroups(feeds), outcome);
    });
  }

  for (const [what, reason, options, more] of [
    ['another tokenizer', 'tokenizer_mismatch', {}, { tokenizerHash: 'another' }],
    ['a provider that scores nothing', 'teacher_cannot_score', {}, { kind: 'openai' }],
    ['an answer without values', 'teacher_gives_no_logprobs', { kind: 'sglang' }, { kind: 'openai-compatible' }],
    [
      'a context that is too short',
      'upstream_refused',
      { models: [{ id: 'toy', maxModelLen: 4, thinks: false, earlierReasoning: 'keep' }] },
      {},
    ],
  ] as const satisfies readonly (readonly [string, string, FakeEngineOptions, Partial<ScoringUpstream>])[]) {
    test(`${what} fails the group by name`, async () => {
      const server = await engine(options);
      const feeds = await start({ upstreams: [upstream('big', server, { models: ['toy'], ...more })] });
      await feeds.directory.create(NAME, { ...SPEC, group: { unscored: 'fail' }, others: OPD });
      await feeds.append(group('g', [{}, {}]));
      assert.deepEqual(await failedGroups(feeds), { [reason]: 1 });
      assert.match(feeds.troubles.map(String).join(), new RegExp(reason));
    });
  }
});
