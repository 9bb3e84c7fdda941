/** What the numbers of producers make of a plan: which records are taken, which are duplicates, which are refused, and which states they lead to. */
import { rejection, type Plan, type PlannedRecord, type Rejection } from './accept-plan.ts';
import type { Producers } from './accept-producers.ts';
import { producerKey, type ProducerState } from './accept-sequence.ts';

type Step = { readonly key: string; readonly state: ProducerState; readonly record: PlannedRecord | null };

export type Numbering = {
  /** The records to store, in order of the body. */
  readonly records: readonly PlannedRecord[];
  readonly refused: readonly Rejection[];
  readonly duplicates: number;
  /** The state after each number that was taken, in order of the body. */
  readonly steps: readonly Step[];
};

/** Judges all numbers of a plan. An item whose producer could not be read may hide one number: that much may be skipped after it. */
export function judgeNumbers(plan: Plan, producers: Pick<Producers, 'judge'>): Numbering {
  const ahead = new Map<string, ProducerState>();
  const left = new Set<PlannedRecord>();
  const steps: Step[] = [];
  const refused: Rejection[] = [];
  let duplicates = 0;
  let skipped = 0;
  let unreadable = 0;
  for (const { index, producer, record } of plan.numbered) {
    while ((plan.unreadable[unreadable] ?? Infinity) < index) unreadable++;
    const verdict = producers.judge(producer, ahead, unreadable - skipped);
    if (verdict.kind === 'take') {
      skipped += verdict.skipped;
      const key = producerKey(producer);
      ahead.set(key, verdict.state);
      steps.push({ key, state: verdict.state, record });
    } else if (record !== null) {
      left.add(record);
      if (verdict.kind === 'duplicate') duplicates++;
      else refused.push(rejection(record.index, record.id, verdict.problem));
    }
  }
  return { records: left.size === 0 ? plan.records : plan.records.filter((r) => !left.has(r)), refused, duplicates, steps };
}

/** The states to keep once storing has settled: those before the first record of each producer that was not stored. */
export function settledStates(steps: readonly Step[], isStored: (record: PlannedRecord) => boolean): Map<string, ProducerState> {
  const settled = new Map<string, ProducerState>();
  const stopped = new Set<string>();
  for (const { key, state, record } of steps) {
    if (record !== null && !isStored(record)) stopped.add(key);
    if (!stopped.has(key)) settled.set(key, state);
  }
  return settled;
}
