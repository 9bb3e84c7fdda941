/** Every format from the command line: made by the server, downloaded, and taken up again where a connection broke or the command was stopped. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { caughtUp, sql } from '../../../e2e/proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../../../e2e/server.ts';
import { EPISODES, ROWS, TRAIN_EPISODE } from '../../../ingest/importers/sample-records.ts';
import type { ExportStatus } from './export-job.ts';

const folder = temporaryFolder('cli-export');
let server: TestServer;
before(async () => {
  server = await startServer({ TAPEDECK_DATA: join(folder.path, 'data'), TAPEDECK_BLOCK_WAIT_MS: '50' });
  await server.ready();
  const more = Array.from({ length: 30 }, (_, i) => TRAIN_EPISODE.replace('"id":"e1"', `"id":"x${i}"`));
  const texts = [...EPISODES.map(([, text]) => text.replaceAll('"id":"r2"', '"id":"r1"')), ...more];
  writeFileSync(join(folder.path, 'traces.jsonl'), texts.map((text) => `${text}\n`).join(''));
  writeFileSync(join(folder.path, 'results.jsonl'), `${ROWS['g3 flat times']}\n`);
  const imported = await tapedeck('import', 'traces.jsonl', 'results.jsonl', '--run', 'rows');
  assert.equal(imported.code, 0, imported.err + imported.out.toString());
  await caughtUp(server.url);
});
after(async () => {
  await server.kill();
  folder.remove();
});

type Outcome = { readonly code: number | null; readonly out: Buffer; readonly err: string };

function tapedeckAt(url: string, args: readonly string[], onError: (text: string, kill: () => void) => void = () => {}): Promise<Outcome> {
  const main = join(import.meta.dirname, '../../main.ts');
  const env = { PATH: process.env['PATH'], TAPEDECK_URL: url };
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], { cwd: folder.path, env });
  const out: Buffer[] = [];
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
    onError(err, () => child.kill('SIGINT'));
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out: Buffer.concat(out), err })));
} // prettier-ignore

const tapedeck = (...args: readonly string[]): Promise<Outcome> => tapedeckAt(server.url, args);
const file = (name: string): Buffer => readFileSync(join(folder.path, name));
const lines = (bytes: Buffer): unknown[] => bytes.toString().trimEnd().split('\n').map((line) => JSON.parse(line) as unknown); // prettier-ignore
const jobs = async (): Promise<ExportStatus[]> =>
  ((await (await fetch(`${server.url}/v1/exports`)).json()) as { exports: ExportStatus[] }).exports;

test('all nine formats are listed, written whole, and removed from the server', async () => {
  const listed = await tapedeck('export');
  const names = listed.out.toString().trimEnd().split('\n').map((line) => String(line.split(' ')[0])); // prettier-ignore
  assert.deepEqual(names.toSorted(), ['arrow', 'atif', 'ndjson', 'openai-chat', 'parquet', 'preference', 'sft', 'verifiers-v0', 'verifiers-v1']); // prettier-ignore
  for (const name of names) {
    const of = ['arrow', 'ndjson', 'parquet'].includes(name) ? ['--of', 'rollouts', '--fields', 'rollout,env'] : [];
    const ran = await tapedeck('export', name, '--run', 'r1', ...of, '-o', `all.${name}`, '--json');
    assert.ok(ran.code === 0 || ran.code === 2, `${name}: ${ran.err}`);
    const status = JSON.parse(ran.out.toString()) as ExportStatus;
    assert.deepEqual([status.format, status.state, status.bytes, status.sha256], [name, 'done', file(`all.${name}`).length, createHash('sha256').update(file(`all.${name}`)).digest('hex')]); // prettier-ignore
    assert.equal(existsSync(join(folder.path, `.all.${name}.partial`)), false);
  }
  assert.deepEqual(await jobs(), []);
  const rollouts = (await sql<{ rollout: string }>(server.url, "SELECT rollout FROM rollouts WHERE run = 'r1' ORDER BY rollout")).map(({ rollout }) => rollout); // prettier-ignore
  assert.ok(rollouts.length > 1);
  assert.deepEqual(tableFromIPC(file('all.arrow')).toArray().map((row: { rollout: string }) => row.rollout).toSorted(), rollouts); // prettier-ignore
  assert.deepEqual(lines(file('all.ndjson')).map((row) => (row as { rollout: string }).rollout).toSorted(), rollouts); // prettier-ignore
  assert.deepEqual(lines(file('all.verifiers-v1')).map((row) => (row as { id: string }).id).toSorted(), rollouts); // prettier-ignore
  assert.equal(file('all.parquet').subarray(0, 4).toString(), 'PAR1');
  assert.ok(JSON.parse(file('metadata.json').toString()));
}); // prettier-ignore

test('an exported trajectory imports again: it is written again as it was', async () => {
  const written = await tapedeck('export', 'atif', '--run', 'r1', '-o', 'again.atif.jsonl');
  assert.match(written.out.toString(), /lines, \d+ bytes written to again\.atif\.jsonl\n[^]*never in atif: requests/);
  const imported = await tapedeck('import', 'again.atif.jsonl', '--format', 'atif', '--project', 'other', '--json');
  assert.equal(imported.code, 0, imported.out.toString() + imported.err);
  await caughtUp(server.url);
  const back = await tapedeck('export', 'atif', '--run', 'r1', '--project', 'other', '-o', '-');
  const canonical = (bytes: Buffer): string[] => bytes.toString().trimEnd().split('\n').toSorted();
  assert.deepEqual(canonical(back.out), canonical(file('again.atif.jsonl')));
}); // prettier-ignore

test('to standard output: the file alone, what was left out beside it; a folder gets the name that the server gives', async () => {
  const ran = await tapedeck('export', 'verifiers-v0', '--run', 'rows', '-o', '-');
  assert.equal(ran.code, 0, ran.err);
  assert.equal(lines(ran.out).length, 2);
  assert.match(ran.err, /2 lines, \d+ bytes\nmetadata\.json is left out/);
  const named = await tapedeck('export', 'sft', '--filter', '{"rollout":"e1"}', '--keep');
  const path = /written to (\S+)/.exec(named.out.toString())?.[1] ?? '';
  assert.match(path, /^traces-.*\.jsonl$/);
  assert.ok(file(path).length > 0);
  assert.equal((await jobs()).length, 1);
  const twice = await tapedeck('export', '--resume', (await jobs())[0]!.id);
  assert.match(twice.err, /is there already/);
  assert.equal((await tapedeck('export', '--resume', (await jobs())[0]!.id, '-o', 'other.jsonl')).code, 0);
});

test('wrong use, and an export that fails, end with a sentence', async () => {
  const cases: [string[], number, RegExp][] = [
    [['export', 'nonsense'], 1, /there are .*atif/],
    [['export', 'parquet'], 1, /name a resource/],
    [['export', 'atif', '--filter', '[1]'], 1, /--filter must be a JSON object/],
    [['export', 'atif', '--filter', '{"nonsense":1}'], 1, /nonsense/],
    [['export', 'verifiers-v0'], 1, /metadata\.json describes one run/],
    [['export', '--resume', 'no-such', '-o', 'x'], 1, /no export "no-such"/],
    [['export', 'sft', '-o', 'no/such/folder/x'], 1, /to go on with this export: tapedeck export --resume \S+ -o no[^]*cannot write/],
  ];
  for (const [args, code, message] of cases) {
    const ran = await tapedeck(...args);
    assert.match(ran.err, message, args.join(' '));
    assert.equal(ran.code, code, ran.err);
  }
  for (const { id } of await jobs()) await fetch(`${server.url}/v1/exports/${id}`, { method: 'DELETE' });
});

/** In front of the server: ends a connection as soon as `after` bytes of an export's file went through, `times` times. */
async function cutting(times: number, afterBytes: number): Promise<{ url: string; asked: string[]; server: Server }> {
  const { hostname, port } = new URL(server.url);
  let left = times;
  const asked: string[] = [];
  const proxy = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let isFile = false;
    let sent = 0;
    client.on('data', (chunk) => {
      const head = chunk.toString('latin1');
      if (/^GET \/v1\/exports\/[^/ ]+\/file/.test(head)) {
        isFile = true;
        sent = 0;
        asked.push(/^range: (.*)\r$/im.exec(head)?.[1] ?? 'whole');
      } else if (/^[A-Z]+ \//.test(head)) isFile = false;
      upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => {
      if (isFile && left > 0 && sent + chunk.length > afterBytes) {
        left--;
        client.write(chunk.subarray(0, afterBytes - sent), () => client.destroy());
        upstream.destroy();
        return;
      }
      sent += chunk.length;
      client.write(chunk);
    });
    for (const [one, other] of [[client, upstream], [upstream, client]] as const) one.on('error', () => other.destroy()).on('close', () => other.destroy());
  });
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, asked, server: proxy };
} // prettier-ignore

test('a connection that breaks is taken up where it broke, to a file and to standard output', async () => {
  await tapedeck('export', 'verifiers-v1', '--run', 'r1', '-o', 'whole.jsonl');
  const proxy = await cutting(3, 2_000);
  try {
    const ran = await tapedeckAt(proxy.url, ['export', 'verifiers-v1', '--run', 'r1', '-o', 'broken.jsonl']);
    assert.equal(ran.code, 0, ran.err);
    assert.ok(file('broken.jsonl').equals(file('whole.jsonl')));
    assert.equal(proxy.asked.length, 4);
    assert.deepEqual(proxy.asked.map((range) => range.replace(/\d+/, 'n')), ['whole', 'bytes=n-', 'bytes=n-', 'bytes=n-']); // prettier-ignore
  } finally {
    proxy.server.close();
  }
  const piped = await cutting(2, 2_000);
  try {
    const ran = await tapedeckAt(piped.url, ['export', 'verifiers-v1', '--run', 'r1', '-o', '-']);
    assert.ok(ran.out.equals(file('whole.jsonl')));
  } finally {
    piped.server.close();
  }
}); // prettier-ignore

test('a download that was stopped goes on with --resume; a partial file that is another one is found by its digest', async () => {
  const proxy = await cutting(Infinity, 2_000);
  let id = '';
  let isStopped = false;
  try {
    // the connection breaks for ever: the command waits, until Ctrl-C ends it
    const ran = await tapedeckAt(proxy.url, ['export', 'verifiers-v1', '--run', 'r1', '-o', 'stopped.jsonl'], (err, kill) => {
      if (err.includes('waiting') && !isStopped) kill();
      isStopped ||= err.includes('waiting');
    });
    assert.equal(ran.code, 130, ran.err);
    id = /--resume (\S+) -o stopped\.jsonl/.exec(ran.err)?.[1] ?? '';
  } finally {
    proxy.server.close();
  }
  assert.equal(existsSync(join(folder.path, 'stopped.jsonl')), false);
  const partial = file('.stopped.jsonl.partial');
  assert.ok(partial.length > 0 && partial.equals(file('whole.jsonl').subarray(0, partial.length)));
  writeFileSync(join(folder.path, '.stopped.jsonl.partial'), Buffer.alloc(partial.length, 0x20));
  const wrong = await tapedeck('export', '--resume', id, '-o', 'stopped.jsonl');
  assert.match(wrong.err, /digest_mismatch/);
  assert.equal(readdirSync(folder.path).some((name) => name.includes('stopped')), false); // prettier-ignore
  writeFileSync(join(folder.path, '.stopped.jsonl.partial'), partial);
  const ranges = await cutting(0, 0);
  try {
    assert.equal((await tapedeckAt(ranges.url, ['export', '--resume', id, '-o', 'stopped.jsonl'])).code, 0);
    assert.deepEqual(ranges.asked, [`bytes=${partial.length}-`]);
  } finally {
    ranges.server.close();
  }
  assert.ok(file('stopped.jsonl').equals(file('whole.jsonl')));
  rmSync(join(folder.path, 'stopped.jsonl'));
});

test('export verifiers streams as before', async () => {
  const ran = await tapedeck('export', 'verifiers', '--run', 'r1', '--rollout', 'e1', '-o', '-');
  assert.equal(ran.code, 0, ran.err);
  assert.deepEqual(lines(ran.out), [JSON.parse(TRAIN_EPISODE)]);
});
