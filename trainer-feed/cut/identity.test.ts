import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { cut } from './cut.ts';
import { batchIdOf, excludedDigestOf, type BatchContent } from './identity.ts';
import { CONTEXT, groupOf, plainGroup, scoredBy, specOf } from './ready-groups.arbitrary.ts';

const hex = (seed: string): string => createHash('sha256').update(seed).digest('hex');
const CONTENT: BatchContent = {
  previousId: hex('previous'),
  feed: 'feed',
  n: 7,
  specHash: hex('spec'),
  rows: [
    { rowId: 'a', contentHash: hex('a'), signalHash: hex('a signal') },
    { rowId: 'b', contentHash: hex('b'), signalHash: hex('b signal') },
  ],
  denominators: { rl: 3, ce: 1, refKl: 1 },
  groups: ['g'],
  excludedDigest: hex('excluded'),
  sourcePositions: [[0, 5]],
  policyVersion: 6,
};

describe('the id of a batch', () => {
  it('is the hash of its documented bytes', () => {
    const int = (v: number): Buffer => Buffer.from(BigInt64Array.of(BigInt(v)).buffer);
    const text = (s: string): Buffer => Buffer.concat([int(Buffer.byteLength(s)), Buffer.from(s)]);
    const raw = (seed: string): Buffer => Buffer.from(hex(seed), 'hex');
    const some = (b: Buffer): Buffer => Buffer.concat([Buffer.of(1), b]);
    const bytes = [
      text('tapedeck batch 1'), some(raw('previous')), text('feed'), int(7), raw('spec'),
      int(2), text('a'), raw('a'), raw('a signal'), text('b'), raw('b'), raw('b signal'),
      int(3), int(1), int(1), int(1), text('g'), raw('excluded'), int(1), int(0), int(5), some(int(6)),
    ]; // prettier-ignore
    assert.equal(batchIdOf(CONTENT), createHash('sha256').update(Buffer.concat(bytes)).digest('hex'));
  });

  it('changes with everything it is made of', () => {
    const changes: Partial<BatchContent>[] = [
      { previousId: null }, { previousId: hex('other') }, { feed: 'feed2' }, { n: 8 }, { specHash: hex('other') }, { rows: CONTENT.rows.toReversed() }, { rows: CONTENT.rows.slice(1) },
      { rows: [{ ...CONTENT.rows[0]!, signalHash: hex('x') }, CONTENT.rows[1]!] }, { rows: [{ ...CONTENT.rows[0]!, contentHash: hex('x') }, CONTENT.rows[1]!] },
      { denominators: { rl: 1, ce: 3, refKl: 1 } }, { groups: [] }, { groups: ['', 'g'] }, { excludedDigest: hex('other') }, { sourcePositions: [[0, 6]] }, { sourcePositions: [] },
      { policyVersion: null }, { policyVersion: 0 },
    ]; // prettier-ignore
    const ids = [CONTENT, ...changes.map((change) => ({ ...CONTENT, ...change }))].map(batchIdOf);
    assert.equal(new Set(ids).size, changes.length + 1);
  });

  it('covers every number of a row and what was left out', () => {
    const spec = scoredBy('grpo', {}, { dropZeroAdvantage: false });
    const base = (more: object = {}, node: object = {}) => [
      groupOf([
        {
          reward: 1,
          nodes: [
            { role: 'user', context: 3 },
            { sampled: 2, ...node },
          ],
          ...more,
        },
        { reward: 0 },
      ]),
    ];
    const groups = [
      base(), base({ reward: 2 }), base({ truncated: true }), base({ temperature: 0.5 }), base({ temperature: null }), base({}, { policyVersion: 1 }),
      base({}, { ids: Uint32Array.of(4, 6) }), base({}, { logprobs: Float32Array.of(-0.004, -0.006) }), base({}, { mask: Uint8Array.of(1, 0), logprobs: Float32Array.of(-0.004) }),
      base({ trace: 'other' }), [groupOf([{ reward: 1 }, { reward: 0 }, { ok: false }])],
    ]; // prettier-ignore
    const ids = groups.map((given) => cut(spec, given, CONTEXT).batchId);
    assert.equal(new Set(ids).size, groups.length);
    assert.equal(cut(scoredBy('grpo'), base(), CONTEXT).batchId, cut(scoredBy('grpo'), base(), CONTEXT).batchId);
  });

  it('has a content hash per row that does not depend on the rest of the batch, and a signal hash that does', () => {
    const other = plainGroup([1, 0.5], [4, 4], { group: 'h', readyAt: 1 });
    const spec = specOf({ reduction: { name: 'seq_mean' } });
    const alone = cut(spec, [plainGroup([1, 0])], CONTEXT).rows[0]!;
    const beside = cut(spec, [plainGroup([1, 0]), other], { ...CONTEXT, n: 3 }).rows[0]!;
    assert.equal(alone.contentHash, beside.contentHash);
    assert.notEqual(alone.signalHash, beside.signalHash);
  });

  it('does not depend on the order in which groups that became ready at one place are passed', () => {
    const groups = [plainGroup([1, 0], [1, 1], { group: 'b' }), plainGroup([1, 0], [1, 1], { group: 'a' })];
    assert.equal(cut(scoredBy('grpo'), groups, CONTEXT).batchId, cut(scoredBy('grpo'), groups.toReversed(), CONTEXT).batchId);
  });

  it('can be worked out again from the arrays of a row', () => {
    const row = cut(scoredBy('grpo'), [plainGroup([1, 0])], CONTEXT).rows[0]!;
    const head = Buffer.alloc(48);
    head.write('ROW1', 0, 'latin1');
    head.writeUInt32LE(row.seqLen, 4);
    head.writeUInt8(0b1111, 9); // reward, temperature, versions
    head.writeDoubleLE(1, 16);
    head.writeDoubleLE(1, 24);
    const bytes = (array: Int32Array | Float32Array | Uint8Array): Buffer => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
    const content = Buffer.concat([head, bytes(row.tokenIds), bytes(row.logprobs), bytes(row.lossMask)]);
    assert.equal(createHash('sha256').update(content).digest('hex'), row.contentHash);
    const signal = Buffer.alloc(16);
    signal.write('SIG1', 0, 'latin1');
    signal.writeUInt8(1, 4);
    signal.writeFloatLE(0.5, 8);
    assert.equal(createHash('sha256').update(signal).digest('hex'), row.signalHash);
  });

  it('digests what was left out without its messages', () => {
    const one = { run: null, group: 'g', rollout: 'r', trace: 't', leaf: 1, reason: 'stale', message: 'why', staleness: 3, length: 9 };
    assert.equal(excludedDigestOf([one]), excludedDigestOf([{ ...one, message: null }]));
    const changed = [{ run: '' }, { group: 'h' }, { rollout: null }, { trace: null }, { leaf: 0 }, { leaf: null }, { reason: 'x' }, { staleness: null }, { length: 8 }];
    assert.equal(new Set([{}, ...changed].map((c) => excludedDigestOf([{ ...one, ...c }]))).size, changed.length + 1);
    assert.notEqual(excludedDigestOf([]), excludedDigestOf([one]));
  }); // prettier-ignore
});
