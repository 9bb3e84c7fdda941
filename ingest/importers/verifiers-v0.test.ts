import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readEvent } from '../../events/read-event.ts';
import type { EventOf, EventType, TapedeckEvent } from '../../events/registry.ts';
import type { JsonRecord } from './json-value.ts';
import { parsed, ROWS } from './sample-records.ts';
import { rowEvents, type ImportedRow } from './verifiers-v0.ts';
import { v0Run, type V0Run } from './verifiers-v0-run.ts';

const METADATA = parsed('{"env_id":"sum","env_args":{"seed":1},"model":"org/toy:1","rollouts_per_example":3,"num_examples":2,"avg_reward":0.5,"date":"2025-09-29 21:20:27","tools":[{"name":"t"}]}') as JsonRecord; // prettier-ignore

function runOf(text: string, metadata: JsonRecord | null = METADATA, options = {}): V0Run {
  return v0Run({ value: parsed(text) as JsonRecord, bytes: Buffer.from(text) }, metadata, options);
}
function imported(text: string, run: V0Run = runOf(text), number = 1): ImportedRow {
  const result = rowEvents(parsed(text), { number, bytes: Buffer.from(text) }, run);
  assert.ok(result.ok, result.ok ? '' : result.error.message);
  return result.value;
}
function checked(row: ImportedRow): TapedeckEvent[] {
  return row.events.map(({ slice }) => {
    const event = readEvent(slice);
    assert.ok(event.ok, event.ok ? '' : event.error.message);
    return event.value;
  });
}
function ofType<T extends EventType>(events: readonly TapedeckEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
const row = (name: string): string => {
  const text = ROWS[name];
  assert.ok(text !== undefined, name);
  return text;
};

for (const name of Object.keys(ROWS)) {
  test(`${name}: legal events, messages in a chain, counts that agree`, () => {
    const text = row(name);
    const events = checked(imported(text));
    const nodes = ofType(events, 'node.appended');
    assert.deepEqual(
      nodes.map((n) => n.data.parent ?? null),
      nodes.map((_, i) => (i === 0 ? null : i - 1)),
    );
    assert.equal(ofType(events, 'trace.ended')[0]?.data.counts?.nodes, nodes.length);
    assert.equal(ofType(events, 'reward.assigned')[0]?.data.score, (JSON.parse(text) as { reward: number }).reward);
    assert.deepEqual([events[0]?.type, events.at(-1)?.type], ['rollout.started', 'rollout.ended']);
    assert.equal(new Set(events.map((e) => e.id)).size, events.length);
  });
}

test('tool calls of every generation become {id, name, arguments}; how they stood is kept', () => {
  for (const [name, args] of [
    ['g1 tool calls as objects', '{"x":1}'],
    ['g2 tool calls as strings', '{}'],
    ['hosted training row', '{"a":1}'],
  ] as const) {
    const events = checked(imported(row(name)));
    const node = ofType(events, 'node.appended').find((n) => Array.isArray(n.data.message?.['tool_calls']));
    const calls = node?.data.message?.['tool_calls'] as { id: string; arguments: string }[];
    assert.equal(calls[0]?.arguments, args, name);
    assert.ok(node?.data.extra !== undefined && 'tool_calls' in (node.data.extra['verifiers'] as object), name);
    assert.equal(ofType(events, 'tool.recorded').length, 1, name);
  }
  const result = ofType(checked(imported(row('g1 tool calls as objects'))), 'tool.recorded')[0]?.data;
  assert.deepEqual(result, { toolCallId: 'c1', node: 2, name: 'add', resultNode: 3 });
  const broken = imported(row('g2 tool calls as strings'));
  assert.deepEqual(
    broken.warnings.map((w) => w.field),
    ['completion.tool_calls'],
  );
});

test('text instead of messages is one message, in rows that are not hosted even when it looks like JSON', () => {
  const nodes = ofType(checked(imported(row('g2 completion as text').replace('" a time', '"[1, 2] a time'))), 'node.appended');
  assert.deepEqual(
    nodes.map((n) => n.data.message),
    [
      { role: 'user', content: 'Once upon' },
      { role: 'assistant', content: '[1, 2] a time [1]' },
    ],
  );
  assert.deepEqual(
    nodes.map((n) => n.data.sampled),
    [false, true],
  );
});

test('numbers that are no known column are metrics; a metrics object is taken once', () => {
  const metrics = (name: string): [string, number | null][] =>
    ofType(checked(imported(row(name))), 'metric.recorded').map((m) => [m.data.name, m.data.value]);
  assert.deepEqual(metrics('g1 tool calls as objects'), [['num_turns', 2]]);
  assert.deepEqual(metrics('g6 timing object and metrics'), [
    ['acc', 1],
    ['none', null],
  ]);
  assert.deepEqual(metrics('hosted training row'), [
    ['advantage', -0.375],
    ['accuracy', 1],
  ]);
});

test('errors: text and object; ok only where the row says it', () => {
  const text = checked(imported(row('g5 error as text')));
  assert.deepEqual(
    ofType(text, 'error.recorded').map((e) => [e.data.type, e.data.message]),
    [['SandboxError', "SandboxError(TimeoutError('x'))"]],
  );
  assert.equal(ofType(text, 'rollout.ended')[0]?.data.ok, false);
  const object = ofType(checked(imported(row('g6 timing object and metrics'))), 'error.recorded')[0]?.data;
  assert.deepEqual([object?.type, object?.message, object?.traceback], ['ModelError', 'bad', 'a -> b']);
  const okOf = (name: string, from: string, to: string): unknown =>
    ofType(checked(imported(row(name).replace(from, to))), 'rollout.ended')[0]?.data.ok;
  assert.equal(okOf('g0 without id', '', ''), null);
  assert.equal(okOf('g5 error as text', `"SandboxError(TimeoutError('x'))"`, 'null'), true);
});

test('times: epochs and zones only; without any the time is 0', () => {
  assert.ok(checked(imported(row('g3 flat times'))).every((e) => e.time === 0));
  const flat = ofType(checked(imported(row('g3 flat times'))), 'rollout.ended')[0]?.data;
  assert.deepEqual([flat?.timing, flat?.started], [{ generationMs: 12.5, scoringMs: 0, totalMs: 13 }, undefined]);
  const ended = ofType(checked(imported(row('g6 timing object and metrics'))), 'rollout.ended')[0];
  assert.deepEqual(
    [ended?.data.started, ended?.data.ended, ended?.time],
    [1_762_214_400_500_000, 1_762_214_402_000_000, 1_762_214_402_000_000],
  );
  const hosted = ofType(checked(imported(row('hosted training row'))), 'rollout.started')[0];
  assert.equal(hosted?.time, 1_778_855_146_500_000);
});

test('the task is the same in every run of it; everything that has no place is kept', () => {
  const first = ofType(checked(imported(row('g3 flat times'))), 'rollout.started')[0]?.data;
  const other = ofType(checked(imported(row('g3 flat times').replace('"reward":1.0', '"reward":0.0'))), 'rollout.started')[0]?.data;
  assert.equal(first?.task?.hash, other?.task?.hash);
  assert.deepEqual([first?.task?.key, first?.env], ['5', { id: 'sum', args: { seed: 1 } }]);
  const rest = ofType(checked(imported(row('g6 timing object and metrics'))), 'rollout.ended')[0]?.data.extra?.['verifiers'] as object;
  assert.deepEqual(Object.keys(rest), ['timing', 'is_completed', 'tool_defs', 'token_usage']);
});

test('groups are the rollouts of one example; in training of one example and step', () => {
  const groupOf = (name: string): unknown => checked(imported(row(name)))[0]?.group;
  const run = runOf(row('g3 flat times')).run;
  assert.equal(groupOf('g3 flat times'), `${run}-5`);
  assert.deepEqual(ofType(checked(imported(row('g3 flat times'))), 'rollout.started')[0]?.data.group?.size, 3);
  assert.equal(groupOf('g0 without id'), undefined);
  assert.equal(groupOf('hosted training row'), 'hosted1-40-4');
});

test('runs: derived from env, model and first row; hosted ones have their own; metadata results do not matter', () => {
  const text = row('g3 flat times');
  assert.match(runOf(text).run, /^sum--org--toy:1--[0-9a-f]{12}$/);
  assert.equal(runOf(text, { ...METADATA, avg_reward: 0.75 }).run, runOf(text).run);
  assert.notEqual(runOf(text.replace('12.5', '12.75')).run, runOf(text).run);
  assert.match(runOf(text, null).run, /^unknown--unknown--/);
  assert.equal(runOf(text, METADATA, { run: 'mine' }).run, 'mine');
  assert.equal(runOf(row('hosted training row'), METADATA, { run: 'mine' }).run, 'hosted1');
  const event = readEvent(runOf(text).event.slice);
  assert.ok(event.ok && event.value.type === 'run.started');
  assert.deepEqual([event.value.data.kind, event.value.data.name, event.value.data.model], ['eval', 'sum--org/toy:1', 'org/toy:1']);
  assert.deepEqual(event.value.data.config, {
    env_id: 'sum',
    env_args: { seed: 1 },
    model: 'org/toy:1',
    rollouts_per_example: 3,
    num_examples: 2,
  });
  assert.deepEqual(Object.keys(event.value.data.extra?.['verifiers'] as object), ['avg_reward', 'date', 'tools']);
  const foreign = readEvent(runOf(row('hosted training row'), { run: { id: 'another', base_model: 'm' } }).event.slice);
  assert.ok(foreign.ok && foreign.value.type === 'run.started' && foreign.value.data.model === undefined);
});

test('rollouts: the same row at the same place is the same one; at another place another', () => {
  const text = row('g3 flat times');
  assert.equal(imported(text).rollout, imported(text).rollout);
  assert.notEqual(imported(text, runOf(text), 2).rollout, imported(text).rollout);
  assert.notEqual(imported(text.replace('1.0', '0.5'), runOf(text)).rollout, imported(text).rollout);
  assert.equal(imported(row('hosted training row')).rollout, 'hosted1-40-4-2');
});

test('NaN and null rewards stay what they are', () => {
  const scoreOf = (score: string): unknown =>
    ofType(checked(imported(row('g0 without id').replace('1.0', score))), 'reward.assigned')[0]?.data.score;
  assert.ok(Number.isNaN(scoreOf('NaN')));
  assert.equal(scoreOf('null'), null);
  assert.equal(scoreOf('-Infinity'), -Infinity);
  assert.equal(scoreOf('"high"'), undefined);
});

test('trajectories stay in extra, with a warning', () => {
  const result = imported(row('g3 flat times').replace('"reward":1.0', '"reward":1.0,"trajectory":[{"tokens":null}]'));
  assert.deepEqual(
    result.warnings.map((w) => w.field),
    ['trajectory'],
  );
  const kept = ofType(checked(result), 'rollout.ended')[0]?.data.extra?.['verifiers'] as Record<string, unknown>;
  assert.deepEqual(kept['trajectory'], [{ tokens: null }]);
});

test('what is no row is refused with code and field', () => {
  const refuse = (text: string): string => {
    const result = rowEvents(parsed(text), { number: 1, bytes: Buffer.from(text) }, runOf(row('g3 flat times')));
    return result.ok ? 'accepted' : result.error.code;
  };
  assert.deepEqual(['[]', '7', '{}', '{"reward":1}', '{"prompt":null}'].map(refuse), [
    'wrong_type',
    'wrong_type',
    'missing_field',
    'missing_field',
    'accepted',
  ]);
});

test('columns of any type and nesting give legal events', () => {
  const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom('[{"role":"assistant"}]', '{"a":1}', '', '[broken', 1.5, -1, 1e15));
  const names = ['prompt', 'completion', 'reward', 'error', 'timing', 'metrics', 'info', 'id', 'example_id', 'task', 'step', 'run_id', 'sample_id', 'problem_id', 'env_name', 'tool_defs', 'created_at', 'is_completed', 'stop_condition', 'generation_ms', 'other', 'trajectory']; // prettier-ignore
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value), (columns) => {
      const text = JSON.stringify({ prompt: null, ...columns });
      const result = imported(text);
      checked(result);
      const event = readEvent(runOf(text).event.slice);
      assert.ok(event.ok, event.ok ? '' : event.error.message);
    }),
    { numRuns: 300 },
  );
});
