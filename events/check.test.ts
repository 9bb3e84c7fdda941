import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { ERROR_CODES, type ErrorCode } from '../base/errors.ts';
import { checkEvent } from './check.ts';
import { isPlainEnvelope, isPlainNode } from './check-fast.ts';
import { decodeCbor } from './codec/cbor-decode.ts';
import { mapOf } from './codec/values.arbitrary.ts';
import { envelope } from './envelope.ts';
import { nodeAppended } from './node.ts';
import { PackedArray } from './packed-array.ts';
import { readEvent } from './read-event.ts';

type Fields = Record<string, unknown>;
const fixture = (type: string): Fields & { data: Fields } =>
  decodeCbor(readFileSync(new URL(`fixtures/v1/${type}.cbor`, import.meta.url))) as Fields & { data: Fields };

const NODE = fixture('node.appended');
const u32 = (...v: number[]): PackedArray => PackedArray.of(Uint32Array.from(v));
const u8 = (...v: number[]): PackedArray => PackedArray.of(Uint8Array.from(v));
const f32 = (...v: number[]): PackedArray => PackedArray.of(Float32Array.from(v));

function refused(event: unknown, code: ErrorCode, field?: string): void {
  const checked = checkEvent(event);
  assert.ok(!checked.ok, `accepted where ${code} was due`);
  assert.equal(checked.error.code, code, checked.error.message);
  if (field !== undefined) {
    assert.equal(checked.error.field, field);
    assert.ok(checked.error.message.startsWith(field), checked.error.message);
  }
}

const withData = (event: Fields & { data: Fields }, data: Fields): Fields => ({ ...event, data: { ...event.data, ...data } });
const withTokens = (tokens: Fields): Fields => withData(NODE, { tokens: { ...(NODE.data['tokens'] as Fields), ...tokens } });
const without = (event: Fields, key: string): Fields => Object.fromEntries(Object.entries(event).filter(([k]) => k !== key));

test('what is no object is no event', () => {
  for (const value of [null, 1, 'x', [], [NODE], new Uint8Array(3), u8(1), undefined]) refused(value, 'invalid_event');
  for (const data of [null, 1, [], new Uint8Array(3), f32(1)]) refused({ ...NODE, data }, 'wrong_type', 'data');
});

test('the envelope', () => {
  refused({ ...NODE, v: 2 }, 'unsupported_version', 'v');
  refused({ ...NODE, v: '1' }, 'unsupported_version', 'v');
  for (const id of ['', 'x', '019B0E8C-7A00-7000-8000-000000000011', 'é'.repeat(36)]) refused({ ...NODE, id }, 'invalid_id', 'id');
  refused({ ...NODE, id: 5 }, 'wrong_type', 'id');
  refused({ ...NODE, type: 'x'.repeat(65) }, 'field_too_long', 'type');
  refused({ ...NODE, type: '' }, 'invalid_id', 'type');
  for (const key of ['project', 'run', 'group', 'rollout', 'trace']) {
    refused({ ...NODE, [key]: '' }, 'invalid_id', key);
    refused({ ...NODE, [key]: 'x'.repeat(257) }, 'id_too_long', key);
    refused({ ...NODE, [key]: '€'.repeat(86) }, 'id_too_long', key);
    refused({ ...NODE, [key]: '\ud800' }, 'invalid_id', key);
    refused({ ...NODE, [key]: 7 }, 'wrong_type', key);
    refused({ ...NODE, [key]: null }, 'wrong_type', key);
    assert.ok(checkEvent({ ...NODE, [key]: 'x'.repeat(256) }).ok);
    assert.ok(checkEvent({ ...NODE, [key]: `${'€'.repeat(85)}x` }).ok);
  }
  for (const time of [-1, 1.5, 7_258_118_400_000_001, NaN, Infinity, 2n ** 60n]) refused({ ...NODE, time }, 'time_range', 'time');
  refused({ ...NODE, time: '2025' }, 'wrong_type', 'time');
  refused({ ...NODE, producer: { id: 'w', epoch: -1, seq: 0 } }, 'number_out_of_range', 'producer.epoch');
  refused({ ...NODE, producer: { id: 'w', epoch: 0 } }, 'missing_field', 'producer.seq');
  refused({ ...NODE, producer: 'w' }, 'wrong_type', 'producer');
});

test('an unknown type is told apart from a bad event', () => {
  refused({ ...NODE, type: 'node.exploded' }, 'unknown_type', 'type');
  for (const type of ['toString', '__proto__', 'constructor']) refused({ ...NODE, type }, 'unknown_type');
  refused({ ...NODE, type: 'node.exploded', time: -1 }, 'time_range');
  refused({ ...NODE, type: 'node.exploded', data: 1 }, 'wrong_type');
});

test('fields of data: kind, value, length, range', () => {
  refused(withData(NODE, { index: '5' }), 'wrong_type', 'data.index');
  refused(withData(NODE, { index: 1.5 }), 'wrong_type', 'data.index');
  refused(withData(NODE, { index: -1 }), 'number_out_of_range', 'data.index');
  refused(withData(NODE, { index: 2 ** 32 - 1 }), 'number_out_of_range', 'data.index');
  refused(withData(NODE, { index: 2n ** 60n }), 'number_out_of_range', 'data.index');
  refused(withData(NODE, { role: '' }), 'invalid_value', 'data.role');
  refused(withData(NODE, { role: 'r'.repeat(65) }), 'field_too_long', 'data.role');
  refused(withData(NODE, { forkReason: 'because' }), 'invalid_value', 'data.forkReason');
  refused(withData(NODE, { message: [] }), 'wrong_type', 'data.message');
  refused(withData(NODE, { message: new Uint8Array(2) }), 'wrong_type', 'data.message');
  refused(withTokens({ ids: [1] }), 'wrong_type', 'data.tokens.ids');
  refused(withTokens({ ids: f32(1) }), 'wrong_type', 'data.tokens.ids');
  refused(withTokens({ policyRuns: [{ length: 0, version: 1 }] }), 'number_out_of_range', 'data.tokens.policyRuns[0].length');
  refused(withTokens({ routedExperts: { sha256: 'xyz', bytes: 1, mediaType: 'x' } }), 'invalid_value', 'data.tokens.routedExperts.sha256');
  refused(withData(fixture('run.started'), { tags: Array.from({ length: 257 }, () => 't') }), 'field_too_long', 'data.tags');
  refused(withData(fixture('call.recorded'), { time: { start: -5 } }), 'time_range', 'data.time.start');
  refused(withData(fixture('call.recorded'), { usage: new Uint8Array(1) }), 'wrong_type', 'data.usage');
  refused(withData(fixture('reward.assigned'), { score: '1' }), 'wrong_type', 'data.score');
  refused(without(withData(fixture('reward.assigned'), { score: undefined }), ''), 'missing_field', 'data.score');
  refused(withData(fixture('reward.assigned'), { supersedes: 'x' }), 'invalid_id', 'data.supersedes');
  refused(withData(fixture('batch.cut'), { feed: 'f'.repeat(300) }), 'id_too_long', 'data.feed');
  for (const score of [NaN, Infinity, -0, null, 1e300]) assert.ok(checkEvent(withData(fixture('reward.assigned'), { score })).ok);
});

test('a node comes after its parent', () => {
  refused(withData(NODE, { parent: 5 }), 'parent_not_before', 'data.parent');
  refused(withData(NODE, { parent: 6 }), 'parent_not_before', 'data.parent');
  for (const parent of [null, 0, 4, undefined]) assert.ok(checkEvent(withData(NODE, { parent })).ok);
});

test('token streams: lengths against ids and against the sampled tokens', () => {
  refused(withTokens({ mask: u8(0, 1) }), 'mask_length', 'data.tokens.mask');
  refused(withTokens({ mask: u8(0, 0, 0, 1, 1, 1, 2) }), 'invalid_value', 'data.tokens.mask');
  refused(withTokens({ isContent: u8(1) }), 'is_content_length', 'data.tokens.isContent');
  refused(withTokens({ isContent: u8(0, 0, 0, 1, 1, 1, 9) }), 'invalid_value', 'data.tokens.isContent');
  refused(withTokens({ logprobs: f32(1, 2, 3) }), 'logprobs_length', 'data.tokens.logprobs');
  refused(withTokens({ logprobs: f32(1, 2, 3, 4, 5, 6, 7) }), 'logprobs_length', 'data.tokens.logprobs');
  refused(withTokens({ referenceLogprobs: f32(1) }), 'stream_length', 'data.tokens.referenceLogprobs');
  refused(withTokens({ advantages: f32() }), 'stream_length', 'data.tokens.advantages');
  refused(withTokens({ lossWeights: { rl: f32(1, 2, 3, 4) } }), 'stream_length', 'data.tokens.lossWeights.rl');
  refused(withTokens({ lossWeights: mapOf([['__proto__', 'abcdefg']]) }), 'wrong_type', 'data.tokens.lossWeights');
  refused(withTokens({ policyRuns: [{ length: 3, version: 1 }] }), 'stream_length', 'data.tokens.policyRuns');
  refused(withTokens({ ids: u32(1, 2, 3, 4, 5, 6, 2 ** 31) }), 'token_id_range', 'data.tokens.ids');
  assert.ok(checkEvent(withTokens({ ids: u32(1, 2, 3, 4, 5, 6, 2 ** 31 - 1) })).ok);
  assert.ok(checkEvent(withTokens({ logprobs: f32(NaN, -Infinity, -9999, 0) })).ok);
  const none = { ids: u32(), mask: u8(), isContent: u8(), logprobs: f32() };
  assert.ok(checkEvent(withData(NODE, { tokens: none })).ok);
  for (const tokens of [null, undefined]) assert.ok(checkEvent(withData(NODE, { tokens })).ok);
  const annotated = fixture('trainer.annotated');
  refused(withData(annotated, { streams: { entropies: f32(1), isMasked: u8(1, 0) } }), 'stream_length', 'data.streams');
  refused(withData(annotated, { streams: { isMasked: u8(2) } }), 'invalid_value', 'data.streams.isMasked');
});

test('a stream at any alignment is checked the same', () => {
  const bytes = new Uint8Array(4 * 3 + 1);
  bytes[12] = 0x80;
  const ids = new PackedArray('u32', bytes.subarray(1));
  refused(withData(NODE, { tokens: { ids, mask: u8(0, 0, 0) } }), 'token_id_range');
});

test('the envelope names what a value is about', () => {
  for (const type of ['reward.assigned', 'metric.recorded', 'error.recorded', 'note.added']) {
    const event = fixture(type);
    refused(without(event, 'trace'), 'missing_field', 'trace');
    refused(without(withData(event, { scope: 'trace' }), 'trace'), 'missing_field', 'trace');
    refused(withData(event, { node: null }), 'missing_field', 'data.node');
    assert.ok(checkEvent(without(withData(event, { scope: 'rollout', node: null }), 'trace')).ok);
  }
  const metric = fixture('metric.recorded');
  refused(without(withData(metric, { scope: 'group' }), 'group'), 'missing_field', 'group');
  refused(without(withData(metric, { scope: 'rollout' }), 'rollout'), 'missing_field', 'rollout');
  refused(withData(fixture('rollout.started'), { group: { id: 'other' } }), 'id_mismatch', 'data.group.id');
  assert.ok(checkEvent(without(fixture('rollout.started'), 'group')).ok);
});

test('a checked event is the value itself, not a copy', () => {
  const checked = checkEvent(NODE);
  assert.ok(checked.ok && (checked.value as unknown) === NODE);
});

test('readEvent answers with the code of whoever refused', () => {
  for (const [hex, code] of [['a1', 'invalid_cbor'], ['a2616101616102', 'duplicate_key'], ['01', 'invalid_event'], ['a0', 'missing_field']] as const) {
    const read = readEvent(Buffer.from(hex, 'hex'));
    assert.ok(!read.ok && read.error.code === code);
  }
}); // prettier-ignore

/** Values that are nearly right: what a guard that is too generous would let through. */
const nearly = fc.oneof(
  fc.constantFrom(undefined, null, true, 0, 5, -1, 1.5, NaN, -0, Infinity, 2 ** 32 - 2, 2 ** 32 - 1, 2 ** 53 - 1, 2 ** 53, 5n, 7_258_118_400_000_000, 7_258_118_400_000_001),
  fc.constantFrom('', 'x', 'x'.repeat(64), 'x'.repeat(65), 'x'.repeat(85), 'x'.repeat(86), '€'.repeat(85), '€'.repeat(86), '\ud800', '019b0e8c-7a00-7000-8000-000000000011', 'node.appended', 'retry', 'renderer'),
  fc.constantFrom<unknown>({}, [], new Uint8Array(4), u32(1), u8(1), f32(1), { id: 'w', epoch: 0, seq: 0 }, { id: 'w', epoch: -1, seq: 0 }, { epoch: 0, seq: 0 }, { id: '', epoch: 0, seq: 0 }),
  fc.constantFrom<unknown>({ ids: u32(1), mask: u8(1) }, { ids: u32(1), mask: u8(1), isContent: u8(1), logprobs: f32(1) }, { ids: u8(1), mask: u8(1) }, { ids: u32(1) }, { ids: u32(1), mask: u8(1), advantages: 5 }, { ids: u32(1), mask: u8(1), policyRuns: 'x', lossWeights: { a: 1 } }),
); // prettier-ignore

test('the quick guards accept only what the schemas accept, and do accept the common shape', () => {
  const good = { index: 5, parent: 4, role: 'assistant', message: {}, sampled: true, tokens: { ids: u32(1), mask: u8(1), logprobs: f32(1) }, call: 1, policyVersion: 3 }; // prettier-ignore
  assert.ok(isPlainNode(good) && isPlainEnvelope(NODE));
  const dataKeys = [...Object.keys(good), 'forkReason', 'attribution', 'partial', 'toolsHash', 'extra', 'tokenError', 'unknown'];
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...dataKeys), nearly, { maxKeys: 3 }), (change) => {
      const data = { ...good, ...change };
      if (isPlainNode(data)) assert.ok(nodeAppended.safeParse(data).success);
    }),
    { numRuns: 5000 },
  );
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom('v', 'id', 'type', 'project', 'run', 'trace', 'time', 'producer'), nearly, { maxKeys: 3 }), (change) => {
      const event = { ...NODE, ...change };
      if (isPlainEnvelope(event)) assert.ok(envelope.safeParse(event).success);
    }),
    { numRuns: 5000 },
  );
}); // prettier-ignore

test('no value crashes the check, and every code is on the list', () => {
  const keys = ['v', 'id', 'type', 'project', 'run', 'group', 'rollout', 'trace', 'time', 'producer', 'data'];
  const types = ['node.appended', 'call.recorded', 'reward.assigned', 'rollout.started', 'trainer.annotated', 'group.ready', 'link.added'];
  fc.assert(
    fc.property(fc.constantFrom(...types), fc.dictionary(fc.constantFrom(...keys), nearly), fc.dictionary(fc.string(), nearly), (type, change, data) => {
      const event = { ...fixture(type), ...change };
      const checked = checkEvent({ ...event, data: { ...(event.data as object), ...data } });
      assert.ok(checked.ok || checked.error.code in ERROR_CODES);
    }),
    { numRuns: 2000 },
  );
}); // prettier-ignore
