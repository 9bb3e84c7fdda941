import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstDifferentCharacter, firstDivergence, type PathNode } from './first-difference.ts';

const node = (index: number, text: string, more: Partial<PathNode> = {}): PathNode => ({
  index,
  role: 'assistant',
  sampled: true,
  text,
  reasoning: null,
  toolCalls: [],
  tokensHash: null,
  ...more,
});

test('the first message that differs, in what, and where', () => {
  const a = [node(0, 'hello'), node(1, 'one two')];
  assert.equal(firstDivergence(a, a), null);
  assert.deepEqual(firstDivergence(a, [node(0, 'hello'), node(5, 'one too')]), { at: 1, a: 1, b: 5, kind: 'text', character: 5 });
  assert.deepEqual(firstDivergence(a, a.slice(0, 1)), { at: 1, a: 1, b: null, kind: 'end', character: null });
  assert.deepEqual(firstDivergence([], []), null);
  assert.equal(firstDivergence([node(0, 'x')], [node(0, 'x', { role: 'user' })])?.kind, 'role');
  const calls = (name: string) => [node(0, 'x', { toolCalls: [{ name, arguments: '{}' }] })];
  assert.deepEqual(firstDivergence(calls('add'), calls('sub')), { at: 0, a: 0, b: 0, kind: 'tool calls', character: 0 });
  const tokens = (tokensHash: string | null) => [node(0, 'x', { tokensHash })];
  assert.equal(firstDivergence(tokens('a'), tokens('b'))?.kind, 'tokens');
  assert.equal(firstDivergence(tokens('a'), tokens(null)), null);
});

test('characters are counted without cutting a pair', () => {
  assert.equal(firstDifferentCharacter('a\u{1f600}', 'a\u{1f601}'), 1);
  assert.equal(firstDifferentCharacter('abc', 'ab'), 2);
  assert.equal(firstDifferentCharacter('', ''), null);
});
