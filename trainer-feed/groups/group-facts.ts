/**
 * What a feed knows of the rollouts that may enter it: a fold over the events topic. The result depends on which events were read (a prefix of each partition) and
 * on the decisions of the feed, not on the order in which partitions and decisions were interleaved; a test shuffles them. Rollouts of one group may lie in
 * several partitions; they are joined by the group's name.
 */
import type { EventOf, TapedeckEvent } from '../../events/registry.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import type { PackedArray } from '../../events/packed-array.ts';
import type { Admission } from './admission.ts';
import { admits, demonstrationOf } from './admission.ts';
import { DigestSet } from './digest-set.ts';
import { groupKey, rolloutKey, type GroupName } from './keys.ts';
import { applyReport, type ReportFacts } from './report-facts.ts';
import {
  freeze, newRollout, referenceKey, releaseColumns, traceOf, type ColumnsRef, type NodeFact, type RolloutFacts, type StartFact, type TokensFact, type TraceFacts,
} from './rollout-facts.ts'; // prettier-ignore

/** Where an event lies. */
export type Place = { readonly partition: number; readonly offset: number };

/** Columns of a node, as the log has them. */
export type TokenColumns = {
  readonly ids: PackedArray<'u32'>;
  readonly mask: PackedArray<'u8'>;
  readonly isContent?: PackedArray<'u8'> | null | undefined;
  readonly logprobs?: PackedArray<'f32'> | null | undefined;
  readonly referenceLogprobs?: PackedArray<'f32'> | null | undefined;
};

/** Where token columns go: the row file, or memory in tests. */
export type ColumnsStore = {
  readonly keep: (tokens: TokenColumns) => ColumnsRef;
  readonly keepScores: (logprobs: PackedArray<'f32'>) => ColumnsRef;
  readonly release: (ref: ColumnsRef) => void;
};

/** What the feed decided about a group. `members` and `rollouts` are rollout keys; `limits` = how much of each partition counts for a ready group. */
export type GroupDecided =
  | { readonly kind: 'none' | 'gone' }
  | { readonly kind: 'sealed'; readonly rollouts: ReadonlySet<string> }
  | { readonly kind: 'ready'; readonly rollouts: ReadonlySet<string>; readonly limits: readonly number[] };

/** The decisions, as far as the facts depend on them. */
export type Decided = { group(key: string): GroupDecided; isClosed(rollout: string): boolean };

export type Seal = { readonly offset: number; readonly size: number; readonly reason: 'complete' | 'deadline' | 'cancelled' };

/** A group as its producers tell of it. It is there as long as it has a rollout that may count, or was sealed. */
export type GroupFacts = {
  readonly key: string;
  readonly name: GroupName;
  seal: Seal | null;
  /** When the feed first saw it, or when its members were fixed, by the feed's own clock (fold.ts). Not part of what two folds must agree on. */
  since: number;
  /** Keys of rollouts that started in it and may count. */
  readonly rollouts: Set<string>;
};

export type FeedFacts = {
  readonly admission: Admission;
  /** By partition: everything below was read. */
  readonly positions: number[];
  readonly rollouts: Map<string, RolloutFacts>;
  readonly groups: Map<string, GroupFacts>;
  /** Rollouts that no group will take and that wait to be recorded as dropped. */
  readonly stragglers: Set<string>;
  /** Rollouts that the filter refused. */
  readonly refused: DigestSet;
  readonly skipped: { work: number; unlabelled: number; env: number };
  readonly endedRuns: Set<string>;
  readonly deletedRuns: Set<string>;
  /** Timeline -> newest published policy version. */
  readonly policies: Map<number, number>;
  readonly reports: ReportFacts;
};

export function newFacts(admission: Admission, positions: readonly number[]): FeedFacts {
  return {
    admission, positions: [...positions], rollouts: new Map(), groups: new Map(), stragglers: new Set(), refused: new DigestSet(),
    skipped: { work: 0, unlabelled: 0, env: 0 }, endedRuns: new Set(), deletedRuns: new Set(), policies: new Map(), reports: new Map(),
  }; // prettier-ignore
}

/** `now`: the feed's own clock, microseconds. */
type Context = { readonly facts: FeedFacts; readonly decided: Decided; readonly columns: ColumnsStore; readonly now: number };

/** Folds one event in. Returns the key of the group it touched, or null. Does not move `positions`. */
export function applyEvent(event: TapedeckEvent, place: Place, context: Context): string | null {
  const { facts } = context;
  const { admission } = facts;
  if ((event.project ?? DEFAULT_PROJECT) !== admission.project) return null;
  const { run } = event;
  if (run === undefined || (admission.runs !== null && !admission.runs.includes(run))) return null;
  switch (event.type) {
    case 'run.ended':
      facts.endedRuns.add(run);
      return null;
    case 'run.deleted':
      facts.deletedRuns.add(run);
      return null;
    case 'policy.published': {
      const timeline = event.data.timeline ?? 0;
      facts.policies.set(timeline, Math.max(facts.policies.get(timeline) ?? 0, event.data.version));
      applyReport(event, facts.reports);
      return null;
    }
    case 'trainer.stepped':
      applyReport(event, facts.reports);
      return null;
    case 'group.sealed':
      return facts.deletedRuns.has(run) ? null : applySeal(event, run, place, context);
    default:
      return facts.deletedRuns.has(run) || event.rollout === undefined ? null : applyToRollout(event, run, place, context);
  }
}

function applySeal(event: EventOf<'group.sealed'>, run: string, place: Place, { facts, decided, now }: Context): string | null {
  const name = { run, group: event.group as string, solo: false };
  const key = groupKey(name);
  if (decided.group(key).kind === 'gone') return null;
  const group = groupOf(facts, name, key, now);
  group.seal ??= { offset: place.offset, size: event.data.size, reason: event.data.reason };
  return key;
}

function groupOf(facts: FeedFacts, name: GroupName, key: string, now: number): GroupFacts {
  let group = facts.groups.get(key);
  if (group === undefined) {
    group = { key, name, seal: null, since: now, rollouts: new Set() };
    facts.groups.set(key, group);
  }
  return group;
}

const OF_INTEREST: ReadonlySet<string> = new Set([
  'rollout.started', 'rollout.ended', 'rollout.cancelled', 'trace.started', 'trace.ended', 'node.appended', 'call.recorded', 'link.added', 'reward.assigned',
  'reference.scored', 'error.recorded',
]); // prettier-ignore

const OF_RUNS: ReadonlySet<string> = new Set(['run.ended', 'run.deleted', 'policy.published', 'trainer.stepped', 'group.sealed']);

/** True for types that may change facts; others need not be decoded further. */
export function isOfInterest(type: string): boolean {
  return OF_INTEREST.has(type) || OF_RUNS.has(type);
}

function applyToRollout(event: TapedeckEvent, run: string, place: Place, context: Context): string | null {
  if (!OF_INTEREST.has(event.type)) return null;
  const { facts, decided } = context;
  const rollout = event.rollout as string;
  const key = rolloutKey(run, rollout);
  let found = facts.rollouts.get(key);
  if (found === undefined) {
    if (decided.isClosed(key) || facts.refused.has(key)) return null;
    found = newRollout(key, run, rollout, place.partition);
    facts.rollouts.set(key, found);
  }
  if (found.limit !== null && place.offset >= found.limit) return null;
  if (found.limit === null) {
    found.heard = context.now;
    found.producer = event.producer?.id ?? found.producer;
  }
  if (event.type === 'rollout.started') applyStart(event, found, place, context);
  else applyFact(event, found, place, context);
  return found.start === null ? null : groupKey({ run, ...found.start });
}

/** The first start of a rollout: joins it to its group, or refuses it for good. */
function applyStart(event: EventOf<'rollout.started'>, rollout: RolloutFacts, place: Place, context: Context): void {
  if (rollout.start !== null) return;
  const { facts, decided, columns } = context;
  const refusal = admits(facts.admission, event.data);
  if (refusal !== null) {
    facts.skipped[refusal]++;
    facts.refused.add(rollout.key);
    forget(facts, rollout, columns);
    return;
  }
  const start = startOf(event, place, facts.admission);
  rollout.start = start;
  const name = { run: rollout.run, group: start.group, solo: start.solo };
  const key = groupKey(name);
  const decision = decided.group(key);
  if (decision.kind === 'gone') {
    makeStraggler(facts, rollout, columns);
    return;
  }
  if ((decision.kind === 'sealed' || decision.kind === 'ready') && !decision.rollouts.has(rollout.key)) {
    makeStraggler(facts, rollout, columns);
    return;
  }
  groupOf(facts, name, key, context.now).rollouts.add(rollout.key);
  if (decision.kind === 'ready') freeze(rollout, decision.limits[rollout.partition] ?? 0, columns.release);
}

function startOf(event: EventOf<'rollout.started'>, place: Place, admission: Admission): StartFact {
  const { data } = event;
  const group = event.group ?? data.group?.id;
  return {
    offset: place.offset,
    time: data.started ?? event.time,
    group: group ?? (event.rollout as string),
    solo: group === undefined,
    size: group === undefined ? 1 : (data.group?.size ?? null),
    env: data.env?.id ?? '',
    taskKey: data.task?.key ?? null,
    demonstration: demonstrationOf(admission, data.env?.id ?? '', data.task?.data),
    policyVersion: data.policyVersion ?? null,
    policyVersionEnd: data.policyVersionEnd ?? null,
    attempt: data.attempt ?? 0,
    mirrorOf: data.mirrorOf ?? null,
  };
}

function forget(facts: FeedFacts, rollout: RolloutFacts, columns: ColumnsStore): void {
  releaseColumns(rollout, columns.release);
  facts.rollouts.delete(rollout.key);
  facts.stragglers.delete(rollout.key);
}

function makeStraggler(facts: FeedFacts, rollout: RolloutFacts, columns: ColumnsStore): void {
  releaseColumns(rollout, columns.release);
  rollout.straggler = true;
  for (const trace of rollout.traces.values()) {
    trace.references.clear();
    for (const [index, node] of trace.nodes)
      if (node.tokens !== null) trace.nodes.set(index, { ...node, tokens: { ...node.tokens, at: null } });
  }
  facts.stragglers.add(rollout.key);
}

function applyFact(event: TapedeckEvent, rollout: RolloutFacts, { offset }: Place, { columns, facts }: Context): void {
  switch (event.type) {
    case 'rollout.ended':
      addOnce(rollout.ends, {
        offset,
        id: event.id,
        time: event.data.ended ?? event.time,
        kind: 'ended',
        ok: event.data.ok,
        reason: event.data.stopCondition ?? null,
      });
      break;
    case 'rollout.cancelled':
      addOnce(rollout.ends, { offset, id: event.id, time: event.time, kind: 'cancelled', ok: null, reason: event.data.reason });
      break;
    case 'reward.assigned':
      applyReward(event, rollout, offset);
      break;
    case 'link.added':
      applyLink(event, rollout, offset);
      break;
    case 'error.recorded':
      if (event.data.scope === 'rollout' || event.data.scope === 'trace')
        rollout.errors.push({ offset, trace: event.data.scope === 'trace' ? (event.trace ?? null) : null, type: event.data.type });
      break;
    default:
      if (event.trace !== undefined)
        applyToTrace(event, traceOf(rollout, event.trace, offset), rollout, offset, columns, facts.admission.teachers);
  }
}

function addOnce<T extends { readonly id: string }>(list: T[], item: T): void {
  if (!list.some(({ id }) => id === item.id)) list.push(item);
}

function applyReward(event: EventOf<'reward.assigned'>, rollout: RolloutFacts, offset: number): void {
  const { scope, name, score, weight } = event.data;
  if (scope === 'node') return;
  addOnce(rollout.rewards, {
    offset,
    id: event.id,
    trace: scope === 'trace' ? (event.trace as string) : null,
    name,
    score,
    weight: weight ?? 1,
  });
}

function applyLink(event: EventOf<'link.added'>, rollout: RolloutFacts, offset: number): void {
  const { type, from, to } = event.data;
  // an attempt is named by its own leaf, which the link leads to; what is resumed from is where the link comes from
  const end = type === 'compaction_attempt' ? to : type === 'compaction' ? from : null;
  if (end === null || end.node === null || end.node === undefined) return;
  rollout.links.push({ offset, type: type as 'compaction' | 'compaction_attempt', trace: end.trace, node: end.node });
}

function applyToTrace(
  event: TapedeckEvent,
  trace: TraceFacts,
  rollout: RolloutFacts,
  offset: number,
  columns: ColumnsStore,
  teachers: ReadonlySet<string>,
): void {
  switch (event.type) {
    case 'trace.started': {
      const { agent, mirrorOf } = event.data;
      addOnce(trace.starts, {
        offset,
        id: event.id,
        agent: agent.name ?? null,
        trainable: agent.trainable ?? null,
        mirrorOf: mirrorOf ?? null,
      });
      break;
    }
    case 'trace.ended': {
      const { ok, stopCondition, truncated } = event.data;
      addOnce(trace.ends, { offset, id: event.id, ok, stopCondition: stopCondition ?? null, truncated: truncated ?? null });
      break;
    }
    case 'call.recorded':
      if (!trace.calls.has(event.data.index)) trace.calls.set(event.data.index, callFact(event, offset));
      break;
    case 'node.appended':
      if (!trace.nodes.has(event.data.index))
        trace.nodes.set(event.data.index, nodeFact(event, offset, rollout.straggler ? null : columns));
      break;
    case 'reference.scored': {
      const { node, source, version, logprobs } = event.data;
      const key = referenceKey(node, source);
      if (!teachers.has(source) || rollout.straggler || trace.references.has(key)) break;
      trace.references.set(key, { offset, node, source, version: version ?? null, at: columns.keepScores(logprobs) });
      break;
    }
    default:
  }
}

function callFact(event: EventOf<'call.recorded'>, offset: number): TraceFacts['calls'] extends Map<number, infer Fact> ? Fact : never {
  const { index, node, policyVersion, policyVersionEnd, sampling, logprobsMode, tokenizerHash, error } = event.data;
  const temperature = sampling?.['temperature'];
  return {
    offset,
    index,
    node: node ?? null,
    policyVersion: policyVersion ?? null,
    policyVersionEnd: policyVersionEnd ?? null,
    temperature: typeof temperature === 'number' ? temperature : null,
    logprobsMode: logprobsMode ?? null,
    tokenizerHash: tokenizerHash ?? null,
    failed: error !== null && error !== undefined,
  };
}

function nodeFact(event: EventOf<'node.appended'>, offset: number, columns: ColumnsStore | null): NodeFact {
  const { index, parent, role, sampled, partial, call, attribution, policyVersion, tokens } = event.data;
  return {
    offset,
    index,
    parent: parent ?? null,
    role,
    sampled,
    partial: partial ?? false,
    call: call ?? null,
    attribution: attribution ?? null,
    policyVersion: policyVersion ?? null,
    policyRuns: tokens?.policyRuns?.map(({ length, version }) => ({ length, version })) ?? null,
    tokens: tokens === null || tokens === undefined ? null : tokensFact(tokens, columns),
  };
}

function tokensFact(tokens: TokenColumns, columns: ColumnsStore | null): TokensFact {
  const { bytes } = tokens.mask;
  let masked = 0;
  for (const bit of bytes) masked += bit;
  return { length: tokens.ids.length, masked, at: columns === null ? null : columns.keep(tokens) };
}

/** A group's members were fixed (`group.closed`, sealed): the others do not count. */
export function onSealed(key: string, rollouts: ReadonlySet<string>, { facts, columns, now }: Omit<Context, 'decided'>): void {
  const group = facts.groups.get(key);
  if (group === undefined) return;
  group.since = now;
  for (const each of group.rollouts) {
    if (rollouts.has(each)) continue;
    group.rollouts.delete(each);
    makeStraggler(facts, facts.rollouts.get(each) as RolloutFacts, columns);
  }
  if (group.rollouts.size === 0 && group.seal === null) facts.groups.delete(key);
}

/** Members and rewards were fixed (`group.ready`): what lies at `limits` or beyond is forgotten, other rollouts do not count. */
export function onReady(key: string, rollouts: ReadonlySet<string>, limits: readonly number[], context: Omit<Context, 'decided'>): void {
  onSealed(key, rollouts, context);
  const { facts, columns } = context;
  for (const each of facts.groups.get(key)?.rollouts ?? []) {
    const rollout = facts.rollouts.get(each) as RolloutFacts;
    freeze(rollout, limits[rollout.partition] ?? 0, columns.release);
  }
}

/** The feed is done with the group: failed, or trained and beyond any rewind. Rollouts that are no members become stragglers. */
export function onGone(key: string, members: ReadonlySet<string>, { facts, columns }: Omit<Context, 'decided'>): void {
  const group = facts.groups.get(key);
  facts.groups.delete(key);
  for (const each of members) {
    const rollout = facts.rollouts.get(each);
    if (rollout !== undefined) forget(facts, rollout, columns);
  }
  for (const each of group?.rollouts ?? []) {
    const rollout = facts.rollouts.get(each);
    if (rollout !== undefined) makeStraggler(facts, rollout, columns);
  }
}

/** A straggler was recorded as dropped. */
export function onDropped(rollout: string, { facts, columns }: Omit<Context, 'decided'>): void {
  const found = facts.rollouts.get(rollout);
  if (found !== undefined) forget(facts, found, columns);
}
