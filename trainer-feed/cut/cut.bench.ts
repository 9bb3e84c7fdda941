/**
 * Speed of a cut: the decision over 100,000 rows (grpo, and reinforce_pp with batch statistics), and tokens of rows written and hashed per second. Nodes are views into a few
 * large buffers, as they are over the row file. Times are those of the main thread, medians of the rounds.
 *
 *   npm run bench -- cut [--rounds 5]
 */
import { parseArgs } from 'node:util';
import type { NodeTokens, ReadyGroup } from '../groups/ready-group.ts';
import { decide } from './cut.ts';
import { materialise } from './materialise.ts';
import { prepareGroup } from './prepare-group.ts';
import { scoredBy, traceOf } from './ready-groups.arbitrary.ts';
import { createSlab } from './slab.ts';

const GROUPS = 12_500;
const SIZE = 8;
const rounds = Number(parseArgs({ options: { rounds: { type: 'string', default: '5' } } }).values.rounds);

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const cpuMs = (since?: NodeJS.CpuUsage): number => {
  const used = process.threadCpuUsage(since);
  return (used.user + used.system) / 1000;
};

const LONGEST = 1 << 16;
const ids = Uint32Array.from({ length: LONGEST }, (_, i) => (i * 7919) % 151_000);
const logprobs = Float32Array.from({ length: LONGEST }, (_, i) => -((i * 31) % 997) / 500);
/** `context` zeros, then ones. */
const mask = Uint8Array.from({ length: 2 * LONGEST }, (_, i) => (i < LONGEST ? 0 : 1));

function nodeOf(index: number, context: number, sampled: number, at: number): NodeTokens {
  return {
    index,
    parent: index === 0 ? null : index - 1,
    role: sampled > 0 ? 'assistant' : 'user',
    sampled: sampled > 0,
    ids: ids.subarray(at, at + context + sampled),
    mask: mask.subarray(LONGEST - context, LONGEST + sampled),
    isContent: null,
    logprobs: sampled > 0 ? logprobs.subarray(at, at + sampled) : null,
    policyRuns: null,
    policyVersion: sampled > 0 ? 0 : null,
    temperature: null,
    attribution: 'renderer',
    referenceLogprobs: null,
    partial: false,
  };
}

/** Rows of two turns, about `tokens` tokens each, lengths and rewards varied. */
function groupsOf(count: number, tokens: number): ReadyGroup[] {
  const third = Math.floor(tokens / 3);
  const template = { ...traceOf(), leaves: [3] };
  return Array.from({ length: count }, (_, g) => ({
    group: `group-${g}`,
    env: 'env',
    readyAt: g,
    baselines: null,
    members: Array.from({ length: SIZE }, (__, i) => {
      const at = (g * SIZE + i) % (LONGEST - tokens);
      const nodes = [
        nodeOf(0, third + ((g + i) % 13), 0, at),
        nodeOf(1, 4, third - 9, at),
        nodeOf(2, 9 + (i % 5), 0, at),
        nodeOf(3, 4, third, at),
      ];
      const trace = `group-${g}-${i}`;
      const scores = [{ name: 'reward', score: ((g * 31 + i * 17) % 9) / 8, weight: 1 }];
      return { ...template, group: `group-${g}`, trace, rollout: trace, scores, nodes: new Map(nodes.map((node) => [node.index, node])) };
    }),
  }));
}

function decision(): void {
  const groups = groupsOf(GROUPS, 240);
  for (const algorithm of ['grpo', 'reinforce_pp']) {
    const spec = scoredBy(algorithm, {}, { reduction: { name: 'seq_mean' } });
    const times = Array.from({ length: rounds }, () => {
      const begin = process.threadCpuUsage();
      const state = new Map<string, number>();
      const prepared = groups.map((group) => prepareGroup(spec, group, state));
      const prepare = cpuMs(begin);
      const second = process.threadCpuUsage();
      const decided = decide(spec, prepared, 1);
      if (decided.counts.rows < 50_000) throw new Error(`${decided.counts.rows} rows`);
      return { prepare, decide: cpuMs(second) };
    });
    const [prepare, cut] = [median(times.map((t) => t.prepare)), median(times.map((t) => t.decide))];
    say(
      `decision over ${GROUPS * SIZE} rows, ${algorithm}: ${prepare.toFixed(0)} ms to prepare (once per group) + ${cut.toFixed(0)} ms to cut`,
    );
  }
}

function rows(tokens: number): void {
  const groups = groupsOf(Math.ceil(12_000_000 / SIZE / tokens), tokens);
  for (const algorithm of ['grpo', 'dr_grpo']) {
    const spec = scoredBy(algorithm, algorithm === 'grpo' ? {} : { horizon: 1000 }, { maxRowTokens: 1 << 20 });
    const state = new Map<string, number>();
    const prepared = groups.map((group) => prepareGroup(spec, group, state));
    const { plans, factors, counts } = decide(spec, prepared, 1);
    const rates = Array.from({ length: rounds }, () => {
      const begin = process.threadCpuUsage();
      const slab = createSlab(Number.MAX_SAFE_INTEGER);
      for (const [i, plan] of plans.entries()) materialise(plan, factors[i] as number, slab);
      return counts.tokens / cpuMs(begin) / 1000;
    });
    const columns = algorithm === 'grpo' ? '9 B/token' : '13 B/token (with rl weights)';
    say(`rows of ${tokens} tokens, ${columns}: ${median(rates).toFixed(0)} Mtok/s written and hashed`);
  }
}

decision();
rows(1_000);
rows(30_000);
