/** The batch that benchmarks and tests of the hot path share: node events with 2 KB of text, 512 ids and masks, 400 logprobs. */
import { seededRandom } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import type { Clock } from '../../base/clock.ts';
import { PackedArray } from '../packed-array.ts';

const WORDS = 'the model reads a page, calls a tool and answers "yes" or no; tokens flow\n through every layer of this small world'.split(
  ' ',
);
const TIME = 1_750_000_000_000_000;
const clock: Clock = { nowMicros: () => TIME, monotonicMs: () => 0, sleep: () => Promise.resolve() };

/** One event as a plain value; the same `seed` gives the same event. */
export function sampleNode(seed: number): Record<string, unknown> {
  const random = seededRandom(seed);
  const words: string[] = [];
  for (let length = 0; length < 2048; length += (words.at(-1) as string).length + 1) {
    words.push(WORDS[Math.floor(random.next() * WORDS.length)] as string);
  }
  const ids = Uint32Array.from({ length: 512 }, () => Math.floor(random.next() * 150_000));
  const mask = Uint8Array.from({ length: 512 }, (_, i) => (i < 112 ? 0 : 1));
  const logprobs = Float32Array.from({ length: 400 }, () => -random.next() * 3);
  return {
    v: 1,
    id: uuidV7(clock, random),
    type: 'node.appended',
    project: 'default',
    run: 'run-2025-06-15-a',
    group: 'group-0007',
    rollout: `rollout-${String(seed).padStart(8, '0')}`,
    trace: `trace-${String(seed).padStart(8, '0')}`,
    time: TIME + seed,
    producer: { id: 'worker-3', epoch: 2, seq: seed },
    data: {
      index: 5,
      parent: 4,
      role: 'assistant',
      message: { role: 'assistant', content: words.join(' '), tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'search', arguments: '{"q":"x"}' } }] },
      sampled: true,
      policyVersion: 17,
      call: 2,
      tokens: { ids: PackedArray.of(ids), mask: PackedArray.of(mask), logprobs: PackedArray.of(logprobs) },
    },
  }; // prettier-ignore
}
