/** `tapedeck feed export prime-rl` beside prime-rl's own DataLoader: every tensor of every rank and step is what the feed serves. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { event, T0, world } from '../../trainer-feed/feed/feed-world.ts';
import { readSlice, type ReadMicroBatch } from '../../trainer-feed/planner/read-slice.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { findTorchPython } from '../torch-python.ts';

const PRIME = join(import.meta.dirname, '../../../shared/peers/src/prime-rl');
const found = await findTorchPython({ packages: ['msgspec==0.19.0', 'pyzmq==27.3.0', 'jaxtyping==0.2.36', 'loguru==0.7.3', 'prime-pydantic-config==0.4.3'] }); // prettier-ignore
const skip = 'missing' in found ? found.missing : existsSync(PRIME) ? false : 'the source of prime-rl (../shared/peers/src) is not here';
const run = promisify(execFile);
const RANKS = 2;
const STEPS = 2;

type Tensors = Readonly<Record<string, readonly (number | string | boolean)[] | null>>;

describe('an exported feed', () => {
  const folder = temporaryFolder('prime-rl');
  const out = join(folder.path, 'run');
  let server: TestServer;

  const tapedeck = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
    run(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../../cli/main.ts'), ...args, '--url', server.url], { timeout: 120_000 }); // prettier-ignore

  before(async () => {
    if (skip !== false) return;
    server = await startServer({ TAPEDECK_DATA: join(folder.path, 'data'), TAPEDECK_LOG_LEVEL: 'warn' });
    await server.ready();
    const spec = { runs: ['run-1'], batch: { by: 'groups', size: 3 }, maxRowTokens: 64, cutAhead: 4, staleness: { maxOffPolicySteps: null }, flush: false };
    const made = await fetch(`${server.url}/v1/feeds`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ feed: 'f', spec }) });
    assert.equal(made.status, 201, await made.text());
    const events = [...world({ seed: 7, groups: 7, size: 4, partitions: 4 }).flat(), event('run.ended', { run: 'run-1' }, T0 + 10_000_000, { status: 'completed' })];
    const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body: Buffer.concat(events.map((each) => encodeEvent(each))) });
    assert.equal(posted.status, 200, await posted.text());
  }); // prettier-ignore
  after(async () => {
    await server?.stop();
    folder.remove();
  });

  test("prime-rl's DataLoader reads the tensors that the feed serves", { skip, timeout: 240_000 }, async () => {
    if ('missing' in found) return;
    const args = [
      'feed',
      'export',
      'prime-rl',
      'f',
      '--out',
      out,
      '--ranks',
      String(RANKS),
      '--max-tokens',
      '64',
      '--pad-to-multiple',
      '8',
    ];
    const exported = JSON.parse((await tapedeck(...args, '--to', '5', '--json')).stdout) as object;
    assert.deepEqual({ ...exported, bytes: 0 }, { steps: STEPS, files: STEPS * RANKS, bytes: 0, ended: true });
    assert.deepEqual(readdirSync(join(out, 'rollouts')).toSorted(), ['step_1', 'step_2']);
    assert.deepEqual(readdirSync(join(out, 'rollouts/step_1')).toSorted(), ['rank_0.bin', 'rank_1.bin'], 'nothing half-written stays');
    const script = join(import.meta.dirname, 'load_prime_rl.py');
    const { stdout } = await run(found.python, [script, PRIME, out, '1', String(STEPS), String(RANKS)], {
      timeout: 200_000,
      maxBuffer: 1 << 28,
      env: { ...process.env, PYTHONPATH: found.path, PYTHONDONTWRITEBYTECODE: '1' },
    });
    const read = JSON.parse(stdout) as Tensors[][][];
    let trained = 0;
    for (const [rank, steps] of read.entries()) {
      for (const [k, microBatches] of steps.entries()) {
        const answer = await fetch(`${server.url}/v1/feeds/f/batches/${k + 1}?rank=${rank}&world=${RANKS}&maxTokens=64&padToMultiple=8`);
        const served = readSlice(new Uint8Array(await answer.arrayBuffer()));
        assert.equal(microBatches.length, served.length);
        for (const [i, tensors] of microBatches.entries()) {
          compare(tensors, served[i] as ReadMicroBatch);
          trained += (tensors['loss_mask'] ?? []).filter((bit) => bit === true).length;
        }
      }
    }
    assert.ok(trained > 100, 'nothing was compared');
  });

  test('again it is the same bytes; a part of it is that part; what is wrong is said', { skip, timeout: 120_000 }, async () => {
    const path = join(out, 'rollouts/step_2/rank_1.bin');
    const before = readFileSync(path);
    const { mtimeMs } = statSync(join(out, 'rollouts/step_1/rank_1.bin'));
    const args = [
      'feed',
      'export',
      'prime-rl',
      'f',
      '--out',
      out,
      '--ranks',
      String(RANKS),
      '--max-tokens',
      '64',
      '--pad-to-multiple',
      '8',
    ];
    assert.match((await tapedeck(...args, '--from', '2', '--to', '2')).stdout, /^1 steps in 2 files, \d+ bytes, below /);
    assert.deepEqual(readFileSync(path), before);
    assert.equal(statSync(join(out, 'rollouts/step_1/rank_1.bin')).mtimeMs, mtimeMs);
    const refused = async (pattern: RegExp, ...more: string[]): Promise<void> => {
      await assert.rejects(tapedeck('feed', 'export', 'prime-rl', ...more), (error: { stderr: string }) => {
        assert.match(error.stderr, pattern);
        return true;
      });
    };
    await refused(/maxTokens is missing/, 'f', '--out', out, '--to', '1');
    await refused(/maxTokens of at least \d+/, 'f', '--out', out, '--to', '1', '--max-tokens', '2');
    await refused(/there is no feed g/, 'g', '--out', out);
    await refused(/0 must be a whole number, at least 1/, 'f', '--out', out, '--ranks', '0');
  });
});

/** A finite float32 as Python's `float.hex` writes it. */
function hex(value: number): string {
  if (value === 0) return Object.is(value, -0) ? '-0x0.0p+0' : '0x0.0p+0';
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, Math.abs(value));
  const high = bits.getUint32(0);
  const exponent = (high >>> 20) - 1023;
  const fraction = (high & 0xf_ffff).toString(16).padStart(5, '0') + bits.getUint32(4).toString(16).padStart(8, '0');
  return `${value < 0 ? '-' : ''}0x1.${fraction}p${exponent < 0 ? '-' : '+'}${Math.abs(exponent)}`;
}

/** Padding differs by convention only: prime-rl's has id 1 and temperature 1 and lengthens the last sequence. */
function compare(tensors: Tensors, served: ReadMicroBatch): void {
  const tokens = served.offsets.at(-1) as number;
  const real = tokens - served.padding;
  const head = (name: string): readonly unknown[] => (tensors[name] as readonly unknown[]).slice(0, real);
  const stream = (name: string): number[] => Array.from(served.stream(name) ?? []).slice(0, real);
  assert.equal(tensors['input_ids']?.length, tokens);
  assert.deepEqual(head('input_ids'), stream('token_ids'));
  assert.deepEqual(head('loss_mask'), stream('loss_mask').map(Boolean)); // prettier-ignore
  assert.ok((tensors['loss_mask'] as readonly boolean[]).slice(real).every((bit) => !bit));
  assert.deepEqual(head('inference_logprobs'), stream('logprobs').map(hex)); // prettier-ignore
  assert.deepEqual(head('advantages'), Array.from(served.advantages().subarray(0, real), hex));
  assert.deepEqual(head('temperatures'), Array.from(served.temperatures().subarray(0, real), hex));
  assert.deepEqual(tensors['seq_lens'], tensors['sequence_lengths']);
  assert.equal((tensors['seq_lens'] as readonly number[]).reduce((a, b) => a + b, 0), tokens); // prettier-ignore
  const starts = new Set([...served.offsets.subarray(0, -1)].filter((offset) => offset < real));
  assert.deepEqual(head('position_ids').map((p) => p === 0), Array.from({ length: real }, (_, i) => starts.has(i))); // prettier-ignore
  for (const name of ['rl_weights', 'ce_weights', 'ref_kl_weights', 'ref_logprobs'])
    assert.deepEqual(tensors[name] === null ? null : head(name), served.stream(name) === null ? null : stream(name).map(hex));
}
