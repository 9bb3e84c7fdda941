import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiTypesText } from './api-types-text.ts';
import { SchemaTypes, type Schema } from './schema-types.ts';

const cases: [Schema, string][] = [
  [{ type: 'integer', minimum: 0 }, 'number'],
  [{ type: ['string', 'null'] }, 'string | null'],
  [{ enum: ['a', 'b', 'a'] }, '"a" | "b"'],
  [{ const: 'numbers' }, '"numbers"'],
  [{ type: 'array', items: { anyOf: [{ type: 'number' }, { type: 'null' }] } }, '(number | null)[]'],
  [{ type: 'array', prefixItems: [{ type: 'number' }, { type: 'string' }] }, '[number, string]'],
  [{ type: 'string', format: 'binary' }, 'Blob'],
  [{ type: 'object', additionalProperties: { type: 'boolean' } }, '{ readonly [key: string]: boolean }'],
  [{ type: 'object', properties: { 'a.b': { type: 'string' }, c: {} }, required: ['c'] }, '{ readonly "a.b"?: string;\nreadonly c: unknown }'],
  [{ type: 'object', properties: { $float: { enum: ['NaN'] } } }, 'FloatLiteral'],
  [{ type: 'object', properties: { a: { type: 'string', description: 'no end */ here' } } }, '{ /** no end * / here */\nreadonly a?: string }'],
]; // prettier-ignore

for (const [schema, type] of cases) {
  test(`${JSON.stringify(schema)} is ${type.replaceAll('\n', ' ')}`, () => assert.equal(new SchemaTypes().typeOf(schema), type));
}

test('a title names a type once; two types with one title are refused', () => {
  const types = new SchemaTypes();
  const warning = { title: 'Warning', type: 'object', properties: { code: { type: 'string' } } };
  assert.equal(types.typeOf({ type: 'array', items: warning }), '(Warning)[]');
  assert.equal(types.typeOf(warning), 'Warning');
  assert.deepEqual(types.declarations(), ['export type Warning = { readonly code?: string };']);
  assert.throws(() => types.typeOf({ title: 'Warning', type: 'string' }), /two types/);
});

test('a keyword that would be lost is refused', () => {
  for (const keyword of ['$ref', 'allOf', 'not', 'patternProperties', 'if']) {
    assert.throws(() => new SchemaTypes().typeOf({ type: 'object', [keyword]: {} }), (error: Error) => error.message.includes(`not know ${keyword} `));
  }
}); // prettier-ignore

test('only questions and remarks are taken from a document', () => {
  const operation = { operationId: 'x', summary: 'X', responses: { 200: {} } };
  const text = apiTypesText({
    paths: {
      '/v1/runs': { get: { ...operation, tags: ['query'] } },
      '/v1/events': { post: { ...operation, tags: ['ingest'] } },
      '/clickhouse/': { get: { ...operation, tags: ['query'] } },
    },
  });
  assert.deepEqual([...text.matchAll(/"(\/[^"]+)": \{ \/\*\*/g)].map((match) => match[1]), ['/v1/runs']); // prettier-ignore
});
