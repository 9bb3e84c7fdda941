import assert from 'node:assert/strict';
import { test } from 'node:test';
import { editedBody, readEdit } from './edit.ts';

const body = Buffer.from(
  '{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}],"seed":12345678901234567890}',
);
const edited = (...edits: string[]): unknown =>
  JSON.parse(editedBody(body, edits.map(readEdit)).toString().replace('12345678901234567890', '"exact"'));

test('sets, adds and appends; values are JSON or text; what is not touched stays exact', () => {
  assert.deepEqual(
    edited('messages[0].content=Be brief = short.', 'temperature=0.5', 'messages[1].content[0].text="c"', 'extra.deep=[1,null]'),
    {
      model: 'm',
      messages: [
        { role: 'system', content: 'Be brief = short.' },
        { role: 'user', content: [{ type: 'text', text: 'c' }] },
      ],
      seed: 'exact',
      temperature: 0.5,
      extra: { deep: [1, null] },
    },
  );
  assert.deepEqual((edited('messages[2]={"role":"user","content":"more"}') as { messages: unknown[] }).messages[2], {
    role: 'user',
    content: 'more',
  });
  assert.equal(editedBody(body, []).toString(), body.toString());
});

test('wrong edits are refused by name', () => {
  for (const bad of ['messages', '=x', 'messages[*].content=x', '**.text=x', 'a..b=1'])
    assert.throws(() => readEdit(bad), { code: 'usage' });
  for (const missing of ['messages[9].content=x', 'model.name=x', 'messages.first=x']) {
    assert.throws(() => edited(missing), { code: 'usage' });
  }
});
