/** Trajectories come back from their events as they were, and traces from their trajectories as far as a trajectory holds them. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { PackedArray } from '../../../events/packed-array.ts';
import { readEvent } from '../../../events/read-event.ts';
import { exactEvent, type ExactEvent } from '../exact-event.ts';
import { isList, isRecord, itemsOf, omit, recordOf, type Json, type JsonRecord } from '../json-value.ts';
import { parsed } from '../sample-records.ts';
import { jsonText } from '../verifiers-v0-row.ts';
import { exactJson } from './exact-json.ts';
import { trajectoryEvents } from './import-atif.ts';
import { trajectoryOf } from './trajectory.ts';

const DATA = join(import.meta.dirname, '../../../../shared/data/harbor-atif');
const skip = existsSync(DATA) ? false : 'the collected files (../shared/data) are not here';

/** One text per document: numbers as they are, keys in order. */
const canonical = (value: Json): string => jsonText(value, { sortKeys: true });

type Imported = {
  readonly run: string;
  readonly rollout: string;
  readonly events: ExactEvent[];
  readonly warnings: readonly { field: string; message: string }[];
};
function imported(value: Json, run?: string): Imported {
  const made = trajectoryEvents(value, run === undefined ? {} : { run });
  assert.ok(made.ok, made.ok ? '' : made.error.message);
  for (const { slice } of [made.value.runEvent, ...made.value.events]) assert.ok(readEvent(slice).ok);
  return { ...made.value, events: made.value.events.map(({ slice }) => exactEvent(slice)) };
} // prettier-ignore

function written(key: { run: string; rollout: string; trace: string }, events: readonly ExactEvent[]): Json | null {
  const made = trajectoryOf(key, events, () => {});
  return made === null ? null : parsed(exactJson({ ...made.head, steps: [...made.steps], ...made.tail() }));
}

/** The trajectories of the traces that were imported, in their order. */
function comeBack({ run, rollout, events }: Imported): (Json | null)[] {
  const traces = events.filter(({ type }) => type === 'trace.started').map(({ trace }) => trace as string);
  return traces.map((trace) => written({ run, rollout, trace }, events));
}

/** The trajectory without those inside it, and these beside it, as the export writes them: with the session that they are of. */
function flat(value: JsonRecord, session: Json | undefined = value['session_id']): JsonRecord[] {
  const inner = itemsOf(value['subagent_trajectories']) as readonly JsonRecord[];
  return [omit(value, new Set(['subagent_trajectories'])), ...inner.flatMap((each) => flat({ ...each, session_id: each['session_id'] ?? (session as Json) }, session))];
} // prettier-ignore

function comesBackEqual(value: JsonRecord, what: string): Imported {
  const first = imported(value, 'r');
  const back = comeBack(first);
  assert.deepEqual(back.map((each) => canonical(each)).toSorted(), flat(value).map(canonical).toSorted(), what);
  const again = back.flatMap((each) => imported(each as Json, 'r').events);
  const said = (events: readonly ExactEvent[]): string[] => events.filter(({ type }) => !type.startsWith('rollout.')).map(({ type, time, trace, data }) => canonical([type, time, trace, data])); // prettier-ignore
  assert.deepEqual(new Set(said(again)), new Set(said(first.events)), what);
  return first;
}

const TRAJECTORY = `{
  "schema_version": "ATIF-v1.7", "session_id": "s", "trajectory_id": "main", "notes": "n", "continued_trajectory_ref": "next.json",
  "agent": {"name": "solver", "version": "1.0.0", "model_name": "toy", "extra": {"parser": "json"},
    "tool_definitions": [{"type": "function", "function": {"name": "add", "parameters": {}}}]},
  "steps": [
    {"step_id": 1, "timestamp": "2026-04-20T10:00:00Z", "source": "system", "message": "Be brief."},
    {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "What?"}, {"type": "image", "source": {"media_type": "image/png", "path": "https://x/y.png"}}]},
    {"step_id": 3, "timestamp": "2026-04-20T10:00:02.25+00:00", "source": "agent", "model_name": "toy-1", "reasoning_effort": "high", "message": "", "reasoning_content": "hm",
      "tool_calls": [{"tool_call_id": "c1", "function_name": "add", "arguments": {"n": 12345678901234567890, "x": 1.0}, "extra": {"runtime": "graph"}}],
      "observation": {"results": [{"source_call_id": "c1", "content": "two", "subagent_trajectory_ref": [{"trajectory_id": "child", "session_id": "s"}]}, {"content": [{"type": "text", "text": "more"}]}]},
      "metrics": {"prompt_tokens": 4, "completion_tokens": 2, "cached_tokens": 1, "cost_usd": 0.25, "prompt_token_ids": [1, 2, 3, 4], "completion_token_ids": [5, 6], "logprobs": [-0.5, -1.0], "extra": {"reasoning_tokens": 1, "more": [1]}}},
    {"step_id": 4, "source": "agent", "message": "copied", "is_copied_context": true, "metrics": {"prompt_tokens": 9}},
    {"step_id": 5, "source": "agent", "message": "by rule", "llm_call_count": 0},
    {"step_id": 6, "source": "agent", "message": "2", "llm_call_count": 3, "metrics": {"prompt_token_ids": [1, 2, 3, 4, 5, 6, 7], "completion_token_ids": [8], "logprobs": [-0.1]}, "extra": {"a": null}}
  ],
  "final_metrics": {"total_prompt_tokens": 4, "total_cost_usd": 0.25, "total_steps": 6},
  "subagent_trajectories": [{"schema_version": "ATIF-v1.7", "trajectory_id": "child", "agent": {"name": "helper", "version": "1"}, "steps": [{"step_id": 1, "timestamp": "2026-04-20T10:00:01Z", "source": "agent", "message": "done", "llm_call_count": 1}]}]
}`;

describe('a trajectory as events', () => {
  const { run, rollout, events, warnings } = imported(parsed(TRAJECTORY));
  const of = (type: string, trace = 'main'): ExactEvent[] => events.filter((event) => event.type === type && event.trace === trace);
  const nodes = of('node.appended').map(({ data }) => data);

  test('session, trajectory and agent name run, rollout and traces; each step and each result is a node', () => {
    assert.deepEqual([run, rollout, warnings], ['atif-solver', 's', []]);
    assert.deepEqual(nodes.map(({ index, parent, role, sampled }) => [index, parent, role, sampled]), [
      [0, undefined, 'system', false], [1, 0, 'user', false], [2, 1, 'assistant', true], [3, 2, 'tool', false], [4, 3, 'tool', false], [5, 4, 'assistant', false], [6, 5, 'assistant', false], [7, 6, 'assistant', true],
    ]); // prettier-ignore
    assert.deepEqual(nodes[1]?.['message'], { role: 'user', content: [{ type: 'text', text: 'What?' }, { type: 'image_url', image_url: { url: 'https://x/y.png' } }] }); // prettier-ignore
    assert.deepEqual(nodes[2]?.['message'], { role: 'assistant', content: '', reasoning_content: 'hm', tool_calls: [{ id: 'c1', name: 'add', arguments: '{"n":12345678901234567890,"x":1.0}' }] }); // prettier-ignore
    assert.deepEqual(nodes[3]?.['message'], { role: 'tool', tool_call_id: 'c1', content: 'two' });
    assert.deepEqual(of('trace.started')[0]?.data['tools'], [{ name: 'add', parameters: {} }]);
    assert.deepEqual(of('tool.recorded').map(({ data }) => data), [{ toolCallId: 'c1', node: 2, name: 'add', resultNode: 3 }]); // prettier-ignore
  });

  test('calls have the usage without what was cached; copied context and steps without a model have none', () => {
    assert.deepEqual(of('call.recorded').map(({ data }) => data), [
      { index: 0, node: 2, model: 'toy-1', sampling: { reasoning_effort: 'high' }, usage: { promptTokens: 3, completionTokens: 2, cachedTokens: 1, reasoningTokens: 1, cost: 0.25 } },
      { index: 1, node: 7 },
    ]); // prettier-ignore
  });

  test('prompts are what each adds to the path', () => {
    const ids = (at: number): number[] | null => {
      const tokens = recordOf(nodes[at]?.['tokens']);
      return tokens === null ? null : [...(tokens['ids'] as PackedArray<'u32'>).typed()];
    };
    assert.deepEqual([0, 1, 2, 3, 4, 5, 6, 7].map(ids), [[], [], [1, 2, 3, 4, 5, 6], [], [], [], [], [7, 8]]);
    const mask = recordOf(nodes[2]?.['tokens'])?.['mask'];
    assert.deepEqual(mask instanceof PackedArray ? [...mask.bytes] : null, [0, 0, 0, 0, 1, 1]);
  });

  test('a sub-agent is a trace of the same rollout, linked to the step that called it', () => {
    assert.equal(of('node.appended', 'child').length, 1);
    assert.deepEqual(of('link.added').map(({ data }) => data), [{ from: { trace: 'main', node: 2 }, to: { trace: 'child', node: 0 }, type: 'subagent_call' }]); // prettier-ignore
  });

  test('and back: equal, sub-agents beside it', () => {
    comesBackEqual(parsed(TRAJECTORY) as JsonRecord, 'sample');
  });
});

test('collected trajectories of every version come back equal, and give the same events again', { skip }, () => {
  const paths = globSync(`${DATA}/{nat-v1.7,phoenix-fixtures,nonconforming,openagents}/*.json`).filter((path) => !path.endsWith('index.json'));
  let count = 0;
  for (const path of paths) {
    const document = parsed(readFileSync(path, 'utf8'));
    const parts = isList(document) ? document : isRecord(document) && 'steps' in document ? [document] : Object.values(document as JsonRecord);
    for (const each of parts) {
      comesBackEqual(each as JsonRecord, basename(path));
      count++;
    }
  }
  assert.ok(count >= 18, `${count} trajectories`);
}); // prettier-ignore

test('what a prompt says against the path, and odd values anywhere, are kept in extra and warned about', () => {
  const metrics = ['{"prompt_token_ids":[1],"completion_token_ids":[2]}', '{"prompt_token_ids":[9],"completion_token_ids":[3]}', '{"prompt_token_ids":[1,2],"completion_token_ids":[4],"logprobs":[-0.1234567890123]}'];
  const steps = [
    ...metrics.map((each, i) => `{"step_id":${i + 1},"source":"agent","message":"m","metrics":${each}}`),
    '{"source":"robot","message":{"odd":1},"timestamp":"2026-04-20T10:00:00","observation":{"results":["text",{"content":null}]},"tool_calls":"none"}',
    '{"step_id":"x","source":"agent","message":null,"tool_calls":[7,{"tool_call_id":"","function_name":"f","arguments":"text"}],"metrics":{"prompt_tokens":1,"cached_tokens":2,"cost_usd":"much"},"usage":{}}',
  ];
  const { warnings, events } = comesBackEqual(parsed(`{"schema_version":"ATIF-v1.9","steps":[${steps.join(',')}],"agent":null,"final_metrics":null}`) as JsonRecord, 'odd'); // prettier-ignore
  assert.deepEqual(warnings.map(({ field }) => field), ['steps.metrics.prompt_token_ids', 'steps.source', 'steps.observation']); // prettier-ignore
  assert.deepEqual(events.filter(({ type }) => type === 'node.appended').map(({ data }) => recordOf(data['tokens']) !== null), [true, false, true, false, false, false]); // prettier-ignore
}); // prettier-ignore

test('what is no trajectory is refused by name', () => {
  for (const [text, code, field] of [
    ['[]', 'wrong_type', undefined],
    ['{"steps":[{}]}', 'missing_field', 'schema_version'],
    ['{"schema_version":"2","steps":[{}]}', 'missing_field', 'schema_version'],
    ['{"schema_version":"ATIF-v1.4"}', 'wrong_type', 'steps'],
    ['{"schema_version":"ATIF-v1.4","steps":[]}', 'missing_field', 'steps'],
    ['{"schema_version":"ATIF-v1.4","steps":[{},7]}', 'wrong_type', 'steps[1]'],
    ['{"schema_version":"ATIF-v1.7","steps":[{}],"subagent_trajectories":[{}]}', 'missing_field', 'schema_version'],
  ] as const) {
    const made = trajectoryEvents(parsed(text));
    assert.deepEqual(made.ok ? null : [made.error.code, made.error.field], [code, field], text);
  }
});

test('a file that grew keeps its ids; two trajectories of one session have two', () => {
  const of = (...messages: string[]): Imported => imported({ schema_version: 'ATIF-v1.4', session_id: 's', agent: { name: 'a' }, steps: messages.map((message) => ({ source: 'user', message })) }); // prettier-ignore
  const trace = ({ events }: Imported): string | null => events[1]?.trace ?? null;
  assert.equal(trace(of('x')), trace(of('x', 'y')));
  assert.notEqual(trace(of('x')), trace(of('y')));
});

describe('traces of any content', () => {
  const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 8 }), fc.constantFrom('\ud800', '\0', '\u2028'));
  const part = fc.oneof(
    fc.record({ type: fc.constant('text'), text }),
    fc.constantFrom<Json>({ type: 'image_url', image_url: { url: 'https://x/a.png?q' } }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }, 'bare', { type: 'input_audio', input_audio: {} }),
  );
  const content = fc.oneof(text, fc.constant(null), fc.array(part, { maxLength: 3 }), fc.constant({ odd: true }));
  const args = fc.oneof(
    fc.dictionary(text, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }).map((value) => JSON.stringify(value)),
    fc.constantFrom('{"a": 1}', '{ "n":12345678901234567890 }', '{"x":1e3,"y":-0.0}', 'broken {', '', '[1]', '{"a":1,"a":2}', '{"a":NaN}'),
  );
  const call = fc.record({ id: fc.constantFrom('c0', 'c1', ''), name: fc.constantFrom('f', 'g'), arguments: args });
  const message = fc.oneof(
    fc.record({ role: fc.constantFrom('system', 'user', 'developer', 'odd'), content }),
    fc.record({ role: fc.constant('assistant'), content, reasoning_content: text, tool_calls: fc.array(call, { maxLength: 2 }) }, { requiredKeys: ['role'] }),
    fc.record({ role: fc.constant('tool'), content, tool_call_id: fc.constantFrom('c0', 'c1', 'other'), name: text }, { requiredKeys: ['role', 'content'] }),
  );
  const ids = (low: number): fc.Arbitrary<number[]> => fc.array(fc.integer({ min: 0, max: 2 ** 31 - 1 }), { minLength: low, maxLength: 3 });
  const node = fc.record({
    message, before: ids(0), sampled: ids(1), after: ids(0), isSampled: fc.boolean(), wait: fc.integer({ min: 0, max: 3_000_001 }), logprob: fc.float({ noNaN: true, noDefaultInfinity: true }),
    usage: fc.option(fc.record({ promptTokens: fc.nat(9), completionTokens: fc.nat(9), cachedTokens: fc.nat(9), cost: fc.constantFrom(0.5, 1e-7) }, { requiredKeys: [] }), { nil: null }),
  });
  const trace = fc.record({ nodes: fc.array(node, { minLength: 1, maxLength: 6 }), hasTokens: fc.boolean(), tools: fc.constantFrom(null, [{ name: 'f' }], [{ type: 'function', function: { name: 'f' } }]) });

  type Made = typeof trace extends fc.Arbitrary<infer T> ? T : never;
  const KEY = { run: 'r', rollout: 'o', trace: 't' };
  function eventsOf({ nodes, hasTokens, tools }: Made): ExactEvent[] {
    let time = 1_762_214_400_000_000;
    const event = (type: ExactEvent['type'], data: object): ExactEvent => ({ type, time, run: 'r', trace: 't', data: data as JsonRecord });
    const events = [event('trace.started', { agent: { name: 'a', model: 'toy' }, ...(tools !== null && { tools }) })];
    let calls = 0;
    for (const [index, { message: said, before, sampled, after, isSampled, wait, logprob, usage }] of nodes.entries()) {
      time += wait;
      const isAnswer = said.role === 'assistant' && isSampled;
      const all = [...before, ...(isAnswer ? sampled : []), ...after];
      const mask = [...before.map(() => 0), ...(isAnswer ? sampled.map(() => 1) : []), ...after.map(() => 0)];
      const tokens = { ids: PackedArray.of(Uint32Array.from(all)), mask: PackedArray.of(Uint8Array.from(mask)), ...(isAnswer && { logprobs: PackedArray.of(Float32Array.from(sampled, () => logprob)) }) };
      events.push(event('node.appended', { index, ...(index > 0 && { parent: index - 1 }), role: said.role, message: said, sampled: isAnswer, ...(isAnswer && usage !== null && { call: calls }), ...(hasTokens && { tokens }) }));
      if (isAnswer && usage !== null) events.push(event('call.recorded', { index: calls++, node: index, model: 'toy', ...(Object.keys(usage).length > 0 && { usage }) }));
    }
    return events;
  }

  /** What a branch holds, with the token streams of its nodes as one: which message of a prompt its ids are of is not held, nor what stands behind the last sampled one. */
  function held(events: readonly ExactEvent[]): unknown {
    const nodes = events.filter(({ type }) => type === 'node.appended');
    const streams = nodes.map(({ data }) => recordOf(data['tokens'])).filter((tokens) => tokens !== null);
    const joined = (name: string): number[] => streams.flatMap((tokens) => [...((tokens[name] as PackedArray | undefined)?.typed() ?? [])].map(Number));
    const mask = joined('mask');
    const end = mask.lastIndexOf(1) + 1;
    const rest = events.filter(({ type }) => type === 'call.recorded').map(({ data }) => canonical(data));
    const started = events.find(({ type }) => type === 'trace.started')?.data ?? {};
    return {
      tools: canonical(started['tools'] ?? null), agent: canonical(started['agent'] as Json), calls: rest,
      nodes: nodes.map(({ time, data }) => [time, canonical(omit(data, new Set(['tokens', 'extra'])))]),
      ids: joined('ids').slice(0, end), mask: mask.slice(0, end), logprobs: joined('logprobs'),
    };
  }

  test('come back from their trajectory: messages, times, calls, ids along the branch and what was sampled of them', () => {
    fc.assert(
      fc.property(trace, (made) => {
        const events = eventsOf(made);
        const trajectory = written(KEY, events) as Json;
        const back = imported(trajectory);
        assert.deepEqual([back.run, back.rollout], ['r', 'o']);
        assert.deepEqual(held(back.events), held(events));
        assert.equal(canonical(written(KEY, back.events) as Json), canonical(trajectory), 'written again');
        assert.ok(back.events.every(({ data }) => recordOf(data['extra'])?.['atif'] === undefined), 'nothing is kept aside of a trajectory of ours');
      }),
      { numRuns: 500 },
    );
  });
}); // prettier-ignore
