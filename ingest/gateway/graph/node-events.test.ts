/** The bodies of node.appended, field by field: what says nothing is left out, and every body is a legal one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeAppended } from '../../../events/node.ts';
import { PackedArray } from '../../../events/packed-array.ts';
import { choiceOf, exchangeOf } from './conversation.arbitrary.ts';
import { nodeEvents } from './node-events.ts';
import { planExchange } from './plan-exchange.ts';
import { assistant, user } from './recorded-trace.arbitrary.ts';
import { emptyGraph } from './trace-graph.ts';

const none = { ids: PackedArray.of(new Uint32Array(0)), mask: PackedArray.of(new Uint8Array(0)) };

test('one event per node, in append order, at the end of the call', () => {
  const policyRuns = [{ length: 1, version: 7 }, { length: 1, version: 8 }]; // prettier-ignore
  const choices = [
    choiceOf(assistant('a'), [50, 51], { policyRuns, partial: true }),
    choiceOf(assistant('b'), [52], { index: 1, logprobs: Float32Array.of(NaN) }),
    choiceOf(null, [53], { index: 2, logprobs: null }),
  ];
  const plan = planExchange(emptyGraph(), exchangeOf([user('q')], [1, 2], choices, { end: 77 }));
  const events = nodeEvents(plan, { call: 4, policyVersion: 8 });
  assert.deepEqual(events.map(({ time }) => time), [77, 77, 77, 77]); // prettier-ignore
  const answer = { parent: 0, role: 'assistant', sampled: true, policyVersion: 8, call: 4 };
  assert.deepEqual(
    events.map(({ data }) => data),
    [
      { index: 0, role: 'user', message: user('q'), sampled: false, tokens: none, call: 4, attribution: 'none', toolsHash: plan.nodes[0]?.toolsHash },
      {
        index: 1, ...answer, message: assistant('a'), attribution: 'none', partial: true,
        tokens: { ids: PackedArray.of(Uint32Array.of(1, 2, 50, 51)), mask: PackedArray.of(Uint8Array.of(0, 0, 1, 1)), logprobs: PackedArray.of(choices[0]?.logprobs as Float32Array), policyRuns },
      },
      { index: 2, ...answer, message: assistant('b'), tokenError: 'logprobs_not_finite', forkReason: 'resample' },
      {
        index: 3, ...answer, forkReason: 'resample', attribution: 'none',
        tokens: { ids: PackedArray.of(Uint32Array.of(1, 2, 53)), mask: PackedArray.of(Uint8Array.of(0, 0, 1)) },
      },
    ],
  ); // prettier-ignore
  for (const { data } of events) assert.ok(nodeAppended.safeParse(data).success);
  assert.ok(nodeEvents(plan, { call: 4, policyVersion: null }).every(({ data }) => !('policyVersion' in data)));
});
