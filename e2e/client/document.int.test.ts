/** The server's OpenAPI document: valid, complete for the API's own routes, and the source of the client's types (TAPEDECK_UPDATE_DOCS=1 rewrites them). */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { format, resolveConfig } from 'prettier';
import { apiTypesText, type ApiDocument } from '../../client/api-types-text.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import type { Document, Operation } from './documented.ts';

const TYPES = join(import.meta.dirname, '../../client/api-types.ts');

let server: TestServer;
let document: Document;
const folder = temporaryFolder('api-document');
before(async () => {
  server = await startServer({ TAPEDECK_DATA: folder.path });
  document = (await (await fetch(`${server.url}/docs/json`)).json()) as Document;
});
after(async () => {
  await server?.stop();
  folder.remove();
});

function operations(): { readonly path: string; readonly operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, methods]) => Object.values(methods).map((operation) => ({ path, operation })));
}

test('the document is valid OpenAPI 3.1, and operation ids are unique', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(document));
  assert.ok(valid, JSON.stringify(errors ?? null));
  assert.match(document.openapi, /^3\.1\./);
  const ids = operations().flatMap(({ operation }) => operation.operationId ?? []);
  assert.deepEqual(ids.filter((id, at) => ids.indexOf(id) !== at), []); // prettier-ignore
});

/** Routes that speak the API of others: a model server's, or the one that verifiers uploads to. */
const OTHERS = new Set(['gateway', 'uploads']);

test('every route of our own has a summary, an answer and the shape of failures', () => {
  const questions = operations().filter(({ path, operation }) => path.startsWith('/v1/') && !(operation.tags ?? []).some((tag) => OTHERS.has(tag)));
  assert.ok(questions.length > 80, `${questions.length}`);
  for (const { path, operation } of questions) {
    const { operationId, summary, responses } = operation;
    assert.ok(summary !== undefined && summary.length > 3, path);
    assert.ok(responses['default']?.content?.['application/json']?.schema !== undefined, `${path} says nothing of failures`);
    const [success] = Object.entries(responses).filter(([status]) => status.startsWith('2'));
    const described = Object.values(success?.[1].content ?? {}).some(({ schema }) => schema !== undefined && (Object.hasOwn(schema, 'type') || Object.hasOwn(schema, 'anyOf')));
    assert.ok(described, `${operationId} (${path}) does not say what it answers`);
  }
}); // prettier-ignore

test("the client's types are those of the document", async () => {
  const options = await resolveConfig(TYPES);
  const fresh = await format(apiTypesText(document as unknown as ApiDocument), { ...options, parser: 'typescript' });
  if (process.env['TAPEDECK_UPDATE_DOCS'] === '1') writeFileSync(TYPES, fresh);
  else assert.equal(readFileSync(TYPES, 'utf8'), fresh, 'run: TAPEDECK_UPDATE_DOCS=1 node --test e2e/client/document.int.test.ts');
});
