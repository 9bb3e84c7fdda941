/** The same lesson with the trainer in Python: TypeScript plays, `train.py` trains on the feed and publishes weights as files. On the same batch its gradients are those of the trainer in TypeScript. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { systemClock } from '../../base/clock.ts';
import { seededRandom, systemRandom } from '../../base/random.ts';
import { batchGradient } from '../../examples/learning/gradient.ts';
import { learn } from '../../examples/learning/learn.ts';
import { dppoKl } from '../../examples/learning/loss.ts';
import { WEIGHTS } from '../../examples/learning/policy.ts';
import { readSlice } from '../../trainer-feed/planner/read-slice.ts';
import { caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { findTorchPython } from '../torch-python.ts';

const found = await findTorchPython({ packages: ['pyarrow==21.0.0'] });
const skip = 'missing' in found ? found.missing : false;
const ROOT = join(import.meta.dirname, '../..');
const RUN = 'python-trainer';
const LESSON_MS = 400_000;
const CONTROL_STEPS = 40;

function pythonWith(): { readonly python: string; readonly env: NodeJS.ProcessEnv } {
  if ('missing' in found) throw new Error(found.missing);
  const path = [join(ROOT, 'examples/learning'), join(ROOT, 'trainer-feed/python/src'), found.path].filter((each) => each !== '');
  return { python: found.python, env: { ...process.env, PYTHONPATH: path.join(':'), PYTHONDONTWRITEBYTECODE: '1' } };
}

function doublesIn(path: string): Float64Array {
  return new Float64Array(Uint8Array.from(readFileSync(path)).buffer);
}

describe('the trainer in Python', { skip }, () => {
  const folder = temporaryFolder('python-learning');
  const weights = join(folder.path, 'weights');
  let server: TestServer;

  before(async () => {
    if (skip !== false) return;
    server = await startServer({ TAPEDECK_DATA: join(folder.path, 'data') }, { listenMs: 120_000 });
    await server.ready(180_000);
  });
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  /** Plays until the goal or `maxSteps`, while train.py trains. */
  async function attend(run: string, options: readonly string[], maxSteps: number): Promise<Awaited<ReturnType<typeof learn>>> {
    const { python, env } = pythonWith();
    const at = join(weights, run);
    const child = spawn(
      python,
      [join(ROOT, 'examples/learning/train.py'), '--url', server.url, '--run', run, '--weights', at, ...options],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: LESSON_MS,
        killSignal: 'SIGKILL',
        env,
      },
    );
    const said = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit') as Promise<[number | null]>]);
    const broken = new AbortController();
    child.once('exit', (code) => void (code !== 0 && broken.abort(new Error('the trainer ended'))));
    const lesson = await learn(
      { url: server.url, run, seed: 1, maxSteps, maxRollouts: 12_000, goal: 0.75, shuffled: false, weights: at, pace: async () => {}, signal: broken.signal, isFinal: () => true },
      { clock: systemClock, random: systemRandom },
    ); // prettier-ignore
    const [printed, complaints, [code]] = await said;
    assert.equal(code, 0, `${printed}${complaints}`);
    return lesson;
  }

  test('the policy learns from it', { timeout: LESSON_MS + 60_000 }, async () => {
    const lesson = await attend(RUN, [], 150);
    assert.ok(lesson.learnt, `after ${lesson.standing.policy.version} steps: ${JSON.stringify([...lesson.lately])}`);
    await caughtUp(server.url);
    const [curve] = await sql<{ first: number; steps: string; files: string }>(
      server.url,
      `SELECT (SELECT avg(reward) FROM rollouts WHERE run = '${RUN}' AND policy_version_min <= 1) AS first,
              (SELECT count() FROM trainer_steps WHERE run = '${RUN}') AS steps,
              (SELECT countIf(endsWith(uri, concat('policy-', toString(version), '.f64'))) FROM policies WHERE run = '${RUN}') AS files`,
    );
    assert.ok((curve?.first as number) < 0.3);
    assert.ok(Number(curve?.steps) >= lesson.standing.policy.version);
    assert.equal(Number(curve?.files), Number(curve?.steps) + 1);
  });

  test('with the advantages of other rows it learns nothing', { timeout: LESSON_MS + 60_000 }, async () => {
    const control = await attend('python-control', ['--shuffled'], CONTROL_STEPS);
    assert.ok(control.standing.policy.version >= CONTROL_STEPS, `only ${control.standing.policy.version} steps`);
    const mean = [...control.lately.values()].reduce((a, b) => a + b, 0) / control.lately.size;
    assert.ok(mean < 0.4, `its mean reward is ${mean}: ${JSON.stringify([...control.lately])}`);
  });

  test('on the same batch all three trainers have the same gradient', async () => {
    const { python, env } = pythonWith();
    const random = seededRandom(3);
    for (const n of [1, 3, 20]) {
      const answer = await fetch(`${server.url}/v1/feeds/${RUN}/batches/${n}?rank=0&world=1&maxTokens=4096&wait=30`);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      assert.equal(answer.status, 200);
      const manifest = (await (await fetch(`${server.url}/v1/feeds/${RUN}/batches/${n}/manifest`)).json()) as { counts: { N_rl: number } };
      // weights of the run, which the importance ratio is near 1 for, and some that are far away
      const own = doublesIn(join(weights, RUN, `policy-${n - 1}.f64`));
      for (const [name, of] of Object.entries({ own, far: own.map((weight) => weight + 0.3 * (random.next() - 0.5)) })) {
        const [slice, file, out] = ['slice', 'weights.f64', 'gradient'].map((each) => join(folder.path, each)) as [string, string, string];
        writeFileSync(slice, bytes);
        writeFileSync(file, new Uint8Array(of.buffer));
        const { stdout } = await promisify(execFile)(python, [join(import.meta.dirname, 'python/gradient_of_slice.py'), slice, file, out], {
          env,
          timeout: 120_000,
        });
        const losses = JSON.parse(stdout) as { numpy: number; torch: number };
        const microBatches = readSlice(bytes);
        const ours = batchGradient(of, microBatches, microBatches.map((each) => each.advantages()), manifest.counts.N_rl, dppoKl); // prettier-ignore
        assert.ok(ours.metrics.grad_norm > 1e-3);
        for (const engine of ['numpy', 'torch'] as const) {
          const theirs = doublesIn(`${out}.${engine}`);
          assert.equal(theirs.length, WEIGHTS);
          const furthest = theirs.reduce((most, g, i) => Math.max(most, Math.abs(g - (ours.gradient[i] as number))), 0);
          assert.ok(furthest < 1e-6, `batch ${n}, ${name} weights, ${engine}: differs by ${furthest}`);
          assert.ok(
            Math.abs(losses[engine] - ours.metrics.loss) < 1e-6,
            `batch ${n}, ${name} weights, ${engine}: loss ${losses[engine]}, ours ${ours.metrics.loss}`,
          );
        }
      }
    }
  });
});
