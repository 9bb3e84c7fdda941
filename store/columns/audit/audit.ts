/**
 * The proof that produced = stored: for every offset of every log partition, log_index says what became of it. Reads the log's positions and the
 * store's answers, and judges them; `problems` is empty when everything is explained.
 */
import type { ColumnStore } from '../column-store.ts';
import type { EventLog } from '../../log/event-log.ts';
import type { Topic } from '../../../events/registry.ts';
import { logPartition, storePartition } from '../projections/position.ts';

export type PartitionAudit = {
  readonly topic: Topic;
  readonly partition: number;
  /** First kept offset and end of the log. */
  readonly first: number;
  readonly end: number;
  /** Offset up to which the store has everything (exclusive). */
  readonly stored: number;
  readonly lag: number;
  readonly gaps: number;
  readonly byStatus: {
    readonly stored: number;
    readonly duplicate: number;
    readonly conflict: number;
    readonly dead: number;
    readonly deleted: number;
  };
  /** Offset beyond `stored` that facts were already written for: a block that was not finished and will be done again. */
  readonly unfinishedBeyond: number | null;
};

export type EndedMismatch = { readonly kind: 'trace' | 'rollout'; readonly id: string; readonly said: string; readonly stored: string };

export type AuditReport = {
  readonly ok: boolean;
  readonly lag: number;
  readonly partitions: readonly PartitionAudit[];
  /** Ends whose counts differ from what is stored; the first 100. */
  readonly mismatches: readonly EndedMismatch[];
  readonly mismatchCount: number;
  readonly problems: readonly string[];
};

type IndexRow = {
  partition: number; rows: string; offsets: string; low: string; high: string;
  stored: string; duplicate: string; conflict: string; dead: string; deleted: string;
}; // prettier-ignore

/** Runs the audit. The log is read before the store, so that what is appended meanwhile is lag, never a gap. */
export async function runAudit(
  logs: readonly { readonly topic: Topic; readonly log: EventLog }[],
  store: ColumnStore,
  signal?: AbortSignal,
): Promise<AuditReport> {
  const options = signal === undefined ? {} : { signal };
  const positions = await Promise.all(logs.map(({ log }) => log.positions(signal)));
  const index = await store.rows<IndexRow>(INDEX_SQL, options);
  const facts = await store.rows<{ partition: number; high: string }>(FACTS_SQL, options);
  const ended = await store.rows<EndedRow>(ENDED_SQL, options);
  const [counted] = await store.rows<{ n: string }>(`SELECT count() AS n FROM (${ENDED_ALL})`, options);
  const high = new Map(facts.map((row) => [Number(row.partition), Number(row.high)]));
  const byPartition = new Map(index.map((row) => [Number(row.partition), row]));
  const partitions = logs.flatMap(({ topic }, i) =>
    (positions[i] ?? []).map((bounds, partition) => {
      const at = storePartition(topic, partition);
      return judgePartition(topic, partition, bounds, byPartition.get(at), high.get(at));
    }),
  );
  const mismatches = ended.map((row) => ({ kind: row.kind, id: row.id, said: row.said, stored: row.found }));
  return report(partitions, mismatches, Number(counted?.n ?? 0), strangers(byPartition, partitions));
}

function judgePartition(
  topic: Topic,
  partition: number,
  bounds: { first: number; end: number },
  row: IndexRow | undefined,
  factsHigh: number | undefined,
): PartitionAudit {
  const next = row === undefined ? bounds.first : Number(row.high) + 1;
  const expected = row === undefined ? 0 : Number(row.high) + 1 - Math.min(bounds.first, Number(row.low));
  return {
    topic,
    partition,
    ...bounds,
    stored: next,
    lag: Math.max(0, bounds.end - next),
    gaps: row === undefined ? 0 : expected - Number(row.offsets),
    byStatus: {
      stored: Number(row?.stored ?? 0),
      duplicate: Number(row?.duplicate ?? 0),
      conflict: Number(row?.conflict ?? 0),
      dead: Number(row?.dead ?? 0),
      deleted: Number(row?.deleted ?? 0),
    },
    unfinishedBeyond: factsHigh !== undefined && factsHigh >= next ? factsHigh : null,
  };
}

/** Partitions of the topics looked at that the store has rows of and the log does not: another log was projected into these tables. */
function strangers(index: ReadonlyMap<number, IndexRow>, partitions: readonly PartitionAudit[]): string[] {
  const known = new Set(partitions.map((p) => storePartition(p.topic, p.partition)));
  const topics = new Set(partitions.map(({ topic }) => topic));
  return [...index.keys()]
    .filter((p) => !known.has(p) && topics.has(logPartition(p).topic))
    .map((p) => `${name(logPartition(p))}: the store holds rows of it, the log has no such partition`);
}

function name({ topic, partition }: { topic: Topic; partition: number }): string {
  return `${topic}/${partition}`;
}

function report(
  partitions: readonly PartitionAudit[],
  mismatches: readonly EndedMismatch[],
  mismatchCount: number,
  strange: readonly string[],
): AuditReport {
  const problems = [...strange];
  for (const p of partitions) {
    if (p.gaps !== 0) problems.push(`${name(p)}: ${p.gaps} offsets below ${p.stored} are in no table`);
    if (p.stored > p.end)
      problems.push(`${name(p)}: the store is at ${p.stored}, beyond the log's end ${p.end}: the log lost records or is another log`);
  }
  const lag = partitions.reduce((sum, p) => sum + p.lag, 0);
  // while events are still on their way, ends are expected to be ahead of what they count
  if (lag === 0 && mismatchCount > 0) problems.push(`${mismatchCount} traces or rollouts ended with other counts than what is stored`);
  return { ok: problems.length === 0, lag, partitions, mismatches, mismatchCount, problems };
}

const INDEX_SQL = `
  SELECT _partition AS partition, count() AS rows, uniqExact(_offset) AS offsets, min(_offset) AS low, max(_offset) AS high,
    countIf(status = 'stored') AS stored, countIf(status = 'duplicate') AS duplicate, countIf(status = 'conflict') AS conflict,
    countIf(status = 'dead') AS dead, countIf(status = 'deleted') AS deleted
  FROM log_index FINAL GROUP BY _partition ORDER BY _partition`;

const FACTS_SQL = 'SELECT _partition AS partition, max(_offset) AS high FROM event_ids GROUP BY _partition';

type EndedRow = { kind: 'trace' | 'rollout'; id: string; said: string; found: string };

/** What \`trace.ended\` and \`rollout.ended\` said, against what is there. Deleted runs are gone from both sides. */
const ENDED_ALL = `
  SELECT 'trace' AS kind, t.trace AS id, concat(toString(t.said_nodes), ' nodes, ', toString(t.said_calls), ' calls') AS said,
    concat(toString(n.nodes), ' nodes, ', toString(c.calls), ' calls') AS found
  FROM (SELECT project, run, rollout, trace, argMaxIf(nodes, _offset, nodes IS NOT NULL) AS said_nodes, argMaxIf(calls, _offset, calls IS NOT NULL) AS said_calls
        FROM trace_events FINAL GROUP BY project, run, rollout, trace HAVING said_nodes IS NOT NULL) AS t
  LEFT JOIN (SELECT project, run, rollout, trace, count() AS nodes FROM nodes FINAL GROUP BY project, run, rollout, trace) AS n USING (project, run, rollout, trace)
  LEFT JOIN (SELECT project, run, rollout, trace, count() AS calls FROM calls FINAL GROUP BY project, run, rollout, trace) AS c USING (project, run, rollout, trace)
  WHERE t.said_nodes != n.nodes OR t.said_calls != c.calls
  UNION ALL
  SELECT 'rollout', r.rollout, concat(toString(r.said_traces), ' traces'), concat(toString(s.traces), ' traces')
  FROM (SELECT project, run, rollout, argMaxIf(traces, _offset, traces IS NOT NULL) AS said_traces FROM rollout_events FINAL GROUP BY project, run, rollout HAVING said_traces IS NOT NULL) AS r
  LEFT JOIN (SELECT project, run, rollout, uniqExact(trace) AS traces FROM trace_events FINAL GROUP BY project, run, rollout) AS s USING (project, run, rollout)
  WHERE r.said_traces != s.traces`;

const ENDED_SQL = `SELECT * FROM (${ENDED_ALL}) LIMIT 100`;
