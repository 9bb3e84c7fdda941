import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { WholeFloat } from '../../events/codec/whole-float.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { readEvent } from '../../events/read-event.ts';
import type { EventOf, EventType, TapedeckEvent } from '../../events/registry.ts';
import { episodeOf } from './export-verifiers.ts';
import type { ImportedEvent } from './event-maker.ts';
import { sameJson, type Json, type JsonRecord } from './json-value.ts';
import { BARE_EPISODE, EPISODE_040, EPISODES, parsed, TRAIN_EPISODE } from './sample-records.ts';
import { episodeEvents, type Imported } from './verifiers-v1.ts';

function imported(text: string, options = {}): Imported {
  const result = episodeEvents(parsed(text), options);
  assert.ok(result.ok, result.ok ? '' : result.error.message);
  return result.value;
}

/** Every event, checked as a reader of the log checks it. */
function checked(events: readonly ImportedEvent[]): TapedeckEvent[] {
  return events.map(({ slice }) => {
    const event = readEvent(slice);
    assert.ok(event.ok, event.ok ? '' : event.error.message);
    return event.value;
  });
}

function ofType<T extends EventType>(events: readonly TapedeckEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}

async function roundTrip(value: Json): Promise<JsonRecord | null> {
  const result = episodeEvents(value);
  if (!result.ok) return null;
  checked([result.value.runEvent, ...result.value.events]);
  const back = await episodeOf(
    result.value.rollout,
    result.value.events.map((event) => event.slice),
  );
  return back?.episode ?? {};
}

for (const [name, text] of EPISODES) {
  test(`${name}: comes back equal field by field`, async () => {
    const value = parsed(text);
    const back = await roundTrip(value);
    assert.ok(sameJson(back ?? null, value), inspect(back, { depth: 9 }));
  });
}

test('ids, times and order of a training episode', () => {
  const { events: made, run, runEvent, rollout } = imported(TRAIN_EPISODE, { project: 'p1' });
  const events = checked(made);
  assert.deepEqual([run, rollout], ['r1', 'e1']);
  const started = checked([runEvent])[0] as EventOf<'run.started'>;
  assert.deepEqual([started.run, started.rollout, started.data.kind, started.data.name], ['r1', undefined, 'train', 'demo']);
  assert.ok(events.every((e) => e.project === 'p1' && e.run === 'r1' && e.group === 'g1' && e.rollout === 'e1'));
  assert.equal(events[0]?.type, 'rollout.started');
  assert.equal(events.at(-1)?.type, 'rollout.ended');
  const begin = ofType(events, 'rollout.started')[0]?.data;
  assert.deepEqual(begin?.work, { type: 'train', step: 3 });
  assert.deepEqual([begin?.policyVersion, begin?.policyVersionEnd, begin?.started], [2, 2, 1_762_214_400_500_000]);
  const end = ofType(events, 'trace.ended')[0];
  assert.deepEqual(end?.data.counts, { nodes: 5, calls: 3 });
  assert.deepEqual([end?.data.ended, end?.data.truncated, end?.time], [1_762_214_410_000_000, false, 1_762_214_410_000_000]);
});

test('nodes: parents, forks, calls, policy, token streams as typed arrays', () => {
  const nodes = ofType(checked(imported(TRAIN_EPISODE).events), 'node.appended');
  assert.deepEqual(
    nodes.map((n) => n.data.parent ?? null),
    [null, 0, 1, 2, 2],
  );
  assert.deepEqual(
    nodes.map((n) => n.data.forkReason ?? null),
    [null, null, null, null, 'unknown'],
  );
  assert.deepEqual(
    nodes.map((n) => n.data.call ?? null),
    [null, 0, null, 2, null],
  );
  assert.deepEqual(
    nodes.map((n) => n.data.policyVersion ?? null),
    [null, 2, null, 2, 2],
  );
  assert.deepEqual(
    nodes.map((n) => n.time),
    [1_762_214_401_605_592, 1_762_214_402_000_000, 1_762_214_403_000_000, 1_762_214_404_000_000, 1_762_214_405_000_000],
  );
  const second = nodes[1]?.data.tokens;
  assert.deepEqual([...(second?.ids.typed() ?? [])], [9, 50, 151645]);
  assert.deepEqual([...(second?.mask.bytes ?? [])], [0, 1, 1]);
  assert.deepEqual([...(second?.logprobs?.typed() ?? [])], [Math.fround(-0.286871999502182), Math.fround(-1.1920928244535389e-7)]);
  assert.deepEqual(nodes[1]?.data.extra?.['doubles'], ['logprobs']);
  assert.equal(nodes[2]?.data.tokens?.isContent, undefined);
  assert.deepEqual([...(nodes[3]?.data.tokens?.lossWeights?.['ce']?.typed() ?? [])], [0, 0.25]);
  assert.equal(nodes[3]?.data.extra?.['doubles'], undefined);
  const kept = (nodes[4]?.data.extra?.['verifiers'] ?? {}) as { logprobs?: PackedArray<'f64'> };
  assert.deepEqual([...(kept.logprobs?.typed() ?? [])], [-0.12345678901234]);
});

test('no token fields, empty token fields and logprobs that were not kept stay three things', () => {
  const bare = ofType(checked(imported(BARE_EPISODE).events), 'node.appended');
  assert.equal(bare[0]?.data.tokens, undefined);
  const nodes = ofType(checked(imported(EPISODE_040).events), 'node.appended');
  assert.equal(nodes[0]?.data.tokens?.ids.length, 0);
  assert.equal(nodes[0]?.data.tokens?.logprobs?.length, 0);
  assert.equal(nodes[1]?.data.tokens?.ids.length, 2);
  assert.equal(nodes[1]?.data.tokens?.logprobs, undefined);
});

test('rewards: a null entry, a null score and a score are three things', () => {
  const rewards = ofType(checked(imported(TRAIN_EPISODE).events), 'reward.assigned');
  assert.deepEqual(
    rewards.map((r) => [r.data.name, r.data.score, r.data.weight, r.data.extra ?? null]),
    [
      ['correct', 1, 0.5, null],
      ['style', null, 1, null],
      ['unscored', null, null, { verifiers: null }],
    ],
  );
});

test('calls: failed ones, usage, errors; tools with their results; links of verifiers 0.4.0', () => {
  const events = checked(imported(TRAIN_EPISODE).events);
  const calls = ofType(events, 'call.recorded');
  assert.deepEqual(calls[0]?.data.usage, { promptTokens: 4, completionTokens: 2, cachedTokens: 1 });
  assert.deepEqual(calls[1]?.data.error, { type: 'ProviderError', message: 'busy', statusCode: 503 });
  assert.equal(calls[1]?.data.time, undefined);
  assert.deepEqual(
    ofType(events, 'tool.recorded').map((t) => t.data),
    [{ toolCallId: 'c1', node: 1, name: 'search', resultNode: 2 }],
  );
  const later = imported(EPISODE_040);
  assert.deepEqual(
    ofType(checked(later.events), 'link.added').map((l) => l.data),
    [{ from: { trace: 't2', node: 0 }, to: { trace: 't2', node: 1 }, type: 'continuation' }],
  );
  assert.deepEqual(
    later.warnings.map((w) => w.field),
    ['nodes.semantic_parents'],
  );
});

test('without a run: the given one, else one per environment', () => {
  assert.equal(imported(BARE_EPISODE).run, 'verifiers-bare');
  assert.equal(imported(BARE_EPISODE, { run: 'mine' }).run, 'mine');
  assert.equal(imported(TRAIN_EPISODE, { run: 'mine' }).run, 'r1');
});

test('without any time the time is 0; errors of both levels are kept', () => {
  const events = checked(imported(BARE_EPISODE.replace('"timestamp":12.0', '"timestamp":0.0')).events);
  assert.ok(events.every((e) => e.time === 0));
  const errors = ofType(events, 'error.recorded').map((e) => [e.data.scope, e.data.type, e.data.statusCode ?? null, e.data.extra ?? null]);
  assert.deepEqual(errors, [
    ['trace', 'ProviderError', 429, { verifiers: { type: 'ProviderError', message: '', status_code: 429, more: 1 } }],
    ['rollout', 'EnvError', null, null],
  ]);
});

test('the same episode gives the same event ids; another project, another place or another content other ones', () => {
  const ids = (text: string, options = {}): string[] => checked(imported(text, options).events).map((e) => e.id);
  const first = ids(TRAIN_EPISODE);
  assert.equal(new Set(first).size, first.length);
  assert.deepEqual(ids(TRAIN_EPISODE), first);
  assert.ok(ids(TRAIN_EPISODE, { project: 'other' }).every((id) => !first.includes(id)));
  const rescored = ids(TRAIN_EPISODE.replace('"score":1.0', '"score":0.0'));
  assert.equal(rescored.filter((id) => !first.includes(id)).length, 1);
});

test('ids are pinned: a changed rule would import everything again under new ids', () => {
  const made = checked(imported(TRAIN_EPISODE).events);
  assert.equal(made[0]?.id, '46d86d48-a66c-826f-9eff-e89bc6e8bd9c');
});

const REFUSED: readonly [string, string, string][] = [
  ['"just text"', 'wrong_type', ''],
  ['{"traces":[]}', 'invalid_id', 'id'],
  ['{"id":"","traces":[]}', 'invalid_id', 'id'],
  ['{"id":"\\ud800","traces":[]}', 'invalid_id', 'id'],
  [`{"id":"${'x'.repeat(257)}","traces":[]}`, 'invalid_id', 'id'],
  ['{"id":"a"}', 'missing_field', 'traces'],
  ['{"id":"a","traces":7}', 'wrong_type', 'traces'],
  ['{"id":"a","traces":[1]}', 'wrong_type', 'traces[0]'],
  ['{"id":"a","traces":[{"nodes":{}}]}', 'wrong_type', 'traces[0].nodes'],
  ['{"id":"a","traces":[{"nodes":[{},3]}]}', 'wrong_type', 'traces[0].nodes[1]'],
  ['{"id":"a","traces":[{"calls":["x"]}]}', 'wrong_type', 'traces[0].calls[0]'],
  ['{"id":"a","traces":[{"rewards":[]}]}', 'wrong_type', 'traces[0].rewards'],
  ['{"id":"a","traces":[],"errors":"none"}', 'wrong_type', 'errors'],
];
for (const [text, code, field] of REFUSED) {
  test(`refused with field and code: ${text.slice(0, 60)}`, () => {
    const result = episodeEvents(parsed(text));
    assert.ok(!result.ok);
    assert.deepEqual([result.error.code, result.error.field ?? ''], [code, field]);
  });
}

const ODD: readonly [string, string][] = [
  ['parent after its child', '{"parent":5,"message":{"role":"user"},"sampled":false}'],
  ['parent that is no index', '{"parent":"0","message":{"role":"user"},"sampled":false}'],
  ['message that is text', '{"message":"hi","sampled":"yes"}'],
  ['role too long', `{"message":{"role":"${'r'.repeat(65)}"},"sampled":true}`],
  ['mask too short', '{"message":{"role":"user"},"sampled":true,"token_ids":[1,2],"mask":[true],"is_content":[],"logprobs":[-0.5]}'],
  ['mask of numbers', '{"message":{"role":"user"},"sampled":true,"token_ids":[1],"mask":[1],"is_content":[],"logprobs":[]}'],
  ['token id over 2^31', '{"message":{"role":"user"},"sampled":true,"token_ids":[2147483648],"mask":[false],"is_content":[],"logprobs":[]}'],
  ['token id as float', '{"message":{"role":"user"},"sampled":true,"token_ids":[1.0],"mask":[false],"is_content":[],"logprobs":[]}'],
  ['too many logprobs', '{"message":{"role":"user"},"sampled":true,"token_ids":[1],"mask":[true],"is_content":[true],"logprobs":[-0.5,-0.5]}'],
  ['logprobs with null', '{"message":{"role":"user"},"sampled":true,"token_ids":[1],"mask":[true],"is_content":[true],"logprobs":[null]}'],
  ['logprobs NaN', '{"message":{"role":"user"},"sampled":true,"token_ids":[1,2],"mask":[true,true],"is_content":[],"logprobs":[NaN,-Infinity]}'],
  ['advantages as integers', '{"message":{"role":"user"},"sampled":true,"token_ids":[1],"mask":[true],"is_content":[true],"logprobs":[0.0],"advantages":[1]}'],
  ['is_content of another length', '{"message":{"role":"user"},"sampled":true,"token_ids":[1],"mask":[true],"is_content":[true,true],"logprobs":[0.0]}'],
  ['loss weights that are a list', '{"message":{"role":"user"},"sampled":true,"token_ids":[1],"mask":[true],"is_content":[true],"logprobs":[0.0],"loss_weights":[1.0]}'],
  ['streams that are null', '{"message":{"role":"user"},"sampled":true,"token_ids":null,"mask":null,"is_content":null,"logprobs":null}'],
  ['logprobs without ids', '{"message":{"role":"user"},"sampled":true,"logprobs":[-0.5]}'],
]; // prettier-ignore
for (const [name, node] of ODD) {
  test(`an odd node is kept and comes back: ${name}`, async () => {
    const value = parsed(`{"id":"a","traces":[{"id":"t","nodes":[${node}]}]}`);
    assert.ok(sameJson(await roundTrip(value), value));
  });
}

/** Any value a field could hold, now and then the right one. */
const anyJson: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Json>(null, true, false, 0, 1, -1, '', 'x', 1n << 70n, NaN, Infinity, 0.1, '\ud800', 'a\0b'),
    fc.double({ noInteger: true }),
    fc.integer().map((n) => new WholeFloat(n)),
    fc.integer(),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('id', 'type', 'role', 'score', 'data', 'start', '__proto__', '1'), tie('value'), {
      maxKeys: 3,
      noNullPrototype: true,
    }),
  ),
})).value;
const sometimes = (right: fc.Arbitrary<Json>): fc.Arbitrary<Json> =>
  fc.oneof({ weight: 4, arbitrary: right }, { weight: 1, arbitrary: anyJson });
const record = (shape: Record<string, fc.Arbitrary<Json>>): fc.Arbitrary<Json> =>
  fc.record(shape, { requiredKeys: [], noNullPrototype: true }) as fc.Arbitrary<Json>;
const float = fc.oneof(
  fc.double({ noInteger: true, noNaN: true, noDefaultInfinity: true }),
  fc.integer().map((n) => new WholeFloat(n)),
);
const listOf = (item: fc.Arbitrary<Json>): fc.Arbitrary<Json> => fc.array(item, { maxLength: 3 });
const anyNode = record({
  parent: sometimes(fc.nat(2)), message: sometimes(record({ role: sometimes(fc.constant('assistant')), content: anyJson, tool_calls: anyJson })), sampled: sometimes(fc.boolean()), timestamp: sometimes(float),
  token_ids: sometimes(listOf(fc.nat(9))), mask: sometimes(listOf(fc.boolean())), is_content: sometimes(listOf(fc.boolean())), logprobs: sometimes(listOf(float)), advantages: sometimes(listOf(float)), other: anyJson,
}); // prettier-ignore
const anyCall = record({ node: sometimes(fc.nat(2)), model: anyJson, usage: sometimes(record({ prompt_tokens: sometimes(fc.nat()), cost: anyJson })), time: sometimes(record({ start: sometimes(float), end: sometimes(float) })), error: anyJson }); // prettier-ignore
const anyTrace = record({
  version: sometimes(fc.constant(1)), id: sometimes(fc.constantFrom('t1', 't2')), task: anyJson, agent: sometimes(record({ config: anyJson, name: anyJson, trainable: anyJson, runtime: anyJson })), tools: anyJson,
  nodes: listOf(anyNode), calls: listOf(anyCall), rewards: record({ r: sometimes(record({ score: sometimes(float), weight: sometimes(float) })), '': anyJson }), metrics: record({ m: sometimes(float), '': anyJson }),
  errors: listOf(anyJson), ok: anyJson, stop_condition: anyJson, timing: sometimes(record({ start: sometimes(float), agent: anyJson, scoring: anyJson })), info: anyJson, unknown: anyJson,
}); // prettier-ignore
const anyEpisode = record({ env: anyJson, task: anyJson, group: anyJson, run: anyJson, ok: anyJson, errors: listOf(anyJson), unknown: anyJson, traces: listOf(anyTrace) }); // prettier-ignore

test('whatever an episode holds, its events are legal and it comes back equal', async () => {
  await fc.assert(
    fc.asyncProperty(anyEpisode, async (rest) => {
      const value: Json = { id: 'e', traces: [], ...(rest as JsonRecord) };
      const back = await roundTrip(value);
      assert.ok(back !== null && sameJson(back, value));
    }),
    { numRuns: 400 },
  );
});
