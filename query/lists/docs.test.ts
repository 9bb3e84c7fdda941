import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import Fastify from 'fastify';
import swagger from '@fastify/swagger';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { listRoutes, listSettings } from '../routes/lists.ts';
import { restDocs } from './docs.ts';
import { RESOURCES } from './resources.ts';

test('docs/rest.md is fresh', () => {
  assert.equal(readFileSync(new URL('../../docs/rest.md', import.meta.url), 'utf8'), restDocs(), 'run: node query/lists/docs.ts --write');
});

test('no field is named like a setting of a list, keys and orders name fields, and names are told apart', () => {
  const settings = new Set(Object.keys(listSettings.shape));
  for (const { name, fields, key, sort } of RESOURCES) {
    const names = fields.map((field) => field.name);
    assert.equal(new Set(names).size, names.length, name);
    assert.deepEqual(names.filter((each) => settings.has(each)), [], name); // prettier-ignore
    for (const each of [...key, ...sort]) assert.ok(names.includes(each.replace(/^-/, '')), `${name}: ${each}`);
  }
});

test('every resource is in the OpenAPI document, its rows described field by field', async () => {
  const app = Fastify();
  await app.register(swagger, { openapi: { openapi: '3.1.0', info: { title: 'Tapedeck', version: '1' } } });
  await app.register(listRoutes, { store: {} as ColumnStore }); // never asked: only the document is made
  await app.ready();
  const document = app.swagger() as unknown as { paths: Record<string, { get: { responses: Record<string, { content: Record<string, { schema: { properties: { rows: { items: { properties: object } } } } }> }> } }> };
  for (const { name, fields, fetch } of RESOURCES) {
    const schema = document.paths[`/v1/${name}`]?.get.responses['200']?.content['application/json']?.schema;
    assert.deepEqual(Object.keys(schema?.properties.rows.items.properties ?? {}), fields.map((field) => field.name));
    if (fetch !== null) assert.ok(document.paths[`/v1${fetch.replaceAll(/:(\w+)/g, '{$1}')}`] !== undefined, fetch);
  }
  await app.close();
}); // prettier-ignore
