/**
 * What a trainer reported of its steps and weights, as far as the log has it: a report that comes again must not become a second event. The newest ones are kept, by timeline and
 * number, so that the result does not depend on the order in which partitions were read.
 */
import type { EventOf } from '../../events/registry.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { contentHash } from '../../events/content-hash.ts';

type Report = EventOf<'policy.published'> | EventOf<'trainer.stepped'>;

/** `n`: the policy version or the step. `digest` of the event's data. */
export type ReportFact = { readonly timeline: number; readonly n: number; readonly digest: string };

/** By event id. */
export type ReportFacts = Map<string, ReportFact>;

const KEPT = 2_000;

/** The first report under an id counts. */
export function applyReport(event: Report, reports: ReportFacts): void {
  if (reports.has(event.id)) return;
  const n = event.type === 'policy.published' ? event.data.version : event.data.step;
  reports.set(event.id, { timeline: event.data.timeline ?? 0, n, digest: dataDigest(encodeEvent(event)) });
  if (reports.size > KEPT) reports.delete(oldestOf(reports));
}

/** Of an event as the log has it. Producers' clocks do not enter. */
export function dataDigest(slice: Uint8Array): string {
  return contentHash(slice).data;
}

function oldestOf(reports: ReportFacts): string {
  let oldest: [string, ReportFact] | null = null;
  for (const each of reports) if (oldest === null || isOlder(each, oldest)) oldest = each;
  return (oldest as [string, ReportFact])[0];
}

function isOlder([id, a]: readonly [string, ReportFact], [otherId, b]: readonly [string, ReportFact]): boolean {
  return a.timeline - b.timeline < 0 || (a.timeline === b.timeline && (a.n < b.n || (a.n === b.n && id < otherId)));
}
