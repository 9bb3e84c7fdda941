/** The Python client: its losses by value, and what it reads of slices beside the rows they were made of, bit for bit. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findTorchPython } from '../../e2e/torch-python.ts';
import type { Row } from '../cut/row.ts';
import { planBatch } from '../planner/plan.ts';
import { planIdOf, planRequest } from '../planner/plan-request.ts';
import { rowOf } from '../planner/rows.arbitrary.ts';
import { prepareSlices } from '../planner/slices.ts';
import { chain, changed } from '../verify/chain-under-test.ts';
import { verifyChain } from '../verify/verify-chain.ts';

const found = await findTorchPython({
  packages: ['pyarrow==21.0.0'],
  unpack: ['tensorboard==2.20.0', 'protobuf==5.29.5', 'absl-py==2.3.1', 'packaging==25.0'],
});
// tensordict: the newest for the torch of Debian, and without a compiled part
const wheels = await findTorchPython({ unpack: ['verl==0.9.1', 'trl==1.16.0', 'tensordict==0.1.2'] });
const skip = 'missing' in found ? found.missing : false;
const HERE = import.meta.dirname;
const PRIME = join(HERE, '../../../shared/peers/src/prime-rl');

async function python(args: readonly string[], input = ''): Promise<{ stdout: string; stderr: string }> {
  if ('missing' in found) throw new Error(found.missing);
  const running = promisify(execFile)(found.python, [...args], {
    cwd: HERE,
    timeout: 240_000,
    maxBuffer: 1 << 28,
    env: {
      ...process.env,
      PYTHONPATH: [join(HERE, 'src'), found.path, 'missing' in wheels ? '' : wheels.path].filter((path) => path !== '').join(':'),
      PYTHONDONTWRITEBYTECODE: '1',
      ...(existsSync(PRIME) ? { TAPEDECK_PRIME_RL: PRIME } : {}),
      ...('missing' in wheels ? {} : { TAPEDECK_WHEELS: wheels.path }),
    },
  });
  running.child.stdin?.end(input);
  return running;
}

test('losses by value, adapters to verl and TRL by their own reductions, sinks as TensorBoard reads them', { skip }, async () => {
  const { stderr } = await python(['-m', 'unittest', 'discover', '-s', 'tests', '-p', 'test_*.py']);
  // skipped only where the source of prime-rl or the wheels are not at hand
  const skipped = Number(/\nOK(?: \(skipped=(\d+)\))?\n$/.exec(stderr)?.[1] ?? 0);
  assert.match(stderr, /\nOK( \(skipped=\d+\))?\n$/);
  assert.ok(skipped <= (existsSync(PRIME) ? 0 : 1) + ('missing' in wheels ? 3 : 0), stderr);
});

type Read = {
  readonly rank: number;
  readonly n_rl: number;
  readonly micro_batches: readonly {
    readonly rows: readonly string[];
    readonly padding: readonly boolean[];
    readonly offsets: readonly number[];
    readonly streams: Readonly<Record<string, readonly (number | string)[]>>;
  }[];
};

/** A double as Python's `float.hex` writes it is read back exactly. */
function fromHex(text: number | string): number {
  if (typeof text === 'number') return text;
  const parts = /^(-?)0x([01])\.([0-9a-f]*)p([+-]\d+)$/.exec(text);
  if (parts === null) return text.endsWith('inf') ? (text.startsWith('-') ? -Infinity : Infinity) : NaN;
  const [, sign, whole, fraction, exponent] = parts as unknown as [string, string, string, string, string];
  const value = (Number(whole) + Number.parseInt(fraction || '0', 16) / 16 ** fraction.length) * 2 ** Number(exponent);
  return sign === '-' ? -value : value;
}

async function readBack(rows: readonly Row[], request: object): Promise<Read[]> {
  const plan = planBatch('b', rows, planRequest.parse(request));
  assert.ok(plan.ok);
  const header = {
    feed: 'f',
    timeline: 2,
    n: 5,
    batchId: 'b',
    algorithm: 'grpo',
    policyVersion: null,
    counts: { nRl: 7, nCe: 1, nRefKl: 1 },
  };
  const folder = await mkdtemp(join(tmpdir(), 'tapedeck-slices-'));
  try {
    const names: string[] = [];
    for (const { rank, bytes, sha256 } of prepareSlices(header, rows, plan.value)) {
      const path = join(folder, `${rank}.arrow`);
      await writeFile(path, bytes);
      names.push(`${path}=${sha256}`);
    }
    return JSON.parse((await python(['tests/print_slices.py', ...names])).stdout) as Read[];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

test('every row comes back from the slices of three ranks, bit for bit', { skip }, async () => {
  const weights = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => i / 3);
  const rows = Array.from({ length: 23 }, (_, i) => {
    const length = 1 + ((i * 37) % 50);
    return rowOf(i, length, i === 4 ? { ceWeights: weights(length), temperature: weights(length) } : {});
  });
  const slices = await readBack(rows, { world: 3, maxTokens: 128, padToMultiple: 16 });
  const seen = new Set<string>();
  for (const { micro_batches: microBatches, n_rl: nRl } of slices) {
    assert.equal(nRl, 7);
    for (const { rows: ids, padding, offsets, streams } of microBatches) {
      assert.equal((offsets.at(-1) as number) % 16, 0);
      for (const [i, id] of ids.entries()) {
        const cut = (name: string): number[] => (streams[name] ?? []).slice(offsets[i], offsets[i + 1]).map(fromHex);
        if (padding[i] === true) {
          assert.ok(cut('loss_mask').every((value) => value === 0));
          continue;
        }
        seen.add(id);
        const row = rows.find(({ rowId }) => rowId === id) as Row;
        assert.deepEqual(cut('token_ids'), Array.from(row.tokenIds));
        assert.deepEqual(cut('loss_mask'), Array.from(row.lossMask));
        assert.deepEqual(cut('logprobs'), Array.from(row.logprobs));
        assert.deepEqual(cut('position_ids'), Array.from(row.tokenIds, (_, k) => k)); // prettier-ignore
        assert.deepEqual(
          cut('advantages'),
          Array.from(row.lossMask, (m) => (m === 1 ? Math.fround(row.advantage as number) : 0)),
        );
        assert.deepEqual(cut('ce_weights'), Array.from(row.ceWeights ?? new Float32Array(row.seqLen)));
        const { temperature } = row;
        const expected = typeof temperature === 'number' ? new Float32Array(row.seqLen).fill(temperature) : temperature;
        assert.deepEqual(cut('temperatures'), Array.from(expected as Float32Array));
      }
    }
  }
  assert.equal(seen.size, rows.length);
});

test('a slice whose bytes are not the announced ones is refused by name', { skip }, async () => {
  const script =
    "import tapedeck_feed as t\ntry: t.verify_digest(b'x', '00')\nexcept t.CorruptSlice as e: print(e.code)\ntry: t.read_slice(b'no arrow')\nexcept t.CorruptSlice as e: print(e.code)";
  assert.equal((await python(['-c', script])).stdout, 'digest_mismatch\ninvalid_arrow\n');
});

test('the ids of plans, and every flaw of a chain, are those that the server’s own code finds', { skip }, async () => {
  const other = 'ab'.repeat(32);
  const [first, second, third] = chain();
  const listed = first?.['rows'] as unknown[];
  const paths = [
    'rows.0.contentHash', 'rows.0.signalHash', 'specHash', 'batchId', 'previousId', 'rows.0.rowId', 'excluded.0.reason', 'excluded.0.message', 'feed', 'rows.0.group',
  ]; // prettier-ignore
  const chains: (readonly unknown[])[] = [
    chain(), chain().slice(1), [], [first, third], [first, { ...second, rows: listed, groups: first?.['groups'] }, third],
    [{ ...first, rows: [...listed, listed[0]] }],
    ...[1, 2, 3].flatMap((n) => paths.map((path) => changed(n, path, other))),
    ...([['excluded', []], ['sourcePositions', [[0, 1]]], ['policyVersion', 9], ['policyVersion', null], ['counts.N_rl', 99], ['counts.rows', 0], ['rows.0.members.rl', 99], ['rows.0.seqLen', 99], ['groups', ['h2', 'g2']], ['feed', 'Überfluß 🜁'], ['excluded.0.staleness', -3], ['rows.0.rowId', 'r/ö/1']] as const).map(([path, value]) => changed(2, path, value)),
  ]; // prettier-ignore
  const unreadable = [[{ n: 1 }], [null], [7], ...['batchId', 'specHash', 'rows', 'counts', 'sourcePositions', 'rows.0.contentHash'].map((path) => changed(2, path, 'no'))]; // prettier-ignore
  const requests = [
    {}, { padToMultiple: 64 }, { cost: { linear: 0.1, quadratic: 0 } }, { cost: { linear: 1e21, quadratic: 1e-7 } }, { cost: { linear: 123456789012345680000, quadratic: 1.5e300 } },
    { cost: { linear: 0.000001, quadratic: 5e-324 } }, { cost: { linear: 1 / 3, quadratic: 1.25e-9 } }, { cost: { linear: 1e-10, quadratic: 2 ** 53 } }, { cost: { linear: 100.5, quadratic: 1.7976931348623157e308 } },
  ].map((more, i) => planRequest.parse({ world: i + 1, maxTokens: 4096 * (i + 1), ...more })); // prettier-ignore
  const plans = requests.map(({ world, maxTokens, padToMultiple, cost }) => [
    other,
    world,
    maxTokens,
    padToMultiple,
    cost.linear,
    cost.quadratic,
  ]);
  const asked = { chains: [...chains, ...unreadable], max_times_trained: 1, plans };
  const said = JSON.parse((await python(['tests/print_flaws.py'], JSON.stringify(asked))).stdout) as {
    chains: unknown[][][];
    plans: string[];
  };
  assert.deepEqual(said.plans, requests.map((request) => planIdOf(other, request))); // prettier-ignore
  for (const [i, manifests] of chains.entries()) {
    assert.deepEqual(said.chains[i], verifyChain(manifests).map(({ n, flaw, message }) => [n, flaw, message]), `chain ${i}`); // prettier-ignore
  }
  // each side has its own words for what it cannot read
  for (const [i, manifests] of unreadable.entries()) {
    const expected = verifyChain(manifests).map(({ n, flaw }) => [n, flaw]);
    assert.deepEqual(said.chains[chains.length + i]?.map((flaw) => flaw.slice(0, 2)), expected, `unreadable ${i}`); // prettier-ignore
  }
});
