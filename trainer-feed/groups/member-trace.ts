/** A member of a ready group, made of the facts of its rollout and the columns in the row file. */
import { endOf, referenceKey, type CallFact, type ColumnsRef, type NodeFact, type RolloutFacts, type TraceFacts } from './rollout-facts.ts';
import type { BareNode, LogprobsMode, MemberTrace, NodeTokens, PolicyRun } from './ready-group.ts';
import { scoresOf } from './scores.ts';

/** Columns of a node as the row file gives them back. */
export type LoadedColumns = Pick<NodeTokens, 'ids' | 'mask' | 'isContent' | 'logprobs' | 'referenceLogprobs'>;

/** How columns are read: of a node by its lengths, and teacher scores alone. */
export type LoadColumns = {
  readonly tokens: (ref: ColumnsRef, length: number, masked: number) => LoadedColumns;
  readonly scores: (ref: ColumnsRef) => Float32Array;
};

/** Policy versions of a timeline that a rewind gave up: those sampled before `positions` with a version above `above` count as `above`, the last one both share. */
export type Foreign = { readonly above: number; readonly positions: readonly number[] };

/** `teacher`: whose scores count. Throws when the rollout has no such trace: then facts and decisions do not belong together. */
export function memberTrace(
  rollout: RolloutFacts,
  traceId: string,
  load: LoadColumns,
  foreign: readonly Foreign[],
  teacher: string | null,
): MemberTrace {
  const trace = rollout.traces.get(traceId);
  const { start } = rollout;
  if (trace === undefined || start === null) throw new Error(`nothing is known of trace ${traceId} of rollout ${rollout.rollout}`);
  const lift = lifter(rollout.partition, foreign);
  const calls = [...trace.calls.values()].toSorted((a, b) => a.index - b.index);
  const { nodes, bare } = splitNodes(trace, calls, load, lift, teacher);
  const end = endOf(rollout);
  const ended = latest(trace.ends, 'ok');
  const offset = Math.min(...[...trace.nodes.values()].map((node) => node.offset), trace.offset);
  const versions = versionsOf(calls, nodes, lift);
  return {
    run: rollout.run,
    group: start.group,
    rollout: rollout.rollout,
    trace: traceId,
    env: start.env,
    taskKey: start.taskKey,
    agent: latest(trace.starts, 'agent')?.agent ?? '',
    trainable: latest(trace.starts, 'trainable')?.trainable ?? true,
    ok: end?.kind === 'ended' && end.ok !== false && ended?.ok !== false,
    error: errorOf(rollout, traceId),
    truncated: latest(trace.ends, 'truncated')?.truncated === true,
    stopCondition: latest(trace.ends, 'stopCondition')?.stopCondition ?? null,
    scores: scoresOf(rollout, traceId),
    nodes,
    bare,
    leaves: leavesOf(trace),
    compactionAttempts: openAttempts(rollout, traceId),
    policyStart: versions.start ?? lift(start.policyVersion, start.offset),
    policyEnd: versions.end ?? lift(start.policyVersionEnd ?? start.policyVersion, start.offset),
    temperature: same(calls.map((call) => call.temperature)),
    logprobsMode: modeOf(calls),
    tokenizerHash: same(calls.map((call) => call.tokenizerHash)),
    mixedTokenizers: new Set(calls.flatMap((call) => call.tokenizerHash ?? [])).size > 1,
    demonstration: start.demonstration,
    logOffset: [rollout.partition, offset],
  };
}

/** The newest item whose `field` is known. */
export function latest<T, K extends keyof T>(items: readonly T[], field: K): T | undefined {
  return items.findLast((item) => item[field] !== null);
}

type Lift = (version: number | null, offset: number) => number | null;

function lifter(partition: number, foreign: readonly Foreign[]): Lift {
  return (version, offset) => {
    if (version === null) return null;
    let lifted = version;
    for (const { above, positions } of foreign) if (offset < (positions[partition] ?? 0)) lifted = Math.min(lifted, above);
    return lifted;
  };
}

function splitNodes(
  trace: TraceFacts,
  calls: readonly CallFact[],
  load: LoadColumns,
  lift: Lift,
  teacher: string | null,
): { nodes: Map<number, NodeTokens>; bare: Map<number, BareNode> } {
  const nodes = new Map<number, NodeTokens>();
  const bare = new Map<number, BareNode>();
  const byNode = new Map(calls.flatMap((call) => (call.node === null ? [] : [[call.node, call] as const])));
  for (const node of [...trace.nodes.values()].toSorted((a, b) => a.index - b.index)) {
    const { index, parent, role, sampled, tokens } = node;
    if (tokens === null) {
      bare.set(index, { index, parent, role, sampled });
      continue;
    }
    if (tokens.at === null) throw new Error(`the columns of node ${index} of trace ${trace.trace} were let go`);
    const call = (node.call === null ? undefined : trace.calls.get(node.call)) ?? byNode.get(index);
    const columns = load.tokens(tokens.at, tokens.length, tokens.masked);
    const scores = teacher === null ? undefined : trace.references.get(referenceKey(index, teacher));
    nodes.set(index, {
      index,
      parent,
      role,
      sampled,
      ...columns,
      ...(scores === undefined ? {} : { referenceLogprobs: load.scores(scores.at) }),
      policyRuns:
        node.policyRuns?.map((run): PolicyRun => ({ length: run.length, version: lift(run.version, node.offset) as number })) ?? null,
      policyVersion: lift(versionOf(node, call), node.offset),
      temperature: call?.temperature ?? null,
      attribution: node.attribution,
      partial: node.partial,
    });
  }
  return { nodes, bare };
}

/** The oldest version that may have sampled the node. */
function versionOf(node: NodeFact, call: CallFact | undefined): number | null {
  if (node.policyVersion !== null) return node.policyVersion;
  return node.policyRuns?.[0]?.version ?? call?.policyVersion ?? null;
}

/** Policy versions at the first and the last call; where calls say nothing, of the sampled nodes. */
function versionsOf(
  calls: readonly CallFact[],
  nodes: ReadonlyMap<number, NodeTokens>,
  lift: Lift,
): { start: number | null; end: number | null } {
  const first = calls.find((call) => call.policyVersion !== null);
  const last = calls.findLast((call) => (call.policyVersionEnd ?? call.policyVersion) !== null);
  const sampled = [...nodes.values()].flatMap((node) => (node.sampled && node.policyVersion !== null ? [node.policyVersion] : []));
  const start = first === undefined ? null : lift(first.policyVersion, first.offset);
  const end = last === undefined ? null : lift(last.policyVersionEnd ?? last.policyVersion, last.offset);
  return { start: start ?? sampled[0] ?? null, end: end ?? sampled.at(-1) ?? null };
}

/** Nodes that are nobody's parent, ascending. */
export function leavesOf(trace: TraceFacts): number[] {
  const parents = new Set([...trace.nodes.values()].map(({ parent }) => parent));
  return [...trace.nodes.keys()].filter((index) => !parents.has(index)).toSorted((a, b) => a - b);
}

/** Leaves that tried to compact the history and that nothing was resumed from. */
export function openAttempts(rollout: Pick<RolloutFacts, 'links'>, trace: string): Set<number> {
  const own = rollout.links.filter((link) => link.trace === trace);
  const resumed = new Set(own.filter(({ type }) => type === 'compaction').map(({ node }) => node));
  return new Set(own.filter(({ type, node }) => type === 'compaction_attempt' && !resumed.has(node)).map(({ node }) => node));
}

function errorOf(rollout: RolloutFacts, trace: string): string | null {
  const found = rollout.errors.findLast((error) => error.trace === null || error.trace === trace)?.type ?? null;
  if (found !== null) return found;
  const end = endOf(rollout);
  if (end?.kind === 'cancelled') return 'cancelled';
  return end?.ok === false ? (end.reason ?? 'failed') : null;
}

/** The one value all calls share; null when they differ or say nothing. */
function same<T extends string | number>(values: readonly (T | null)[]): T | null {
  const known = new Set(values.filter((value) => value !== null));
  return known.size === 1 ? ([...known][0] as T) : null;
}

function modeOf(calls: readonly CallFact[]): LogprobsMode {
  const modes = new Set(calls.filter(({ failed, node }) => !failed || node !== null).map(({ logprobsMode }) => logprobsMode ?? 'unknown'));
  return modes.size === 1 ? ([...modes][0] as LogprobsMode) : 'unknown';
}
