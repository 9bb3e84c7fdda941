/** What a crash may have left undone: everything stored beyond the progress of a task. */
import type { Topic } from '../../../events/registry.ts';
import type { ColumnStore } from '../column-store.ts';
import { FEEDS_PARTITION_BASE, logPartition } from '../projections/position.ts';
import type { RolloutKey } from '../projections/touched.ts';

export type Undone = {
  readonly rollouts: readonly RolloutKey[];
  readonly deleted: readonly { readonly project: string; readonly run: string }[];
  /** Next offset per partition of the topic. */
  readonly positions: readonly number[];
};

export async function undoneSince(store: ColumnStore, topic: Topic, task: string, signal: AbortSignal): Promise<Undone> {
  const ofTopic = topic === 'feeds' ? `_partition >= ${FEEDS_PARTITION_BASE}` : `_partition < ${FEEDS_PARTITION_BASE}`;
  const options = { signal, params: { task } };
  const done = await store.rows<{ partition: number; last: string }>(
    `SELECT _partition AS partition, max(_offset) AS last FROM progress WHERE task = {task:String} AND ${ofTopic} GROUP BY _partition`,
    options,
  );
  const passed = done.map((d) => `(_partition = ${Number(d.partition)} AND _offset <= ${Number(d.last)})`);
  const beyond = `${ofTopic} AND NOT (${passed.length === 0 ? '0' : passed.join(' OR ')})`;
  const touched = await store.rows<{ project: string; run: string; rollout: string }>(
    `SELECT DISTINCT project, run, rollout FROM log_index WHERE status = 'stored' AND ${beyond}`,
    { signal },
  );
  const deleted = await store.rows<{ project: string; run: string }>(`SELECT DISTINCT project, run FROM tombstones WHERE ${beyond}`, {
    signal,
  });
  const stored = await store.rows<{ partition: number; next: string }>(
    `SELECT _partition AS partition, max(_offset) + 1 AS next FROM log_index WHERE ${ofTopic} GROUP BY _partition`,
    { signal },
  );
  const positions: number[] = [];
  for (const row of stored) positions[logPartition(Number(row.partition)).partition] = Number(row.next);
  return {
    rollouts: touched.filter((row) => row.run !== '' && row.rollout !== '').map((row) => [row.project, row.run, row.rollout] as const),
    deleted,
    positions: Array.from(positions, (next) => next ?? 0),
  };
}
