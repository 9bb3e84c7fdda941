/** Prints agree with `messageHash`, which says when two messages are one; and each difference has its name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Json, Message } from '../dialects/dialect.ts';
import { messageHash } from '../dialects/message-hash.ts';
import { HASH_WORDS, PARTS, printMessages, PRINT_WORDS } from './message-print.ts';

const wholeOf = (message: Message): string => {
  const { roles, words } = printMessages([message]);
  return `${roles[0]} ${words.subarray(0, HASH_WORDS).join(' ')}`;
};
const partsOf = (message: Message): number[] => [...printMessages([message]).words.subarray(HASH_WORDS, PRINT_WORDS)];

const text = fc.constantFrom(
  '',
  'a',
  'b',
  '\u0000',
  '\u0000"a"',
  '\ud800',
  '\udc00',
  '\\ud800',
  '"\\ud800"',
  '[{"type":"text","text":"a"}]',
  '{}',
  '{"a":1}',
);
const number = fc.constantFrom<Json>(0, 1, 1.5, 10_000_000_000_000_001n, 10_000_000_000_000_002n, 2 ** 53, null, true);
const part = fc.oneof(
  fc.record({ type: fc.constant('text'), text }),
  fc.record({ type: fc.constant('text'), text, cache_control: fc.constant({ type: 'ephemeral' }) }),
  fc.record({ type: fc.constant('image_url'), image_url: fc.record({ url: text }) }),
  fc.record({ b: number, a: number }),
);
const content = fc.oneof(text, fc.constant(null), fc.array(part, { maxLength: 2 }));
const call = fc.record({
  id: fc.constantFrom('c1', 'c2'),
  name: fc.constantFrom('f', 'g'),
  arguments: fc.constantFrom(
    '',
    '{}',
    '{ }',
    '{"a":1,"b":2}',
    '{"b":2, "a":1.0}',
    '{"a":10000000000000001}',
    '{"a":10000000000000002}',
    '{"a":',
    'a',
  ),
});
const message = fc.record(
  {
    role: fc.constantFrom('user', 'assistant', 'tool'),
    content,
    reasoning_content: fc.oneof(text, fc.constant(null)),
    refusal: fc.oneof(text, fc.constant(null)),
    tool_calls: fc.array(call, { maxLength: 2 }),
    tool_call_id: text,
    name: text,
    provider_state: fc.array(fc.record({ dialect: fc.constant('x'), type: fc.constantFrom('message', 'other'), id: text, signature: text }), { maxLength: 1 }),
  },
  { requiredKeys: ['role'] },
) as fc.Arbitrary<Message>; // prettier-ignore

test('two messages have one print exactly when they have one hash', () => {
  const seen = { same: 0, different: 0 };
  const check = (a: Message, b: Message): void => {
    const same = messageHash(a) === messageHash(b);
    seen[same ? 'same' : 'different']++;
    assert.equal(wholeOf(a) === wholeOf(b), same, `${JSON.stringify(a, bigints)}\n${JSON.stringify(b, bigints)}`);
  };
  fc.assert(
    fc.property(message, message, fc.constantFrom(...Object.keys({ content, reasoning_content: 0, refusal: 0, tool_calls: 0, tool_call_id: 0 })), (a, b, key) => {
      check(a, b);
      check(a, { ...a, [key]: b[key] ?? null });
      check(a, Object.fromEntries(Object.entries(a).toReversed()) as Message);
    }),
    { numRuns: 3000 },
  );
  assert.ok(seen.same > 1000 && seen.different > 1000, JSON.stringify(seen));
}); // prettier-ignore

const bigints = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value);

test('every part that differs, and no other, has another word', () => {
  const whole: Message = {
    role: 'assistant',
    content: 'a',
    reasoning_content: 'b',
    refusal: 'c',
    tool_calls: [{ id: 'c1', name: 'f', arguments: '{}' }],
    tool_call_id: 'd',
    provider_state: [{ dialect: 'x', type: 'other', data: 'e' }],
  };
  const changes: Record<(typeof PARTS)[number], Record<string, Json>> = {
    content: { content: 'z' },
    reasoning_content: { reasoning_content: 'z' },
    refusal: { refusal: 'z' },
    tool_calls: { tool_calls: [{ id: 'c1', name: 'g', arguments: '{}' }] },
    'tool_calls.id': { tool_calls: [{ id: 'c9', name: 'f', arguments: '{}' }] },
    tool_call_id: { tool_call_id: 'z' },
    provider_state: { provider_state: [{ dialect: 'x', type: 'other', data: 'z' }] },
  };
  const before = partsOf(whole);
  assert.ok(before.every((word) => word !== 0));
  for (const [name, change] of Object.entries(changes)) {
    const after = partsOf({ ...whole, ...change });
    assert.deepEqual(PARTS.filter((_, i) => after[i] !== before[i]), [name]); // prettier-ignore
  }
  assert.deepEqual(partsOf({ role: 'user', content: '' }), Array(PARTS.length).fill(0));
});

test('one text in two parts, or in two shapes, is two messages', () => {
  const forms: Message[] = [
    { role: 'assistant', content: 'x' },
    { role: 'assistant', reasoning_content: 'x' },
    { role: 'assistant', refusal: 'x' },
    { role: 'assistant', tool_call_id: 'x' },
    { role: 'assistant', content: 'x', reasoning_content: 'x' },
    { role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'x' } }] },
    { role: 'assistant', content: '[{"image_url":{"url":"x"},"type":"image_url"}]' },
    { role: 'assistant', content: '\ud800' },
    { role: 'assistant', content: '\udfff' },
    { role: 'assistant', content: '\ufffd' },
    { role: 'assistant', content: '"\\ud800"' },
  ];
  assert.equal(new Set(forms.map(wholeOf)).size, forms.length);
});

test('bytes, which a log may hold, count by their content', () => {
  const of = (...bytes: number[]): string =>
    wholeOf({ role: 'user', content: [{ type: 'audio', data: Uint8Array.from(bytes) as unknown as Json }] });
  assert.equal(of(1, 2), of(1, 2));
  assert.notEqual(of(1, 2), of(1, 3));
});
