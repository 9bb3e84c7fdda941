import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { externalize } from '../events/codec/blob-tags.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import {
  judgeSequence,
  observeProducer,
  producerKey,
  producerOf,
  producerOfRecord,
  type Producer,
  type ProducerState,
  type SequenceVerdict,
} from './accept-sequence.ts';

const at = (epoch: number, seq: number): Producer => ({ project: 'default', id: 'p', epoch, seq });
const settled = (epoch: number, next: number): ProducerState => ({ epoch, certain: next, next });

function taken(verdict: SequenceVerdict): ProducerState {
  assert.equal(verdict.kind, 'take');
  return (verdict as { state: ProducerState }).state;
}
function refusedWith(verdict: SequenceVerdict, code: string, text: RegExp): void {
  assert.equal(verdict.kind, 'refuse');
  const { problem } = verdict as Extract<SequenceVerdict, { kind: 'refuse' }>;
  assert.equal(problem.code, code);
  assert.match(problem.message, text);
}

test('a producer starts at 0 and counts on', () => {
  const first = taken(judgeSequence(undefined, at(0, 0)));
  assert.deepEqual(first, settled(0, 1));
  assert.deepEqual(taken(judgeSequence(first, at(0, 1))), settled(0, 2));
});

test('a gap names the number expected and the remedy', () => {
  refusedWith(judgeSequence(undefined, at(0, 1)), 'producer_gap', /expected 0; send again from seq 0, or start epoch 1/);
  refusedWith(judgeSequence(settled(3, 5), at(3, 7)), 'producer_gap', /sent seq 7 of epoch 3, expected 5/);
  refusedWith(judgeSequence(settled(3, 5), at(4, 1)), 'producer_gap', /expected 0/);
});

test('a number that was settled is a duplicate', () => {
  assert.equal(judgeSequence(settled(0, 5), at(0, 4)).kind, 'duplicate');
  assert.equal(judgeSequence(settled(0, 5), at(0, 0)).kind, 'duplicate');
});

test('a lower epoch is fenced, a higher one starts at 0', () => {
  refusedWith(judgeSequence(settled(2, 5), at(1, 5)), 'producer_fenced', /fenced by epoch 2; .*epoch 3 and seq 0/);
  assert.deepEqual(taken(judgeSequence(settled(2, 5), at(7, 0))), settled(7, 1));
});

test('after a restart, numbers that may be missing in the log are taken again', () => {
  const state: ProducerState = { epoch: 0, certain: 3, next: 6 };
  assert.equal(judgeSequence(state, at(0, 2)).kind, 'duplicate');
  assert.deepEqual(taken(judgeSequence(state, at(0, 3))), { epoch: 0, certain: 4, next: 6 });
  assert.deepEqual(taken(judgeSequence(state, at(0, 5))), state);
  assert.deepEqual(taken(judgeSequence(state, at(0, 6))), { epoch: 0, certain: 3, next: 7 });
  refusedWith(judgeSequence(state, at(0, 7)), 'producer_gap', /expected 6/);
});

test('slack lets numbers be skipped, adoption lets an unknown producer start anywhere', () => {
  const verdict = judgeSequence(settled(0, 5), at(0, 7), { slack: 2 });
  assert.deepEqual(verdict, { kind: 'take', state: settled(0, 8), skipped: 2 });
  refusedWith(judgeSequence(settled(0, 5), at(0, 8), { slack: 2 }), 'producer_gap', /expected 5/);
  assert.deepEqual(judgeSequence(undefined, at(9, 70), { adopt: true }), { kind: 'take', state: settled(9, 71), skipped: 0 });
  refusedWith(judgeSequence(settled(0, 5), at(0, 8), { adopt: true }), 'producer_gap', /expected 5/);
});

test('no number is ever called a duplicate that was not taken before', () => {
  const step = fc.record({ epoch: fc.nat(2), seq: fc.nat(6) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let state: ProducerState | undefined;
      const seen = new Set<string>();
      for (const { epoch, seq } of steps) {
        const verdict = judgeSequence(state, at(epoch, seq));
        if (verdict.kind === 'duplicate') assert.ok(seen.has(`${epoch}/${seq}`));
        if (verdict.kind !== 'take') continue;
        seen.add(`${epoch}/${seq}`);
        state = verdict.state;
      }
    }),
  );
});

test('a state observed from a log never calls a missing number a duplicate, and expects the number after the last', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray([...Array(12).keys()], { minLength: 1 }), (seqs) => {
      const states = new Map<string, ProducerState>();
      for (const seq of seqs) observeProducer(states, at(0, seq));
      const state = states.get(producerKey(at(0, 0))) as ProducerState;
      assert.equal(state.next, Math.max(...seqs) + 1);
      for (let seq = 0; seq < state.next; seq++) if (judgeSequence(state, at(0, seq)).kind === 'duplicate') assert.ok(seqs.includes(seq));
    }),
  );
});

test('producers of different projects are different, whatever their names', () => {
  const keys = ['', 'a', '1,a', ','].flatMap((project) => ['', 'a', '1,a', ','].map((id) => producerKey({ project, id })));
  assert.equal(new Set(keys).size, keys.length);
});

test('observing keeps the newest epoch', () => {
  const states = new Map<string, ProducerState>();
  for (const [epoch, seq] of [[1, 0], [0, 9], [1, 1], [2, 0], [1, 2]] as const) observeProducer(states, at(epoch, seq)); // prettier-ignore
  assert.deepEqual(states.get(producerKey(at(0, 0))), settled(2, 1));
});

test('the producer of a value is read without trusting it', () => {
  assert.equal(producerOf({ id: 'x' }), null);
  assert.equal(producerOf(7), 'unreadable');
  assert.equal(producerOf({ producer: null }), 'unreadable');
  assert.equal(producerOf({ producer: { id: 'p', epoch: -1, seq: 0 } }), 'unreadable');
  const producer = { id: 'p', epoch: 1, seq: 2, host: 'h' };
  assert.deepEqual(producerOf({ producer }), { ...producer, project: 'default' });
  assert.deepEqual(producerOf({ producer, project: 'a' }), { ...producer, project: 'a' });
});

test('the producer of a record is read without the rest, also when values lie in the blob store or the map has no length', () => {
  const event = { id: 'x', data: { text: 'long '.repeat(100) }, producer: { id: 'p', epoch: 1, seq: 2 }, project: 'a', after: 1 };
  const plain = encodeEvent(event);
  assert.deepEqual(producerOfRecord(plain), { project: 'a', id: 'p', epoch: 1, seq: 2 });
  const external = externalize(plain, 50);
  assert.ok(external !== null);
  assert.deepEqual(producerOfRecord(external.slice), { project: 'a', id: 'p', epoch: 1, seq: 2 });
  const indefinite = Buffer.concat([Buffer.from([0xbf]), plain.subarray(1), Buffer.from([0xff])]);
  assert.deepEqual(producerOfRecord(indefinite), { project: 'a', id: 'p', epoch: 1, seq: 2 });
  assert.equal(producerOfRecord(encodeEvent({ id: 'x', data: { producer: { id: 'p', epoch: 1, seq: 2 } } })), null);
});
