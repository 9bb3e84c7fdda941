/**
 * A writer that keeps a book: several lanes append numbered records one after the other, send again what was refused or unclear (as a client of the HTTP edge
 * does), and note every answer. Afterwards the book is compared with what the log holds.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { TapedeckError } from '../../base/errors.ts';
import type { EventLog } from '../../store/log/event-log.ts';

export type Entry = {
  readonly values: readonly string[];
  readonly lane: number;
  first: number;
  unclear: number;
  refused: number;
  ms: number;
};
export type Ledger = { readonly entries: readonly Entry[]; readonly codes: Readonly<Record<string, number>> };
export type Comparison = { appends: number; records: number; duplicates: number; unclear: number; refused: number; slowestMs: number };

const LANES = 3;
const PAUSE_MS = 10;

/** Appends to partition 0 until `stop` aborts, then until every lane has its last answer. */
export async function keepLedger(log: EventLog, stop: AbortSignal): Promise<Ledger> {
  const entries: Entry[] = [];
  const codes: Record<string, number> = {};
  const lane = async (name: number): Promise<void> => {
    for (let number = 0; !stop.aborted; number++) {
      const values = Array.from({ length: 1 + (number % 4) }, (_, i) => `lane ${name}, append ${number}, record ${i}`);
      const entry: Entry = { values, lane: name, first: -1, unclear: 0, refused: 0, ms: 0 };
      entries.push(entry);
      await appendUntilAcknowledged(log, entry, codes);
      await sleep(PAUSE_MS);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, name) => lane(name)));
  return { entries, codes };
}

async function appendUntilAcknowledged(log: EventLog, entry: Entry, codes: Record<string, number>): Promise<void> {
  const records = entry.values.map((value) => ({ key: Buffer.from(`lane ${entry.lane}`), value: Buffer.from(value) }));
  const start = performance.now();
  while (entry.first < 0) {
    try {
      entry.first = (await log.append(0, records)).first;
    } catch (error) {
      if (!(error instanceof TapedeckError) || !error.retriable) throw error;
      codes[error.code] = (codes[error.code] ?? 0) + 1;
      if (error.code === 'append_unclear') entry.unclear++;
      else entry.refused++;
      await sleep(100);
    }
  }
  entry.ms = performance.now() - start;
}

/**
 * Fails unless every acknowledged record is exactly where it was acknowledged, in the order of its lane, nothing is there that was not sent, and nothing is
 * there twice unless an answer about it was unclear.
 */
export async function compareLedger(ledger: Ledger, log: EventLog): Promise<Comparison> {
  const stored = await valuesOf(log);
  const copies = new Map<string, number>();
  for (const value of stored) copies.set(value, (copies.get(value) ?? 0) + 1);
  const known = new Set(ledger.entries.flatMap((entry) => entry.values));
  let duplicates = 0;
  const lastOfLane = new Map<number, number>();
  for (const entry of ledger.entries) {
    assert.deepEqual(stored.slice(entry.first, entry.first + entry.values.length), entry.values, `acknowledged at ${entry.first}`);
    assert.ok(entry.first > (lastOfLane.get(entry.lane) ?? -1), `lane ${entry.lane} is out of order at ${entry.first}`);
    lastOfLane.set(entry.lane, entry.first);
    for (const value of entry.values) {
      const extra = (copies.get(value) ?? 0) - 1;
      assert.ok(extra <= entry.unclear, `"${value}" is there ${extra + 1} times after ${entry.unclear} unclear answers`);
      duplicates += extra;
    }
  }
  for (const value of stored) assert.ok(known.has(value), `"${value}" was never sent`);
  const sum = (pick: (entry: Entry) => number): number => ledger.entries.reduce((total, entry) => total + pick(entry), 0);
  return {
    appends: ledger.entries.length,
    records: stored.length,
    duplicates,
    unclear: sum((entry) => entry.unclear),
    refused: sum((entry) => entry.refused),
    slowestMs: Math.round(ledger.entries.reduce((slowest, { ms }) => Math.max(slowest, ms), 0)),
  };
}

/** All values of partition 0; the offsets must have no gap. */
async function valuesOf(log: EventLog): Promise<string[]> {
  const { end } = (await log.positions())[0] as { end: number };
  const values: string[] = [];
  for (let at = 0; at < end;) {
    const chunk = await log.read(0, at, { maxBytes: 1 << 20 });
    for (const { offset, value } of chunk.records) assert.equal(values.push(Buffer.from(value).toString()) - 1, offset);
    at = chunk.next;
  }
  return values;
}
