/**
 * What a feed knows of one rollout: a fold over the rollout's events, which lie in one log partition, in order. Every fact keeps the offset it came at, so
 * that the facts can be read as of any position: a group's ready decision fixes how much of each rollout counts, and what lies beyond never enters.
 * Token columns are not here but in the row file; a fact holds the handle.
 */
import type { PolicyRun, LogprobsMode, NodeTokens } from './ready-group.ts';

/** Where the columns of one node (or of one teacher's scores) lie in the row file. */
export type ColumnsRef = {
  readonly segment: number;
  readonly start: number;
  readonly bytes: number;
  readonly crc: number;
  readonly columns: number;
};

/** Lengths of the columns: ids, and ids with mask 1. `at` is null where only the length is of interest. */
export type TokensFact = { readonly length: number; readonly masked: number; readonly at: ColumnsRef | null };

export type NodeFact = {
  readonly offset: number;
  readonly index: number;
  readonly parent: number | null;
  readonly role: string;
  readonly sampled: boolean;
  readonly partial: boolean;
  readonly call: number | null;
  readonly attribution: NodeTokens['attribution'];
  readonly policyVersion: number | null;
  readonly policyRuns: readonly PolicyRun[] | null;
  readonly tokens: TokensFact | null;
};

export type CallFact = {
  readonly offset: number;
  readonly index: number;
  readonly node: number | null;
  readonly policyVersion: number | null;
  readonly policyVersionEnd: number | null;
  readonly temperature: number | null;
  readonly logprobsMode: LogprobsMode | null;
  readonly tokenizerHash: string | null;
  readonly failed: boolean;
};

/** The first `rollout.started` decides: a rollout never moves to another group. `time` and `started` in microseconds. */
export type StartFact = {
  readonly offset: number;
  readonly time: number;
  readonly group: string;
  readonly solo: boolean;
  readonly size: number | null;
  readonly env: string;
  readonly taskKey: string | null;
  readonly demonstration: string | null;
  readonly policyVersion: number | null;
  readonly policyVersionEnd: number | null;
  readonly attempt: number;
  readonly mirrorOf: string | null;
};

/** `id` is the event's: a late re-send of an old event must not undo a newer one. */
export type RewardFact = {
  readonly offset: number;
  readonly id: string;
  /** null = scope rollout. */
  readonly trace: string | null;
  readonly name: string;
  readonly score: number | null;
  readonly weight: number;
};

export type EndFact = {
  readonly offset: number;
  readonly id: string;
  readonly time: number;
  readonly kind: 'ended' | 'cancelled';
  readonly ok: boolean | null;
  readonly reason: string | null;
};

export type TraceStart = {
  readonly offset: number;
  readonly id: string;
  readonly agent: string | null;
  readonly trainable: boolean | null;
  readonly mirrorOf: string | null;
};
export type TraceEnd = {
  readonly offset: number;
  readonly id: string;
  readonly ok: boolean | null;
  readonly stopCondition: string | null;
  readonly truncated: boolean | null;
};
/** Scores of one node by `source`. */
export type ReferenceFact = {
  readonly offset: number;
  readonly node: number;
  readonly source: string;
  readonly version: string | null;
  readonly at: ColumnsRef;
};
export type LinkFact = {
  readonly offset: number;
  readonly type: 'compaction' | 'compaction_attempt';
  readonly trace: string;
  readonly node: number;
};
export type ErrorFact = { readonly offset: number; readonly trace: string | null; readonly type: string };

export type TraceFacts = {
  readonly trace: string;
  /** Offset of the first event of the trace. */
  readonly offset: number;
  readonly starts: TraceStart[];
  readonly ends: TraceEnd[];
  /** By index. */
  readonly nodes: Map<number, NodeFact>;
  readonly calls: Map<number, CallFact>;
  /** The first score of each node by each teacher of the feed, by `referenceKey`. */
  readonly references: Map<string, ReferenceFact>;
};

export type RolloutFacts = {
  readonly key: string;
  readonly run: string;
  readonly rollout: string;
  readonly partition: number;
  start: StartFact | null;
  readonly traces: Map<string, TraceFacts>;
  readonly rewards: RewardFact[];
  readonly ends: EndFact[];
  readonly links: LinkFact[];
  readonly errors: ErrorFact[];
  /** When the feed last heard of it, by its own clock (fold.ts); 0 once it is frozen. Not part of what two folds must agree on. */
  heard: number;
  producer: string | null;
  /** Events at this offset and beyond are not taken; null = no decision yet. */
  limit: number | null;
  /** It is in a group that does without it: only its length is of interest. */
  straggler: boolean;
};

export function newRollout(key: string, run: string, rollout: string, partition: number): RolloutFacts {
  return {
    key, run, rollout, partition, start: null, traces: new Map(), rewards: [], ends: [], links: [], errors: [], heard: 0, producer: null, limit: null, straggler: false,
  }; // prettier-ignore
}

/** Which of a trace's references: of a node, by a teacher. */
export function referenceKey(node: number, source: string): string {
  return `${node} ${source}`;
}

/** Columns that a handle holds beside ids and mask; `scores` = a list of log-probabilities alone. */
export const HAS_COLUMN = { content: 1, logprobs: 2, reference: 4, scores: 8 } as const;

/** The trace, made at its first event. */
export function traceOf(facts: RolloutFacts, trace: string, offset: number): TraceFacts {
  let found = facts.traces.get(trace);
  if (found === undefined) {
    found = { trace, offset, starts: [], ends: [], nodes: new Map(), calls: new Map(), references: new Map() };
    facts.traces.set(trace, found);
  }
  return found;
}

/** How it ended: the first of "ended" and "cancelled" counts, and the latest word on whether it was well; null while it runs. */
export function endOf(facts: RolloutFacts): EndFact | null {
  const [first] = facts.ends;
  if (first === undefined || first.kind === 'cancelled') return first ?? null;
  return facts.ends.findLast(({ kind, ok }) => kind === 'ended' && ok !== null) ?? first;
}

/** Tokens of all its nodes, each once. */
export function lengthOf(facts: RolloutFacts): number {
  let length = 0;
  for (const trace of facts.traces.values()) for (const { tokens } of trace.nodes.values()) length += tokens?.length ?? 0;
  return length;
}

/** Calls `release` with every handle of columns the rollout holds. */
export function releaseColumns(facts: RolloutFacts, release: (ref: ColumnsRef) => void): void {
  for (const trace of facts.traces.values()) {
    for (const { tokens } of trace.nodes.values()) if (tokens !== null && tokens.at !== null) release(tokens.at);
    for (const { at } of trace.references.values()) release(at);
  }
}

/** Forgets what came at `limit` or beyond, and takes nothing more from there. */
export function freeze(facts: RolloutFacts, limit: number, release: (ref: ColumnsRef) => void): void {
  facts.limit = limit;
  facts.heard = 0;
  facts.producer = null;
  const early = (fact: { readonly offset: number }): boolean => fact.offset < limit;
  for (const [id, trace] of facts.traces) {
    for (const [index, node] of trace.nodes) {
      if (early(node)) continue;
      if (node.tokens !== null && node.tokens.at !== null) release(node.tokens.at);
      trace.nodes.delete(index);
    }
    for (const [index, reference] of trace.references) {
      if (early(reference)) continue;
      release(reference.at);
      trace.references.delete(index);
    }
    for (const [index, call] of trace.calls) if (!early(call)) trace.calls.delete(index);
    keep(trace.starts, early);
    keep(trace.ends, early);
    if (!early(trace)) facts.traces.delete(id);
  }
  keep(facts.rewards, early);
  keep(facts.ends, early);
  keep(facts.links, early);
  keep(facts.errors, early);
}

function keep<T>(list: T[], wanted: (item: T) => boolean): void {
  const kept = list.filter(wanted);
  if (kept.length < list.length) list.splice(0, list.length, ...kept);
}
