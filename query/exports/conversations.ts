/** Branches of traces as conversations: messages from the root to a leaf, each as exactly the JSON that was recorded. */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { projectDatabase } from '../../store/columns/project-database.ts';
import { buildForest, NO_NODE, pathTo } from '../traces/graph.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';

export type TraceKey = { readonly run: string; readonly rollout: string; readonly trace: string };
export type Conversation = {
  readonly leaf: number;
  /** JSON text of each message. */
  readonly messages: readonly string[];
};
export type Conversations = {
  readonly branches: readonly Conversation[];
  /** Nodes without a message, and nodes with tokens: neither has a place in a conversation. */
  readonly withoutMessage: number;
  readonly withTokens: number;
};

type Row = { readonly index: number; readonly parent: number | null; readonly message: string | null; readonly tokens: string | null };

export async function conversationsOf(store: ColumnStore, project: string, key: TraceKey, signal: AbortSignal): Promise<Conversations> {
  const rows = await store.rows<Row>(
    'SELECT index, parent, message, tokens FROM nodes WHERE run = {run:String} AND rollout = {rollout:String} AND trace = {trace:String} ORDER BY index',
    { database: projectDatabase(project), params: { ...key }, settings: { ...SETTINGS, max_result_bytes: 0 }, timeoutMs: TIMEOUT_MS, signal },
  );
  const forest = buildForest({
    index: Uint32Array.from(rows, (row) => row.index),
    parent: Uint32Array.from(rows, (row) => row.parent ?? NO_NODE),
    tokens: new Float64Array(rows.length),
  });
  const messages = new Map(rows.map((row) => [row.index, row.message] as const));
  const branches = forest.leaves.map((leaf) => ({
    leaf,
    messages: (pathTo(forest, leaf) ?? []).flatMap((node) => {
      const message = messages.get(node);
      return message === null || message === undefined || message === 'null' ? [] : [message];
    }),
  }));
  return {
    branches,
    withoutMessage: rows.filter((row) => row.message === null || row.message === 'null').length,
    withTokens: rows.filter((row) => row.tokens !== null).length,
  };
} // prettier-ignore
