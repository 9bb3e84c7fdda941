/** Compares a ledger with the store through SQL: every acknowledged event once, none changed, audit passes. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { PackedArray } from '../events/packed-array.ts';
import type { WorkEvent } from './workload.ts';

export async function sql<T>(url: string, query: string, params: Record<string, unknown> = {}): Promise<T[]> {
  const answer = await fetch(`${url}/v1/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, params, format: 'ndjson' }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${text}`);
  return text.split('\n').filter(Boolean).map((line) => JSON.parse(line) as T); // prettier-ignore
}

export type Audit = { ok: boolean; lag: number; problems: string[]; projector: { phase: string } | null };

/** `key`: an API key for all projects, where the server has keys. */
export async function audit(url: string, key?: string): Promise<Audit> {
  const answer = await fetch(`${url}/v1/audit`, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${text}`);
  return JSON.parse(text) as Audit;
}

/** Waits until the projector has stored everything that is in the log, summaries and search included. */
export async function caughtUp(url: string, ms = 180_000, key?: string): Promise<Audit> {
  const end = Date.now() + ms;
  let last: unknown;
  while (Date.now() < end) {
    try {
      const report = await audit(url, key);
      const projected = report.projector === null || report.projector.phase === 'idle'; // null: it runs elsewhere
      if (report.lag === 0 && projected) return report;
      last = report;
    } catch (error) {
      last = error;
    }
    await sleep(200);
  }
  throw new Error(`the projector did not catch up in ${ms} ms: ${last instanceof Error ? last.message : JSON.stringify(last)}`);
}

type NodeRow = { trace: string; index: number; role: string; message: string; token_ids: number[]; mask: number[]; logprobs: number[] };

/** Throws with the first difference. `sent` may hold events that were never acknowledged: they may be there once or not at all. */
export async function provesLedger(url: string, acked: readonly WorkEvent[], sent: readonly WorkEvent[]): Promise<void> {
  const stored = await sql<{ id: string; times: string | number }>(
    url,
    "SELECT toString(id) AS id, countIf(status = 'stored') AS times FROM events GROUP BY id",
  );
  const times = new Map(stored.map((row) => [row.id, Number(row.times)]));
  for (const event of acked)
    assert.equal(times.get(event.id), 1, `${event.type} ${event.id} was acknowledged and is stored ${times.get(event.id) ?? 0} times`);
  const known = new Set(sent.map((e) => e.id));
  for (const id of times.keys()) assert.ok(known.has(id), `${id} is stored and was never sent`);
  await provesNodes(url, acked, sent);
}

async function provesNodes(url: string, acked: readonly WorkEvent[], sent: readonly WorkEvent[]): Promise<void> {
  const rows = await sql<NodeRow>(url, 'SELECT trace, index, role, message, token_ids, mask, logprobs FROM nodes');
  const expected = new Map(sent.filter((e) => e.type === 'node.appended').map((e) => [`${e.trace ?? ''}#${String(e.data['index'])}`, e]));
  const seen = new Set<string>();
  for (const row of rows) {
    const key = `${row.trace}#${row.index}`;
    assert.ok(!seen.has(key), `node ${key} is there twice`);
    seen.add(key);
    const event = expected.get(key);
    assert.ok(event !== undefined, `node ${key} was never sent`);
    sameNode(row, event);
  }
  for (const event of acked) {
    if (event.type === 'node.appended')
      assert.ok(seen.has(`${event.trace ?? ''}#${String(event.data['index'])}`), `node ${event.id} is missing`);
  }
}

function sameNode(row: NodeRow, event: WorkEvent): void {
  const tokens = event.data['tokens'] as { ids: PackedArray<'u32'>; mask: PackedArray<'u8'>; logprobs: PackedArray<'f32'> };
  assert.equal(row.role, event.data['role']);
  assert.deepEqual(JSON.parse(row.message), event.data['message']);
  assert.deepEqual(row.token_ids, [...tokens.ids.typed()]);
  assert.deepEqual(row.mask, [...tokens.mask.typed()]);
  assert.deepEqual(row.logprobs.map(Math.fround), [...tokens.logprobs.typed()]);
}

/** Builds every table again and compares the answers of all views; throws with the first difference. */
export async function rebuiltEqual(url: string): Promise<void> {
  const answer = await fetch(`${url}/v1/rebuild`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"check":true}',
  });
  const lines = (await answer.text()).split('\n').filter(Boolean);
  type Line = { phase?: string; equal?: boolean; compared?: { view: string; equal: boolean; difference: unknown }; error?: unknown };
  const said = lines.map((line) => JSON.parse(line) as Line);
  const different = said.filter((line) => line.compared?.equal === false);
  assert.deepEqual(different, []);
  const result = said.find((line) => line.phase === 'result');
  assert.equal(result?.equal, true, `the rebuild gave no result: ${lines.at(-1) ?? ''}`);
}
