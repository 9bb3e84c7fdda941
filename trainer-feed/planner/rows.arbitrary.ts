/** Rows of a batch for tests: real arrays whose values tell where they come from. */
import fc from 'fast-check';
import type { Row } from '../cut/row.ts';

export function rowOf(index: number, seqLen: number, more: Partial<Row> = {}): Row {
  const lossMask = Uint8Array.from({ length: seqLen }, (_, i) => (i >= seqLen >> 1 ? 1 : 0));
  return {
    rowId: `run/rollout-${index}/trace-${index}/3`,
    run: 'run',
    rollout: `rollout-${index}`,
    trace: `trace-${index}`,
    leaf: 3,
    group: `group-${index >> 2}`,
    env: 'sums',
    taskKey: index % 3 === 0 ? null : `task-${index}`,
    agent: 'policy',
    status: index % 5 === 0 ? 'truncated' : 'completed',
    seqLen,
    tokenIds: Int32Array.from({ length: seqLen }, (_, i) => index * 1000 + i),
    lossMask,
    logprobs: Float32Array.from({ length: seqLen }, (_, i) => (lossMask[i] === 1 ? -Math.fround((i + 1) / 7) : 0)),
    advantage: index - 2.5,
    rlWeights: null,
    ceWeights: null,
    refKlWeights: null,
    refLogprobs: null,
    temperature: 0.7,
    reward: index % 4 === 0 ? null : 0.1 * index,
    policyVersionMin: index % 6 === 0 ? null : index,
    policyVersionMax: index % 6 === 0 ? null : index + 1,
    staleness: index % 6 === 0 ? null : 1,
    logOffset: [index % 4, 2 ** 40 + index],
    nodes: [0, 1, 3],
    multimodal: false,
    members: { rl: seqLen - (seqLen >> 1), ce: 0, refKl: 0 },
    contentHash: '',
    signalHash: '',
    ...more,
  };
}

/** Up to 200 rows of 1 to `maxLength` tokens, some with images. */
export function rowsArbitrary(maxLength: number): fc.Arbitrary<Row[]> {
  return fc
    .array(fc.tuple(fc.integer({ min: 1, max: maxLength }), fc.boolean()), { maxLength: 200 })
    .map((all) => all.map(([length, multimodal], i) => rowOf(i, length, { multimodal })));
}
