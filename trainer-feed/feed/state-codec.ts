/**
 * A feed's state as bytes, for checkpoints and for comparing. Maps are written in the order of their keys, so the same state gives the same bytes; without handles into the
 * row file (`stateBytes`) they do not depend on the machine either.
 */
import { ByteWriter } from '../../base/byte-writer.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { encodeCbor } from '../../events/codec/cbor-encode.ts';
import type { Admission } from '../groups/admission.ts';
import { DigestSet } from '../groups/digest-set.ts';
import type { FeedFacts, GroupFacts } from '../groups/group-facts.ts';
import { referenceKey, type ColumnsRef, type NodeFact, type RolloutFacts, type TraceFacts } from '../groups/rollout-facts.ts';
import type { DecisionState, GroupRecord } from './decision-state.ts';
import type { FeedFold } from './fold.ts';

/** The state in bytes that are equal for equal states. */
export function stateBytes(fold: Pick<FeedFold, 'decisions' | 'facts' | 'nextDecision'>): Uint8Array {
  const out = new ByteWriter(1 << 16);
  encodeCbor(plainState(fold, false), out);
  return out.take();
}

/** With handles and times of the feed's own clock, so that the state can be taken up again beside its row file. */
export function plainState(
  { decisions, facts, nextDecision }: Pick<FeedFold, 'decisions' | 'facts' | 'nextDecision'>,
  handles: boolean,
): unknown {
  return { next: nextDecision, decisions: plainDecisions(decisions, handles), facts: plainFacts(facts, handles) };
}

/** `admission` comes from the spec, which the state holds. */
export function stateFromPlain(
  plain: unknown,
  admission: (decisions: DecisionState) => Admission,
): Pick<FeedFold, 'decisions' | 'facts' | 'nextDecision'> {
  const { next, decisions, facts } = plain as { next: number; decisions: PlainDecisions; facts: PlainFacts };
  const state = decisionsFrom(decisions);
  return { decisions: state, facts: factsFrom(facts, admission(state)), nextDecision: next };
}

function sortedEntries<V>(map: ReadonlyMap<string, V>): [string, V][] {
  return [...map].toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

function byNumber<V>(map: ReadonlyMap<number, V>): [number, V][] {
  return [...map].toSorted(([a], [b]) => a - b);
}

type PlainDecisions = ReturnType<typeof plainDecisions>;

function plainDecisions(state: DecisionState, handles: boolean) {
  const { batches, groups, readyAt: _, gone, closed, baselines, totals, ...rest } = state;
  const { dropped, failedGroups, ...sums } = totals;
  return {
    ...rest,
    batches: byNumber(batches).map(([, batch]) => batch),
    groups: sortedEntries(groups).map(([, group]) => plainGroup(group)),
    gone: plainDigests(gone, handles),
    closed: plainDigests(closed, handles),
    baselines: sortedEntries(baselines),
    totals: { ...sums, dropped: sortedEntries(dropped), failedGroups: sortedEntries(failedGroups) },
  };
}

/** They are as many as there ever were: a checkpoint does without sorting them. */
function plainDigests(set: DigestSet, handles: boolean): Uint8Array {
  return handles ? set.digests() : set.toBytes();
}

function plainGroup({ key, name, state, sealed, ready, cuts, order }: GroupRecord) {
  return {
    key, name, state, cuts, order,
    sealed: sealed === null ? null : { ...sealed, rollouts: [...sealed.rollouts].toSorted() },
    ready: ready === null ? null : { ...ready, rollouts: [...ready.rollouts].toSorted() },
  }; // prettier-ignore
}

function decisionsFrom(plain: PlainDecisions): DecisionState {
  const { batches, groups, gone, closed, baselines, totals, ...rest } = plain;
  const records = groups.map(({ sealed, ready, ...group }): GroupRecord => ({
    ...group,
    sealed: sealed === null ? null : { ...sealed, rollouts: new Set(sealed.rollouts) },
    ready: ready === null ? null : { ...ready, rollouts: new Set(ready.rollouts) },
  }));
  return {
    ...rest,
    batches: new Map(batches.map((batch) => [batch.n, batch])),
    groups: new Map(records.map((group) => [group.key, group])),
    readyAt: new Map(records.flatMap(({ key, ready }) => (ready === null ? [] : [[ready.offset, key] as const]))),
    gone: new DigestSet(gone),
    closed: new DigestSet(closed),
    baselines: new Map(baselines),
    totals: { ...totals, dropped: new Map(totals.dropped), failedGroups: new Map(totals.failedGroups) },
  };
}

type PlainFacts = ReturnType<typeof plainFacts>;

function plainFacts(facts: FeedFacts, handles: boolean) {
  const { positions, rollouts, groups, stragglers, refused, skipped, endedRuns, deletedRuns, policies, reports } = facts;
  return {
    positions,
    rollouts: sortedEntries(rollouts).map(([, rollout]) => plainRollout(rollout, handles)),
    groups: sortedEntries(groups).map(([, { rollouts: members, ...group }]) => ({
      ...group,
      since: handles ? group.since : 0,
      rollouts: [...members].toSorted(),
    })),
    stragglers: [...stragglers].toSorted(),
    refused: plainDigests(refused, handles),
    skipped,
    endedRuns: [...endedRuns].toSorted(),
    deletedRuns: [...deletedRuns].toSorted(),
    policies: byNumber(policies),
    reports: sortedEntries(reports),
  };
}

function factsFrom(plain: PlainFacts, admission: Admission): FeedFacts {
  return {
    admission,
    positions: [...plain.positions],
    rollouts: new Map(plain.rollouts.map((rollout) => [rollout.key, rolloutFrom(rollout)])),
    groups: new Map(
      plain.groups.map(({ rollouts, ...group }): [string, GroupFacts] => [group.key, { ...group, rollouts: new Set(rollouts) }]),
    ),
    stragglers: new Set(plain.stragglers),
    refused: new DigestSet(plain.refused),
    skipped: { ...plain.skipped },
    endedRuns: new Set(plain.endedRuns),
    deletedRuns: new Set(plain.deletedRuns),
    policies: new Map(plain.policies),
    reports: new Map(plain.reports),
  };
}

type PlainRollout = ReturnType<typeof plainRollout>;

function plainRollout({ traces, ...rest }: RolloutFacts, handles: boolean) {
  return { ...rest, heard: handles ? rest.heard : 0, traces: sortedEntries(traces).map(([, trace]) => plainTrace(trace, handles)) };
}

function rolloutFrom({ traces, ...rest }: PlainRollout): RolloutFacts {
  return { ...rest, traces: new Map(traces.map((trace) => [trace.trace, traceFrom(trace)])) };
}

type PlainTrace = ReturnType<typeof plainTrace>;

/** Nodes are many: they are written as lists. */
function plainTrace({ nodes, calls, references, ...rest }: TraceFacts, handles: boolean) {
  return {
    ...rest,
    nodes: byNumber(nodes).map(([, node]) => plainNode(node, handles)),
    calls: byNumber(calls).map(([, call]) => call),
    references: sortedEntries(references).map(([, { at, ...reference }]) => ({ ...reference, at: handles ? plainRef(at) : null })),
  };
}

function traceFrom({ nodes, calls, references, ...rest }: PlainTrace): TraceFacts {
  return {
    ...rest,
    nodes: new Map(nodes.map((node) => [node[1], nodeFrom(node)])),
    calls: new Map(calls.map((call) => [call.index, call])),
    references: new Map(
      references.map(({ at, ...reference }) => [
        referenceKey(reference.node, reference.source),
        { ...reference, at: refFrom(at as PlainRef) },
      ]),
    ),
  };
}

type PlainNode = ReturnType<typeof plainNode>;

function plainNode(node: NodeFact, handles: boolean) {
  const { offset, index, parent, role, sampled, partial, call, attribution, policyVersion, policyRuns, tokens } = node;
  const columns =
    tokens === null ? null : ([tokens.length, tokens.masked, handles && tokens.at !== null ? plainRef(tokens.at) : null] as const);
  return [offset, index, parent, role, sampled, partial, call, attribution, policyVersion, policyRuns, columns] as const;
}

function nodeFrom([
  offset,
  index,
  parent,
  role,
  sampled,
  partial,
  call,
  attribution,
  policyVersion,
  policyRuns,
  columns,
]: PlainNode): NodeFact {
  const tokens = columns === null ? null : { length: columns[0], masked: columns[1], at: columns[2] === null ? null : refFrom(columns[2]) };
  return { offset, index, parent, role, sampled, partial, call, attribution, policyVersion, policyRuns, tokens };
}

type PlainRef = readonly [number, number, number, number, number];

function plainRef({ segment, start, bytes, crc, columns }: ColumnsRef): PlainRef {
  return [segment, start, bytes, crc, columns];
}

function refFrom([segment, start, bytes, crc, columns]: PlainRef): ColumnsRef {
  return { segment, start, bytes, crc, columns };
}

/** The bytes of a checkpoint's content, and back. */
export function encodePlain(plain: unknown): Uint8Array {
  const out = new ByteWriter(1 << 20);
  encodeCbor(plain, out);
  return out.take();
}

export function decodePlain(bytes: Uint8Array): unknown {
  return decodeCbor(bytes);
}
