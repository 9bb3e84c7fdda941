/**
 * A tiny policy learns through a real server: it plays, is recorded, and trains on what a feed cuts from the record, asynchronously. With the advantages of others it learns nothing. What it
 * trained on is in SQL, down to log-probabilities that its own weights of that version give bit for bit.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { learn, MAX_OFF_POLICY_STEPS, RECENT_GROUPS, type Lesson, type LessonOptions } from '../../examples/learning/learn.ts';
import { firstWeights, logProbabilities } from '../../examples/learning/policy.ts';
import { VOCABULARY_SIZE } from '../../examples/learning/vocabulary.ts';
import { audit, caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

const LESSON_MS = 400_000;
const GOAL = 0.85;
const CONTROL_STEPS = 40;

describe('a policy that learns', () => {
  const folder = temporaryFolder('learning');
  let server: TestServer;
  const weights = new Map<number, Float64Array>([[0, firstWeights()]]);
  let steps = 0;

  const attend = (
    run: string,
    more: { shuffled: boolean; maxSteps: number; onStep?: NonNullable<LessonOptions['onStep']> },
  ): Promise<Lesson> =>
    learn(
      {
        url: server.url,
        run,
        seed: 1,
        maxRollouts: 12_000,
        goal: GOAL,
        weights: null,
        pace: async () => {},
        signal: AbortSignal.timeout(LESSON_MS),
        isFinal: () => true,
        ...more,
      },
      { clock: systemClock, random: systemRandom },
    );

  before(async () => {
    server = await startServer({ TAPEDECK_DATA: folder.path }, { listenMs: 120_000 });
    await server.ready(180_000);
  });
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  test('its reward rises from near chance to more than 0.8 in every environment', { timeout: LESSON_MS + 60_000 }, async () => {
    const onStep = ({ policy }: { policy: { version: number; weights: Float64Array } }): void =>
      void weights.set(policy.version, policy.weights);
    const lesson = await attend('learning', { shuffled: false, maxSteps: 200, onStep });
    steps = lesson.standing.policy.version;
    assert.ok(lesson.learnt, `after ${steps} steps: ${JSON.stringify([...lesson.lately])}`);
    await caughtUp(server.url);
    const first = await sql<{ env: string; reward: number }>(
      server.url,
      "SELECT env, avg(rollouts.reward) AS reward FROM rollouts WHERE run = 'learning' AND policy_version_min <= 1 GROUP BY env ORDER BY env",
    );
    assert.deepEqual(first.map(({ env }) => env), ['copy', 'guess', 'sum']); // prettier-ignore
    for (const { env, reward } of first) assert.ok(reward < 0.3, `${env} begins at ${reward}`);
    // the very groups the lesson ended by: how many versions they span depends on the speed of the machine
    const last = await sql<{ env: string; reward: number }>(
      server.url,
      `SELECT env, avg(mean) AS reward FROM
         (SELECT env, \`group\`, avg(rollouts.reward) AS mean FROM rollouts WHERE run = 'learning' GROUP BY env, \`group\`
          ORDER BY toUInt32(splitByChar('/', \`group\`)[-1]) DESC LIMIT ${RECENT_GROUPS} BY env)
       GROUP BY env ORDER BY env`,
    );
    for (const { env, reward } of last) {
      assert.ok(reward > 0.8, `${env} ends at ${reward}`);
      assert.ok(
        Math.abs(reward - (lesson.lately.get(env) ?? NaN)) < 1e-9,
        `${env}: ${reward} is recorded, ${lesson.lately.get(env)} was played`,
      );
    }
  });

  test('with the advantages of other rows it learns nothing', { timeout: LESSON_MS + 60_000 }, async () => {
    const control = await attend('control', { shuffled: true, maxSteps: CONTROL_STEPS });
    assert.ok(control.standing.policy.version >= CONTROL_STEPS, `only ${control.standing.policy.version} steps`);
    const mean = [...control.lately.values()].reduce((a, b) => a + b, 0) / control.lately.size;
    assert.ok(mean < 0.4, `its mean reward is ${mean}: ${JSON.stringify([...control.lately])}`);
  });

  test('every step trained one batch, every row is in one batch, none without a commit', async () => {
    await caughtUp(server.url);
    const stepped = await sql<{ step: string }>(server.url, "SELECT step FROM trainer_steps WHERE feed = 'learning' ORDER BY step");
    assert.deepEqual(stepped.map(({ step }) => Number(step)), Array.from({ length: steps }, (_, i) => i + 1)); // prettier-ignore
    const [rows] = await sql<Record<'rows' | 'different' | 'trained' | 'batches', string>>(
      server.url,
      `SELECT count() AS rows, uniqExact(row_id) AS different, countIf(step IS NOT NULL AND NOT abandoned) AS trained, uniqExact(n) AS batches
       FROM batch_rows WHERE feed = 'learning'`,
    );
    const numbers = Object.fromEntries(Object.entries(rows ?? {}).map(([name, text]) => [name, Number(text)]));
    assert.deepEqual(numbers, { rows: numbers['rows'], different: numbers['rows'], trained: numbers['rows'], batches: steps });
    const policies = await sql<{ version: string }>(server.url, "SELECT version FROM policies WHERE run = 'learning' ORDER BY version");
    assert.deepEqual(policies.map(({ version }) => Number(version)), Array.from({ length: steps + 1 }, (_, i) => i)); // prettier-ignore
  });

  test('the player was ahead of the trainer, but never further than it may be', async () => {
    const ages = await sql<{ staleness: string; rows: string }>(
      server.url,
      "SELECT staleness, count() AS rows FROM batch_rows WHERE feed = 'learning' GROUP BY staleness ORDER BY staleness",
    );
    const oldest = Math.max(...ages.map(({ staleness }) => Number(staleness)));
    assert.ok(oldest > 0 && oldest <= MAX_OFF_POLICY_STEPS, JSON.stringify(ages));
  });

  test('SQL leads from a step to its tokens, and their log-probabilities are those of the weights that sampled them', async () => {
    type Row = {
      step: string;
      row_id: string;
      seq_len: string;
      trained: string;
      staleness: string;
      ids: number[];
      mask: number[];
      logprobs: number[];
      version: string;
    };
    const rows = await sql<Row>(
      server.url,
      `SELECT r.step AS step, r.row_id AS row_id, r.seq_len AS seq_len, r.trained AS trained, r.staleness AS staleness, max(n.policy_version) AS version,
              arrayFlatten(arrayMap(x -> x.2, arraySort(x -> x.1, groupArray((n.index, n.token_ids))))) AS ids,
              arrayFlatten(arrayMap(x -> x.2, arraySort(x -> x.1, groupArray((n.index, n.mask))))) AS mask,
              arrayFlatten(arrayMap(x -> x.2, arraySort(x -> x.1, groupArray((n.index, n.logprobs))))) AS logprobs
       FROM batch_rows AS r JOIN nodes AS n ON r.run = n.run AND r.rollout = n.rollout AND r.trace = n.trace
       WHERE r.feed = 'learning' AND r.step % 9 = 1 GROUP BY step, row_id, seq_len, trained, staleness`,
    );
    assert.ok(rows.length > 100, `${rows.length} rows`);
    const logps = new Float64Array(VOCABULARY_SIZE);
    for (const { step, row_id: id, ids, mask, logprobs, ...row } of rows) {
      const version = Number(row.version);
      assert.equal(Number(row.staleness), Number(step) - 1 - version, id);
      const sampled = [...mask.keys()].filter((at) => mask[at] === 1);
      assert.deepEqual([ids.length, sampled.length], [Number(row.seq_len), Number(row.trained)], id);
      const own = sampled.map(
        (at) => logProbabilities(weights.get(version) as Float64Array, { ids, first: 0, at }, logps)[ids[at] as number] as number,
      );
      assert.deepEqual(logprobs.map(Math.fround), own.map(Math.fround), id);
    }
  });

  test('the questions of docs/learning.md have answers', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../docs/learning.md'), 'utf8');
    const questions = [...page.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, question = '']) => question);
    assert.equal(questions.length, 3);
    for (const question of questions) assert.ok((await sql(server.url, question)).length > 0, question);
  });

  test('the audit passes', async () => {
    await caughtUp(server.url);
    const { ok, problems } = await audit(server.url);
    assert.deepEqual([ok, problems], [true, []]);
  });
});
