/** The rows that optimizer steps trained on, as of a position: batches that were committed by then and not given up by a rewind. */
import type { Reader } from '../reader.ts';
import { floatOf, intOf, type StoredFloat, type StoredInt } from '../stored-number.ts';

export type TrainedRow = {
  readonly feed: string;
  /** Batch n trains step n. */
  readonly n: number;
  readonly step: number;
  readonly rollout: string;
  readonly trace: string;
  readonly group: string | null;
  readonly env: string | null;
  readonly tokens: number | null;
  readonly trainedTokens: number | null;
  readonly advantage: number | null;
  readonly reward: number | null;
  readonly versionMin: number | null;
  readonly versionMax: number | null;
};

type BatchKey = { feed: string; timeline: StoredInt; n: StoredInt };
type BatchRow = BatchKey & { batch_id: string | null; step: StoredInt };
type Row = BatchKey & {
  batch_id: string; rollout: string; trace: string; grp: string | null; env: string; seq_len: StoredInt; trained: StoredInt; advantage: StoredFloat; reward: StoredFloat;
  version_min: StoredInt; version_max: StoredInt;
}; // prettier-ignore

/** Rows of one run, in order of batch and row. The first decision of each kind counts; a rewind to n gives up later batches of older timelines. */
export async function readTrainedRows(reader: Reader, run: string, feed: string | null): Promise<TrainedRow[]> {
  const ofFeed = feed === null ? '' : ' AND feed = {feed:String}';
  const params = feed === null ? { run } : { run, feed };
  const within = `${reader.within()}${ofFeed}`;
  const first = (value: string, type: string): string => `argMinIf(${value}, _offset, type = '${type}' AND isNotNull(${value}))`;
  const [batches, rewinds, rows] = await Promise.all([
    reader.rows<BatchRow>(
      `SELECT feed, timeline, n, ${first('batch_id', 'batch.cut')} AS batch_id, ${first('step', 'batch.committed')} AS step
       FROM (SELECT feed, timeline, assumeNotNull(n) AS n, type, batch_id, step, _offset FROM feed_events FINAL WHERE ${within} AND type IN ('batch.cut', 'batch.committed') AND isNotNull(n))
       GROUP BY feed, timeline, n HAVING countIf(type = 'batch.committed') > 0`,
      params,
    ),
    reader.rows<{ feed: string; timeline: StoredInt; rewound: StoredInt }>(
      `SELECT feed, timeline, rewound_to AS rewound FROM feed_events FINAL WHERE ${within} AND type = 'feed.rewound'`,
      params,
    ),
    reader.rows<Row>(
      `SELECT feed, timeline, n, batch_id, rollout, trace, \`group\` AS grp, env, seq_len, trained, advantage, reward, policy_version_min AS version_min, policy_version_max AS version_max
       FROM batch_rows FINAL WHERE ${within} AND run = {run:String} ORDER BY feed, timeline, n, row_id`,
      params,
    ),
  ]); // prettier-ignore
  const live = new Map<string, BatchRow>();
  for (const batch of batches) {
    const isGivenUp = rewinds.some(
      (rewind) =>
        rewind.feed === batch.feed && Number(rewind.timeline) > Number(batch.timeline) && Number(rewind.rewound) < Number(batch.n),
    );
    if (!isGivenUp) live.set(keyOf(batch), batch);
  }
  return rows.flatMap((row) => {
    const batch = live.get(keyOf(row));
    return batch === undefined || batch.batch_id !== row.batch_id ? [] : [trainedRow(row, batch)];
  });
}

function keyOf({ feed, timeline, n }: BatchKey): string {
  return JSON.stringify([feed, String(timeline), String(n)]);
}

function trainedRow(row: Row, batch: BatchRow): TrainedRow {
  return {
    feed: row.feed,
    n: Number(row.n),
    step: intOf(batch.step) ?? Number(row.n),
    rollout: row.rollout,
    trace: row.trace,
    group: row.grp,
    env: row.env === '' ? null : row.env,
    tokens: intOf(row.seq_len),
    trainedTokens: intOf(row.trained),
    advantage: floatOf(row.advantage),
    reward: floatOf(row.reward),
    versionMin: intOf(row.version_min),
    versionMax: intOf(row.version_max),
  };
}

/** Samples that feeds left out, by batch, reason and count. `n` null: no batch left it out. */
export type Dropped = {
  readonly feed: string;
  readonly n: number | null;
  readonly reason: string;
  readonly samples: number;
  readonly tokens: number | null;
};

export async function readDropped(reader: Reader, run: string, feed: string | null): Promise<Dropped[]> {
  const rows = await reader.rows<{ feed: string; n: StoredInt; reason: string; samples: StoredInt; tokens: StoredInt }>(
    `SELECT feed, n, reason, count() AS samples, sumOrNull(length) AS tokens FROM dropped_samples FINAL
     WHERE ${reader.within()} AND run = {run:String}${feed === null ? '' : ' AND feed = {feed:String}'} GROUP BY feed, n, reason ORDER BY feed, n, reason`,
    feed === null ? { run } : { run, feed },
  );
  return rows.map((row) => ({
    feed: row.feed,
    n: intOf(row.n),
    reason: row.reason,
    samples: Number(row.samples),
    tokens: intOf(row.tokens),
  }));
}
