import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { PackedArray } from '../../../events/packed-array.ts';
import { WholeFloat } from '../../../events/codec/whole-float.ts';
import { atifTrajectory } from './schema-for-tests.ts';
import type { JsonRecord } from '../json-value.ts';
import { trajectoryOf, type AtifEvent } from './trajectory.ts';
import { exactJson } from './exact-json.ts';

const KEY = { run: 'r', rollout: 'o', trace: 't' };
const SHARED = join(import.meta.dirname, '../../../../shared');
const skip = existsSync(join(SHARED, 'data/harbor-atif')) ? false : 'the collected files (../shared/data) are not here';

function event(type: string, data: object, trace: string | null = 't'): AtifEvent {
  return { type, time: 1_762_214_400_500_123, trace, data: data as JsonRecord };
}
function node(index: number, message: Record<string, unknown>, rest: Record<string, unknown> = {}): AtifEvent {
  return event('node.appended', { index, ...(index > 0 && { parent: index - 1 }), role: message['role'], sampled: message['role'] === 'assistant', message, ...rest });
} // prettier-ignore
function tokens(ids: number[], mask: number[], logprobs?: number[]): Record<string, unknown> {
  return { tokens: { ids: PackedArray.of(Uint32Array.from(ids)), mask: PackedArray.of(Uint8Array.from(mask)), ...(logprobs !== undefined && { logprobs: PackedArray.of(Float32Array.from(logprobs)) }) } };
} // prettier-ignore

/** What a message says beyond its step, as a reader of ours finds it. */
const own = (message: object): object => ({ tapedeck: { message } });

/** The trajectory as a reader gets it, checked against the schema, and what was counted. */
function written(events: readonly AtifEvent[]): { trajectory: Record<string, unknown> | null; left: Record<string, number> } {
  const left: Record<string, number> = {};
  const made = trajectoryOf(KEY, events, (what, times = 1) => {
    if (times > 0) left[what] = (left[what] ?? 0) + times;
  });
  if (made === null) return { trajectory: null, left };
  const text = exactJson({ ...made.head, steps: [...made.steps], ...made.tail() });
  const checked = atifTrajectory.safeParse(JSON.parse(text));
  assert.ok(checked.success, checked.error?.message);
  return { trajectory: JSON.parse(text) as Record<string, unknown>, left };
}

test('the schema takes the collected trajectories of Harbor and NVIDIA and refuses those that do not conform', { skip }, () => {
  const files = globSync(`${SHARED}/data/harbor-atif/{nat-v1.7,phoenix-fixtures}/*.json`);
  const refused = files.filter((path) => !atifTrajectory.safeParse(JSON.parse(readFileSync(path, 'utf8'))).success);
  assert.ok(files.length > 10);
  assert.deepEqual(refused.map((path) => basename(path)), ['subagent_trajectories.json']); // two documents in one
  for (const path of globSync(`${SHARED}/data/harbor-atif/nonconforming/*.json`)) assert.equal(atifTrajectory.safeParse(JSON.parse(readFileSync(path, 'utf8'))).success, false);
}); // prettier-ignore

test('a trace becomes a trajectory: calls with their results, whole prompts, usage with cached tokens', () => {
  const { trajectory, left } = written([
    event('trace.started', { agent: { name: 'solver', model: 'toy' }, tools: [{ name: 'add', parameters: {} }] }),
    node(0, { role: 'system', content: 'Be brief.' }, tokens([1, 2], [0, 0])),
    node(1, { role: 'user', content: [{ type: 'text', text: 'What?' }, { type: 'input_audio', input_audio: {} }] }, tokens([3], [0])),
    node(2, { role: 'assistant', content: null, reasoning_content: 'hm', tool_calls: [{ id: 'c1', name: 'add', arguments: '{"big": 12345678901234567890}' }, { id: 'c2', function: { name: 'add', arguments: 'broken {' } }] }, tokens([4, 5, 6, 7], [0, 1, 1, 0], [-0.5, -0.25])),
    node(3, { role: 'tool', tool_call_id: 'c1', content: 'two' }, tokens([8], [0])),
    node(4, { role: 'tool', tool_call_id: 'other', content: 'three' }, tokens([], [])),
    node(5, { role: 'assistant', content: 'It is 2.' }, tokens([9], [1], [-Infinity])),
    node(6, { role: 'assistant', content: 'a retry' }, { parent: 4 }),
    node(7, { role: 'assistant', content: 'It is two.' }, { ...tokens([10], [1], [-1]), parent: 4 }),
    event('call.recorded', { index: 0, node: 2, model: 'toy-1', usage: { promptTokens: 3, cachedTokens: 1, completionTokens: 2, cost: new WholeFloat(1) } }),
    event('call.recorded', { index: 1, node: 7, usage: { promptTokens: 4, completionTokens: 1 } }),
    event('reward.assigned', { scope: 'trace', name: 'x', score: 1 }),
    event('reward.assigned', { scope: 'trace', name: 'x', score: 1 }, 'another'),
  ]);
  assert.deepEqual(trajectory, {
    schema_version: 'ATIF-v1.7', session_id: 'o', trajectory_id: 't', extra: { run: 'r' },
    agent: { name: 'solver', version: 'unknown', model_name: 'toy', tool_definitions: [{ type: 'function', function: { name: 'add', parameters: {} } }] },
    steps: [
      { step_id: 1, timestamp: '2025-11-04T00:00:00.500123Z', source: 'system', message: 'Be brief.' },
      { step_id: 2, timestamp: '2025-11-04T00:00:00.500123Z', source: 'user', message: [{ type: 'text', text: 'What?' }], extra: own({ kept: { content: [{ type: 'text', text: 'What?' }, { type: 'input_audio', input_audio: {} }] } }) },
      {
        step_id: 3, timestamp: '2025-11-04T00:00:00.500123Z', source: 'agent', model_name: 'toy-1', message: '', reasoning_content: 'hm', llm_call_count: 1,
        tool_calls: [
          { tool_call_id: 'c1', function_name: 'add', arguments: { big: JSON.parse('12345678901234567890') as number } },
          { tool_call_id: 'c2', function_name: 'add', arguments: {}, extra: { arguments: 'broken {' } },
        ],
        observation: { results: [{ source_call_id: 'c1', content: 'two' }, { content: 'three', extra: own({ kept: { tool_call_id: 'other' } }) }] },
        extra: own({ kept: { content: null }, inside: { tool_calls: [{ kept: { arguments: '{"big": 12345678901234567890}' } }, { kept: { function: { name: 'add', arguments: 'broken {' } }, absent: ['name', 'arguments'] }] } }),
        metrics: { prompt_tokens: 4, completion_tokens: 2, cached_tokens: 1, cost_usd: 1, prompt_token_ids: [1, 2, 3, 4], completion_token_ids: [5, 6], logprobs: [-0.5, -0.25] },
      },
      {
        step_id: 4, timestamp: '2025-11-04T00:00:00.500123Z', source: 'agent', message: 'It is two.', llm_call_count: 1,
        metrics: { prompt_tokens: 4, completion_tokens: 1, prompt_token_ids: [1, 2, 3, 4, 5, 6, 7, 8], completion_token_ids: [10], logprobs: [-1] },
      },
    ],
    final_metrics: { total_prompt_tokens: 8, total_completion_tokens: 3, total_steps: 4 },
  });
  assert.deepEqual(left, {
    'reward.assigned': 1, 'nodes of other branches': 2, 'parts of messages that are neither text nor a linked image (kept in extra)': 1, 'tool results without their call in the step before (the id is kept in extra)': 1,
    'tool arguments that are no JSON object (kept as text in extra)': 1,
  });
}); // prettier-ignore

test('arguments keep their digits in the text that is written', () => {
  const made = trajectoryOf(KEY, [node(0, { role: 'assistant', content: '', tool_calls: [{ id: 'c', name: 'f', arguments: '{"n":12345678901234567890}' }] })], () => {}); // prettier-ignore
  assert.match(exactJson([...(made?.steps ?? [])]), /"arguments":\{"n":12345678901234567890\}/);
});

test('what is not known is left out: prompts behind a node without tokens, split streams, infinite logprobs', () => {
  const metrics = (events: AtifEvent[]): unknown =>
    (written(events).trajectory as { steps: { metrics?: unknown }[] }).steps.at(-1)?.metrics;
  const ask = (rest?: Record<string, unknown>): AtifEvent => node(0, { role: 'user', content: 'x' }, { ...rest });
  assert.deepEqual(metrics([ask(), node(1, { role: 'assistant', content: 'y' }, tokens([5], [1]))]), { completion_token_ids: [5] }); // prettier-ignore
  assert.equal(metrics([ask(tokens([1], [0])), node(1, { role: 'assistant', content: 'y' }, tokens([5, 6, 7], [1, 0, 1]))]), undefined); // prettier-ignore
  assert.deepEqual(metrics([ask(tokens([1], [0])), node(1, { role: 'assistant', content: 'y' }, tokens([5], [1], [-Infinity]))]), { prompt_token_ids: [1], completion_token_ids: [5] }); // prettier-ignore
});

test('messages of any shape give a legal trajectory, or none', () => {
  const message = fc.record({ role: fc.constantFrom('user', 'assistant', 'tool', 'system', 'odd'), content: fc.jsonValue({ maxDepth: 2 }), tool_calls: fc.jsonValue({ maxDepth: 3 }), tool_call_id: fc.constantFrom('c', 7, null) }); // prettier-ignore
  fc.assert(
    fc.property(fc.array(message, { maxLength: 6 }), (messages) => {
      written(messages.map((each, index) => node(index, each as Record<string, unknown>)));
    }),
    { numRuns: 300 },
  );
});
