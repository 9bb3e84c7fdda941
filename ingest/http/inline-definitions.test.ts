import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { inlineDefinitions } from './inline-definitions.ts';

test('references are replaced by what they name, wherever they lie', () => {
  const schema = { body: { $defs: { id: { type: 'string' }, both: { anyOf: [{ $ref: '#/$defs/id' }, { type: 'null' }] } }, properties: { a: { $ref: '#/$defs/both' } } } };
  assert.deepEqual(inlineDefinitions(schema), { body: { properties: { a: { anyOf: [{ type: 'string' }, { type: 'null' }] } } } });
}); // prettier-ignore

test('a definition inside itself is any value', () => {
  const text = JSON.stringify(inlineDefinitions(z.toJSONSchema(z.object({ params: z.record(z.string(), z.json()) }))));
  assert.ok(!text.includes('$ref') && !text.includes('$defs'), text);
  assert.ok(text.includes('{"type":"array","items":{}}'), text);
});

test('references to elsewhere stay', () => {
  assert.deepEqual(inlineDefinitions({ $ref: '#/components/schemas/x' }), { $ref: '#/components/schemas/x' });
});
