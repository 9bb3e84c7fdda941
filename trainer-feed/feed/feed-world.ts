/** A small world for tests: rollouts of groups as their producers tell of them, over several log partitions, in any order that a log may hold. */
import { seededRandom } from '../../base/random.ts';
import { uuidV8 } from '../../base/uuid.ts';
import { hash } from 'node:crypto';
import { checkEvent } from '../../events/check.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { partitionKey } from '../../events/partition-key.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import { partitionOf } from '../../store/log/partitioner.ts';

export type WorldOptions = {
  readonly seed: number;
  readonly groups: number;
  readonly size: number;
  readonly partitions: number;
  /** Share of rollouts that fail, are cancelled, are never heard of again, are evals; and of groups with more rollouts than their size. */
  readonly trouble?: number;
  readonly run?: string;
  /** Rollouts sampled by weights up to this version, older first. */
  readonly versions?: number;
  readonly turns?: number;
  readonly tokensPerTurn?: number;
};

export const T0 = 1_750_000_000_000_000;

/** Events by partition, each partition in log order. All events of one rollout are in one partition, in the order in which it sent them. */
export function world(options: WorldOptions): TapedeckEvent[][] {
  const { seed, groups, size, partitions, trouble = 0 } = options;
  const random = seededRandom(seed);
  const streams: TapedeckEvent[][] = [];
  for (let g = 0; g < groups; g++) {
    const extra = random.next() < trouble ? 1 + Math.floor(random.next() * 2) : 0;
    for (let i = 0; i < size + extra; i++) streams.push(rolloutEvents(options, g, i, random));
    if (random.next() < trouble * 0.3) streams.push([sealed(options, g, size)]);
  }
  const logs: TapedeckEvent[][] = Array.from({ length: partitions }, () => []);
  const cursors = streams.map((stream) => ({ stream, at: 0 }));
  while (cursors.length > 0) {
    // mostly the oldest rollouts go on, so that groups finish one after another
    const pick = Math.floor(random.next() ** 2 * Math.min(cursors.length, size * 3));
    const cursor = cursors[pick] as (typeof cursors)[number];
    const event = cursor.stream[cursor.at++] as TapedeckEvent;
    const log = logs[partitionOf(partitionKey(event), partitions)] as TapedeckEvent[];
    log.push(event);
    if (random.next() < trouble * 0.1 && log.length > 3) log.push(log[Math.floor(random.next() * log.length)] as TapedeckEvent); // sent again
    if (cursor.at === cursor.stream.length) cursors.splice(pick, 1);
  }
  return logs;
}

export const u32 = (values: readonly number[]): PackedArray<'u32'> => PackedArray.of(new Uint32Array(values));
export const u8 = (values: readonly number[]): PackedArray<'u8'> => PackedArray.of(new Uint8Array(values));
export const f32 = (values: readonly number[]): PackedArray<'f32'> => PackedArray.of(new Float32Array(values));

/** A checked event; throws when it is none. */
export function event(
  type: TapedeckEvent['type'],
  ids: Partial<Record<'run' | 'group' | 'rollout' | 'trace', string>>,
  time: number,
  data: object,
): TapedeckEvent {
  const id = uuidV8(hash('sha256', JSON.stringify([type, ids, time, Object.keys(data), JSON.stringify(data)]), 'buffer'));
  const checked = checkEvent({ v: 1, id, type, project: 'default', time, ...ids, data });
  if (!checked.ok) throw new Error(`${type}: ${checked.error.message}`);
  return checked.value;
}

function sealed({ run = 'run-1' }: WorldOptions, g: number, size: number): TapedeckEvent {
  return event('group.sealed', { run, group: `group-${g}` }, T0 + g * 1000 + 500, { size, reason: 'complete' });
}

function rolloutEvents(options: WorldOptions, g: number, i: number, random: ReturnType<typeof seededRandom>): TapedeckEvent[] {
  const { size, trouble = 0, run = 'run-1', groups, versions = 0, turns = 2, tokensPerTurn = 6 } = options;
  const unlucky = (share: number): boolean => random.next() < trouble * share;
  const rollout = `rollout-${g}-${i}`;
  const ids = { run, group: `group-${g}`, rollout };
  const trace = { ...ids, trace: `trace-${g}-${i}` };
  const version = versions === 0 ? 0 : Math.floor((g / groups) * versions);
  let time = T0 + g * 1000 + i * 10;
  const at = (): number => time++;
  const work = { type: unlucky(0.1) ? 'eval' : 'train' };
  const events = [
    event('rollout.started', ids, at(), {
      env: { id: 'toy' },
      task: { key: `task-${g}` },
      group: { id: ids.group, size },
      work,
      policyVersion: version,
    }),
    event('trace.started', trace, at(), { agent: { name: 'solver', trainable: true } }),
  ];
  const token = (): number => Math.floor(random.next() * 50_000);
  for (let turn = 0; turn < turns; turn++) {
    const prompt = Array.from({ length: 1 + Math.floor(random.next() * tokensPerTurn) }, token);
    const answer = Array.from({ length: 1 + Math.floor(random.next() * tokensPerTurn) }, token);
    const parent = turn === 0 ? null : turn * 2 - 1;
    events.push(
      event('node.appended', trace, at(), { index: turn * 2, parent, role: 'user', sampled: false, tokens: { ids: u32(prompt), mask: u8(prompt.map(() => 0)) } }),
      event('node.appended', trace, at(), {
        index: turn * 2 + 1, parent: turn * 2, role: 'assistant', sampled: true, call: turn,
        tokens: { ids: u32(answer), mask: u8(answer.map(() => 1)), logprobs: f32(answer.map(() => -random.next())) },
      }),
      event('call.recorded', trace, at(), { index: turn, node: turn * 2 + 1, policyVersion: version, sampling: { temperature: 1 }, logprobsMode: 'processed' }),
    ); // prettier-ignore
  }
  if (unlucky(0.1)) return events; // never heard of again
  if (unlucky(0.1)) return [...events, event('rollout.cancelled', ids, at(), { reason: 'user' })];
  const ok = !unlucky(0.15);
  const reward = event('reward.assigned', trace, at(), {
    scope: 'trace',
    name: 'correct',
    score: unlucky(0.1) ? null : Math.round(random.next() * 4) / 4,
  });
  const ends = [event('trace.ended', trace, at(), { ok }), event('rollout.ended', ids, at(), { ok })];
  const late = event('reward.assigned', trace, at(), { scope: 'trace', name: 'correct', score: 1 });
  if (unlucky(0.2)) return [...events, ...ends, reward]; // scored after the end
  return unlucky(0.2) ? [...events, reward, ...ends, late] : [...events, reward, ...ends];
}
