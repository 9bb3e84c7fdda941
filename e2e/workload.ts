/** A seeded stream of whole rollouts as events: every type that matters for the tables, with late rewards and links, for crash and property tests. */
import { seededRandom, type Random } from '../base/random.ts';
import { uuidV8 } from '../base/uuid.ts';
import { PackedArray } from '../events/packed-array.ts';

export type WorkEvent = {
  readonly v: 1;
  readonly id: string;
  readonly type: string;
  readonly project: string;
  readonly run: string;
  readonly rollout?: string;
  readonly group?: string;
  readonly trace?: string;
  readonly time: number;
  readonly data: Record<string, unknown>;
};

const START = 1_790_000_000_000_000;

export class Workload {
  readonly #random: Random;
  readonly #run: string;
  readonly #project: string;
  #rollouts = 0;
  #clock = START;

  constructor(seed: number, names: { project?: string; run?: string } = {}) {
    this.#random = seededRandom(seed);
    this.#project = names.project ?? 'default';
    this.#run = names.run ?? `run-${seed}`;
  }

  /** The events of one more rollout, in the order a producer would send them. The first rollout brings the run's start. */
  rollout(nodes = 6, tokens = 48): WorkEvent[] {
    const n = this.#rollouts++;
    const rollout = `${this.#run}/rollout-${n}`;
    const group = `${this.#run}/group-${Math.floor(n / 4)}`;
    const trace = `${rollout}/trace`;
    const events: WorkEvent[] = [];
    const add = (type: string, ids: Partial<Pick<WorkEvent, 'rollout' | 'group' | 'trace'>>, data: Record<string, unknown>): void => {
      this.#clock += 1 + Math.floor(this.#random.next() * 1000);
      events.push({ v: 1, id: this.#id(), type, project: this.#project, run: this.#run, ...ids, time: this.#clock, data });
    };
    const inRollout = { rollout, group };
    const inTrace = { rollout, trace };
    if (n === 0) add('run.started', {}, { kind: 'train', name: this.#run, model: 'toy', config: { lr: 1e-6 }, tags: ['test'] });
    add('rollout.started', inRollout, { env: { id: 'toy' }, task: { key: `task-${Math.floor(n / 4)}` }, group: { id: group, size: 4 }, work: { type: 'train', step: n >> 4 }, policyVersion: n >> 4 }); // prettier-ignore
    add('trace.started', inTrace, { agent: { name: 'agent', model: 'toy', trainable: true }, tools: [] });
    for (let index = 0; index < nodes; index++) this.#node(add, inTrace, index, tokens);
    add('call.recorded', inTrace, { index: 0, node: 1, model: 'toy', finishReason: 'stop', usage: { promptTokens: 10, completionTokens: 20 }, time: { start: this.#clock - 50, end: this.#clock } }); // prettier-ignore
    add('reward.assigned', inTrace, { scope: 'trace', name: 'correct', score: this.#random.next() < 0.5 ? 1 : 0, weight: 1, source: { kind: 'code', name: 'check' } }); // prettier-ignore
    add('metric.recorded', inTrace, { scope: 'trace', name: 'length', value: nodes * tokens });
    add('trace.ended', inTrace, { ok: true, stopCondition: 'agent_completed', counts: { nodes, calls: 1 } });
    add('rollout.ended', inRollout, { ok: true, counts: { traces: 1 } });
    if (this.#random.next() < 0.3) add('reward.assigned', inTrace, { scope: 'trace', name: 'correct', score: 0.5, weight: 2, source: { kind: 'human', name: 'review' } }); // prettier-ignore
    if (this.#random.next() < 0.2)
      add('link.added', { rollout }, { from: { trace, node: 1 }, to: { trace, node: 2 }, type: 'continuation' });
    return events;
  }

  #node(
    add: (type: string, ids: { rollout: string; trace: string }, data: Record<string, unknown>) => void,
    ids: { rollout: string; trace: string },
    index: number,
    tokens: number,
  ): void {
    const sampled = index % 2 === 1;
    const ints = Uint32Array.from({ length: tokens }, () => Math.floor(this.#random.next() * 150_000));
    const mask = Uint8Array.from({ length: tokens }, () => (sampled ? 1 : 0));
    const logprobs = Float32Array.from({ length: sampled ? tokens : 0 }, () => -this.#random.next() * 4);
    add('node.appended', ids, {
      index,
      parent: index === 0 ? null : index - 1,
      role: index === 0 ? 'system' : sampled ? 'assistant' : 'user',
      message: { role: sampled ? 'assistant' : 'user', content: `message ${index} of ${ids.trace} \u{1F4FC} ${'word '.repeat(20)}` },
      sampled,
      tokens: { ids: PackedArray.of(ints), mask: PackedArray.of(mask), logprobs: PackedArray.of(logprobs) },
    });
  }

  #id(): string {
    return uuidV8(this.#random.bytes(new Uint8Array(16)));
  }
}
