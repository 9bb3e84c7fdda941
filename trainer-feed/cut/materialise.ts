/**
 * Writes the arrays of a planned row and hashes them. Tokens are copied as blocks; one buffer holds all columns of a row, in the order they are hashed in
 * (docs/algorithms.md, "Identity").
 */
import { hash } from 'node:crypto';
import { endianness } from 'node:os';
import type { Credit } from './credit.ts';
import { nodeTemperature } from './draft-row.ts';
import type { FrozenDraft } from './freeze.ts';
import { eachSpan, spread, writeMask } from './mask.ts';
import type { RowPlan } from './plan-rows.ts';
import { rowIdOf, type Row } from './row.ts';
import type { Slab } from './slab.ts';

if (endianness() !== 'LE') throw new Error('token columns are copied as little-endian bytes: this machine is big-endian');

const CONTENT_HEAD = 48;
const SIGNAL_HEAD = 16;
const CONTENT_MAGIC = 0x31574f52; // "ROW1"
const SIGNAL_MAGIC = 0x31474953; // "SIG1"

/** The row with its arrays. `factor` is the reduction's (float64); weights are rounded to float32 once, here. */
export function materialise(plan: RowPlan, factor: number, slab: Slab): Row {
  const { row, members } = plan;
  const { draft, member } = row;
  const { trace } = member;
  const status = trace.truncated ? 'truncated' : 'completed';
  const reward = Number.isNaN(member.member.reward) ? null : member.member.reward;
  const content = writeContent(row, { status, reward }, slab);
  const signal = writeSignal(plan, factor, content.lossMask, slab);
  return {
    rowId: rowIdOf(trace.run, trace.rollout, trace.trace, draft.leaf),
    run: trace.run,
    rollout: trace.rollout,
    trace: trace.trace,
    leaf: draft.leaf,
    group: trace.group,
    env: trace.env,
    taskKey: trace.taskKey,
    agent: trace.agent,
    status,
    seqLen: draft.length,
    ...content,
    ...signal,
    reward,
    policyVersionMin: draft.minVersion,
    policyVersionMax: draft.maxVersion,
    staleness: row.staleness,
    logOffset: trace.logOffset,
    nodes: draft.path.map((node) => node.tokens.index),
    multimodal: draft.multimodal,
    members,
  };
}

type Content = Pick<Row, 'tokenIds' | 'lossMask' | 'logprobs' | 'refLogprobs' | 'temperature' | 'contentHash'>;

function writeContent(row: FrozenDraft, scalars: Pick<Row, 'status' | 'reward'>, slab: Slab): Content {
  const { length, temperature } = row.draft;
  const withReference = row.env.algorithm.streams.refKl !== 0;
  const varies = temperature === 'varies';
  const bytes = CONTENT_HEAD + length * contentBytes(withReference, varies);
  const { buffer, offset } = slab.take(bytes);
  let at = offset + CONTENT_HEAD;
  const tokenIds = new Int32Array(buffer, at, length);
  const logprobs = new Float32Array(buffer, (at += 4 * length), length);
  const refLogprobs = withReference ? new Float32Array(buffer, (at += 4 * length), length) : null;
  const temperatures = varies ? new Float32Array(buffer, (at += 4 * length), length) : null;
  const lossMask = new Uint8Array(buffer, at + 4 * length, length);
  writeTokens(row, tokenIds, lossMask, logprobs, refLogprobs);
  if (temperatures !== null) writeTemperatures(row, temperatures);
  writeContentHead(new DataView(buffer, offset, CONTENT_HEAD), row, scalars, { reference: withReference, temperatures: varies });
  const contentHash = hash('sha256', new Uint8Array(buffer, offset, bytes), 'hex');
  return { tokenIds, lossMask, logprobs, refLogprobs, temperature: varies ? temperatures : temperature, contentHash };
}

function contentBytes(reference: boolean, temperatures: boolean): number {
  return 9 + (reference ? 4 : 0) + (temperatures ? 4 : 0);
}

/** Bytes the arrays of a row take at most. */
export function rowBytes({ draft, env }: FrozenDraft): number {
  return (
    CONTENT_HEAD + SIGNAL_HEAD + 16 + draft.length * (contentBytes(env.algorithm.streams.refKl !== 0, draft.temperature === 'varies') + 16)
  );
}

/** One per token: that of the node for nodes the model produced, 1 for others. */
function writeTemperatures({ draft, member }: FrozenDraft, target: Float32Array): void {
  let at = 0;
  for (const [i, node] of draft.path.entries()) {
    const keep = i === draft.path.length - 1 ? draft.lastKeep : node.length;
    target.fill(node.sampled > 0 ? (nodeTemperature(node, member.trace) ?? 1) : 1, at, at + keep);
    at += keep;
  }
}

function writeTokens(
  row: FrozenDraft,
  ids: Int32Array,
  lossMask: Uint8Array,
  logprobs: Float32Array,
  reference: Float32Array | null,
): void {
  const { path, lastKeep } = row.draft;
  let at = 0;
  for (let i = 0; i < path.length; i++) {
    const node = path[i] as (typeof path)[number];
    const { tokens } = node;
    const keep = i === path.length - 1 ? lastKeep : node.length;
    ids.set(new Int32Array(tokens.ids.buffer, tokens.ids.byteOffset, keep), at);
    if (row.trains[i] === 1) {
      writeMask(lossMask, at, node, keep, row.oldest);
      if (tokens.logprobs !== null) spread(logprobs, at, node, tokens.logprobs, keep, lossMask);
      if (reference !== null && tokens.referenceLogprobs !== null) spread(reference, at, node, tokens.referenceLogprobs, keep, lossMask);
    }
    at += keep;
  }
}

function writeContentHead(
  view: DataView,
  { draft }: FrozenDraft,
  { status, reward }: Pick<Row, 'status' | 'reward'>,
  has: { readonly reference: boolean; readonly temperatures: boolean },
): void {
  const scalars = [reward, typeof draft.temperature === 'number' ? draft.temperature : null, draft.minVersion, draft.maxVersion];
  const flags = (has.reference ? 16 : 0) | (has.temperatures ? 32 : 0);
  view.setUint32(0, CONTENT_MAGIC, true);
  view.setUint32(4, draft.length, true);
  view.setUint8(8, status === 'truncated' ? 1 : 0);
  view.setUint8(9, scalars.reduce<number>((bits, value, i) => (value === null ? bits : bits | (1 << i)), flags)); // prettier-ignore
  for (const [i, value] of scalars.entries()) view.setFloat64(16 + 8 * i, value ?? 0, true);
}

type Signal = Pick<Row, 'advantage' | 'rlWeights' | 'ceWeights' | 'refKlWeights' | 'signalHash'>;

function writeSignal(plan: RowPlan, factor: number, lossMask: Uint8Array, slab: Slab): Signal {
  const { row, credit, members, observed } = plan;
  const { rl, ce, refKl } = row.env.algorithm.streams;
  const length = row.draft.length;
  const rlWeight = members.rl === 0 ? 0 : Math.fround(rl * factor);
  const perToken = credit !== null && typeof credit !== 'number';
  const hasRl = !(rlWeight === 1 && members.rl === row.tokens);
  const hasCe = ce !== 0 || observed.length > 0;
  const arrays = [perToken, hasRl, hasCe, refKl !== 0];
  const bytes = SIGNAL_HEAD + arrays.filter(Boolean).length * 4 * length;
  const { buffer, offset } = slab.take(bytes);
  let next = offset + SIGNAL_HEAD;
  const [advantages, rlWeights, ceWeights, refKlWeights] = arrays.map((present) => {
    if (!present) return null;
    const array = new Float32Array(buffer, next, length);
    next += 4 * length;
    return array;
  }) as [Float32Array | null, Float32Array | null, Float32Array | null, Float32Array | null];
  if (advantages !== null) place(advantages, lossMask, credit as Float32Array);
  if (rlWeights !== null && rlWeight !== 0) fillTrained(rlWeights, lossMask, rlWeight, plan.dropsZero ? advantages : null);
  if (ceWeights !== null && ce !== 0) fillTrained(ceWeights, lossMask, ce, null);
  if (ceWeights !== null) for (const one of observed) fillObserved(ceWeights, row, one);
  if (refKlWeights !== null) fillTrained(refKlWeights, lossMask, refKl, null);
  const view = new DataView(buffer, offset, SIGNAL_HEAD);
  view.setUint32(0, SIGNAL_MAGIC, true);
  view.setUint8(4, credit === null ? 0 : perToken ? 2 : 1);
  view.setUint8(5, (hasRl ? 1 : 0) | (hasCe ? 2 : 0) | (refKl !== 0 ? 4 : 0));
  if (typeof credit === 'number') view.setFloat32(8, credit, true);
  const advantage: Credit = advantages ?? credit;
  return { advantage, rlWeights, ceWeights, refKlWeights, signalHash: hash('sha256', new Uint8Array(buffer, offset, bytes), 'hex') };
}

/** Values in order at the trained positions. */
function place(target: Float32Array, lossMask: Uint8Array, values: Float32Array): void {
  for (let i = 0, k = 0; i < lossMask.length; i++) if (lossMask[i] === 1) target[i] = values[k++] as number;
}

/** `weight` at the trained positions; where `unless` is given, not at those where it is 0. */
function fillTrained(target: Float32Array, lossMask: Uint8Array, weight: number, unless: Float32Array | null): void {
  eachSpan(lossMask, lossMask.length, (start, end) => {
    if (unless === null) target.fill(weight, start, end);
    else for (let i = start; i < end; i++) if (unless[i] !== 0) target[i] = weight;
  });
}

function fillObserved(
  target: Float32Array,
  { draft }: FrozenDraft,
  observed: { readonly node: number; readonly weight: number; readonly keep: Uint8Array | null },
): void {
  let at = 0;
  for (let i = 0; i < observed.node; i++) at += draft.path[i]?.length ?? 0;
  const length = observed.node === draft.path.length - 1 ? draft.lastKeep : (draft.path[observed.node]?.length ?? 0);
  for (let i = 0; i < length; i++) if (observed.keep === null || observed.keep[i] === 1) target[at + i] = observed.weight;
}
