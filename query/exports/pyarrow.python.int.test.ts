/** Parquet and Arrow exports read by pyarrow, value by value. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findPython } from '../../e2e/python.ts';
import { readListRequest } from '../lists/list-request.ts';
import { RESOURCES } from '../lists/resources.ts';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld } from '../log-for-tests.ts';
import { rowsFormats } from './rows-format.ts';

const found = await findPython({ packages: ['pyarrow==26.0.1'], imports: ['pyarrow.parquet'] });
const skip = 'python' in found ? false : found.missing;

const READ = `
import json, math, sys
import pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table(sys.argv[1]) if sys.argv[2] == "parquet" else pa.ipc.open_stream(sys.argv[1]).read_all()
rows = table.to_pylist()
for row in rows:
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value): row[name] = repr(value)
        elif hasattr(value, "timestamp"): row[name] = int(value.timestamp() * 1e6)
        elif isinstance(value, bytes): row[name] = value.decode()
print(json.dumps(rows))
`;

function rollout(id: string, reward: number | null): Draft[] {
  const ids = { run: 'run-1', rollout: id, trace: `${id}-t` };
  return [
    { type: 'rollout.started', run: 'run-1', rollout: id, data: { env: { id: 'é/"\u{1f4a5}' } } },
    { type: 'reward.assigned', ...ids, data: { scope: 'trace', name: 'x', score: reward } },
  ];
}

test('pyarrow reads what was exported: text, 64-bit integers, NaN, the infinities and null', { skip }, async () => {
  const world = await openTestWorld();
  const directory = mkdtempSync(join(tmpdir(), 'tapedeck-pyarrow-'));
  try {
    await world.write([...rollout('a', 0.1), ...rollout('b', NaN), ...rollout('c', -Infinity), ...rollout('d', null)]);
    const resource = RESOURCES.find((each) => each.name === 'rollouts');
    assert.ok(resource !== undefined);
    const list = readListRequest(resource, { project: 'default', limit: 1, fields: 'rollout,env,reward,nodes' }, {});
    for (const name of ['parquet', 'arrow']) {
      const format = rowsFormats(world.store).find((each) => each.name === name);
      const parts: Uint8Array[] = [];
      await format?.write({ project: 'default', list, wanted: null }, { write: async (bytes) => void parts.push(bytes), count: () => {}, beside: async () => {} }, AbortSignal.timeout(60_000));
      const path = join(directory, name);
      writeFileSync(path, Buffer.concat(parts));
      const python = 'python' in found ? found.python : '';
      const rows = JSON.parse(execFileSync(python, ['-c', READ, path, name], { encoding: 'utf8', timeout: 60_000 })) as unknown[];
      const env = 'é/"\u{1f4a5}';
      assert.deepEqual(rows, [{ rollout: 'a', env, reward: 0.1, nodes: 0 }, { rollout: 'b', env, reward: 'nan', nodes: 0 }, { rollout: 'c', env, reward: '-inf', nodes: 0 }, { rollout: 'd', env, reward: null, nodes: 0 }], name);
    }
  } finally {
    await world.close();
    rmSync(directory, { recursive: true, force: true });
  }
}); // prettier-ignore
