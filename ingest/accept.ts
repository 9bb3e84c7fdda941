/**
 * Accepts a body of events: plan (pure), numbering of producers, blobs, appends. Without HTTP, so that importers and tests use the same path. What is
 * reported as accepted is durable; what is not is not in the log, except after `append_unclear`. Sending the same body again is always safe.
 */
import { ByteWriter } from '../base/byte-writer.ts';
import { ok, type Problem, type Result } from '../base/result.ts';
import type { WriterAccess } from './accept-access.ts';
import { store, type AppendPorts, type Unstored } from './accept-append.ts';
import type { AcceptLimits } from './accept-limits.ts';
import type { Media } from './accept-media.ts';
import { judgeNumbers, settledStates, type Numbering } from './accept-numbering.ts';
import { planEvents, rejection, type Plan, type Rejection } from './accept-plan.ts';
import type { Producers } from './accept-producers.ts';
import { producerKey } from './accept-sequence.ts';
import type { Tombstones } from './accept-tombstones.ts';

export type AcceptContext = Omit<AppendPorts, 'storeMs'> & {
  readonly limits: AcceptLimits;
  readonly producers: Producers;
  readonly tombstones: Tombstones;
  /** What the key of the request allows; null or missing: everything. */
  readonly access?: WriterAccess | null;
};

/** One answer for every item: accepted + duplicates + rejected = items. */
export type Accepted = {
  readonly accepted: number;
  readonly duplicates: number;
  readonly rejected: readonly Rejection[];
  /** Items that were accepted into the log, but that this version cannot project (`unknown_type`). */
  readonly deadLettered: readonly Rejection[];
  /** Why items could not be stored, when there are any: they are in `rejected` too, and sending the body again is the remedy. */
  readonly failure: Problem | null;
  /** Accepted events by type. */
  readonly types: ReadonlyMap<string, number>;
};

/** Plans and carries out in one go. The error is about the body as a whole; then nothing was stored. */
export async function acceptEvents(body: Uint8Array, media: Media, context: AcceptContext): Promise<Result<Accepted>> {
  const plan = await planBody(body, media, context, new ByteWriter(media === 'cbor' ? 0 : body.length));
  return plan.ok ? ok(await executePlan(plan.value, context)) : plan;
}

/**
 * The pure half; a large body lets others run in between, and `onStep` is called whenever it goes on. `writer` takes the transcoded JSON; it must not be touched
 * until `executePlan` has settled.
 */
export async function planBody(
  body: Uint8Array,
  media: Media,
  context: AcceptContext,
  writer: ByteWriter,
  onStep: () => void = () => {},
): Promise<Result<Plan>> {
  const { limits, tombstones, log, feeds, clock, access = null } = context;
  const rules = { limits, tombstones, access, partitions: log.partitions, feedPartitions: feeds?.partitions ?? null };
  const steps = planEvents(body, media, rules, writer);
  for (;;) {
    const step = steps.next();
    onStep();
    if (step.done === true) return step.value;
    await clock.sleep(0);
  }
}

/** The half with effects. Throws `store_unavailable` while the states of producers are being loaded, and `deadline_exceeded` when earlier requests of a producer take too long; then nothing was stored. */
export async function executePlan(plan: Plan, context: AcceptContext): Promise<Accepted> {
  const ports: AppendPorts = { ...context, storeMs: context.limits.storeMs };
  if (plan.numbered.length === 0) {
    const all: Numbering = { records: plan.records, refused: [], duplicates: 0, steps: [] };
    return report(plan, all, await store(all.records, ports), context.tombstones);
  }
  const keys = [...new Set(plan.numbered.map(({ producer }) => producerKey(producer)))];
  return context.producers.exclusive(keys, { clock: context.clock, waitMs: context.limits.storeMs }, async () => {
    const numbering = judgeNumbers(plan, context.producers);
    const unstored = await store(numbering.records, ports);
    for (const [key, state] of settledStates(numbering.steps, (record) => !unstored.has(record))) context.producers.commit(key, state);
    return report(plan, numbering, unstored, context.tombstones);
  });
}

function report(plan: Plan, numbering: Numbering, unstored: Unstored, tombstones: Tombstones): Accepted {
  const types = new Map<string, number>();
  const failed: Rejection[] = [];
  const stored = new Set<number>();
  let failure: Problem | null = null;
  for (const record of numbering.records) {
    const problem = unstored.get(record);
    if (problem !== undefined) {
      failure ??= problem;
      failed.push(rejection(record.index, record.id, problem));
      continue;
    }
    stored.add(record.index);
    types.set(record.type, (types.get(record.type) ?? 0) + 1);
    if (record.type === 'run.deleted') tombstones.add(record.event.project, record.event.run as string);
  }
  return {
    accepted: stored.size,
    duplicates: plan.duplicates + numbering.duplicates,
    rejected: [...plan.rejected, ...numbering.refused, ...failed].toSorted((a, b) => a.index - b.index),
    deadLettered: plan.deadLettered.filter(({ index }) => stored.has(index)),
    failure,
    types,
  };
}
