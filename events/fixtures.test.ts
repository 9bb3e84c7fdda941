import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ByteWriter } from '../base/byte-writer.ts';
import { checkEvent } from './check.ts';
import { decodeCbor } from './codec/cbor-decode.ts';
import { encodeEvent } from './codec/cbor-encode.ts';
import { cborToJson } from './codec/cbor-to-json.ts';
import { jsonToCbor } from './codec/json-to-cbor.ts';
import { contentHash } from './content-hash.ts';
import { EVENTS_VERSION } from './envelope.ts';
import { jsonSchemas, type JsonSchema } from './json-schemas.ts';
import { readEvent } from './read-event.ts';
import { EVENT_TYPES, type EventType } from './registry.ts';
import { upcast } from './upcast.ts';

const FOLDER = new URL('fixtures/', import.meta.url);
const VERSIONS = readdirSync(FOLDER);
const TYPES = Object.keys(EVENT_TYPES) as EventType[];

function transcode(json: Buffer): Buffer {
  const out = new ByteWriter();
  jsonToCbor(json, 0, json.length, out);
  return out.take();
}

/** Every type and version that was ever written must be readable for ever: these files are never edited. */
for (const version of VERSIONS) {
  for (const file of readdirSync(new URL(`${version}/`, FOLDER))) {
    const type = file.replace(/\.(json|cbor)$/, '');
    test(`golden ${version}/${file} is still a ${type}`, () => {
      const bytes = readFileSync(new URL(`${version}/${file}`, FOLDER));
      const slice = file.endsWith('.json') ? transcode(bytes) : bytes;
      const read = readEvent(slice);
      assert.ok(read.ok, read.ok ? '' : read.error.message);
      assert.equal(read.value.type, type);
      assert.equal(read.value.v, EVENTS_VERSION);
    });
  }
}

for (const type of TYPES) {
  const fixture = (extension: string): Buffer => readFileSync(new URL(`v${EVENTS_VERSION}/${type}.${extension}`, FOLDER));

  test(`${type}: the JSON and the CBOR fixture say the same`, () => {
    const slice = transcode(fixture('json'));
    assert.deepStrictEqual(decodeCbor(slice), decodeCbor(fixture('cbor')));
    assert.deepStrictEqual(contentHash(slice), contentHash(fixture('cbor')));
    const json = new ByteWriter();
    cborToJson(slice, 0, slice.length, json);
    assert.deepStrictEqual(decodeCbor(transcode(json.take())), decodeCbor(slice));
    assert.deepEqual(Buffer.from(encodeEvent(decodeCbor(fixture('cbor')) as object)), fixture('cbor'));
  });

  test(`${type}: its fixture has every field`, () => {
    const value = decodeCbor(fixture('cbor')) as { data: unknown };
    assert.deepEqual(missing(jsonSchemas().data[type], value.data, 'data'), []);
  });

  test(`${type}: each required field and id is required`, () => {
    const value = decodeCbor(fixture('cbor')) as Record<string, unknown> & { data: Record<string, unknown> };
    const required = jsonSchemas().data[type]['required'] as string[];
    for (const key of required ?? []) assertMissing({ ...value, data: without(value.data, key) }, `data.${key}`);
    for (const key of ['v', 'id', 'type', 'time', 'data', ...EVENT_TYPES[type].requires]) assertMissing(without(value, key), key);
  });
}

test('an envelope field the schema does not know, and any unknown field, are kept', () => {
  const value = decodeCbor(readFileSync(new URL('v1/note.added.cbor', FOLDER))) as Record<string, unknown> & { data: object };
  const checked = checkEvent({ ...value, later: 1, data: { ...value.data, later: { a: null } } });
  assert.ok(checked.ok);
  assert.equal((checked.value as unknown as { later: number }).later, 1);
  assert.deepEqual((checked.value.data as { later?: unknown }).later, { a: null });
});

test('upcast lifts old versions step by step, and leaves what it does not know', () => {
  const lifts = {
    1: (event: Record<string, unknown>) => ({ ...event, renamed: event['old'] }),
    2: (event: Record<string, unknown>) => ({ ...event, doubled: (event['renamed'] as number) * 2 }),
  };
  assert.deepEqual(upcast({ v: 1, old: 4 }, lifts, 3), { v: 3, old: 4, renamed: 4, doubled: 8 });
  assert.deepEqual(upcast({ v: 2, renamed: 1 }, lifts, 3), { v: 3, renamed: 1, doubled: 2 });
  for (const same of [{ v: 3 }, { v: 9 }, { v: 0 }, { v: '1' }, {}, null, 5]) assert.equal(upcast(same, lifts, 3), same);
  assert.deepEqual(upcast({ v: EVENTS_VERSION, a: 1 }), { v: EVENTS_VERSION, a: 1 });
});

function without(value: Record<string, unknown>, key: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([k]) => k !== key));
}

function assertMissing(value: unknown, field: string): void {
  const checked = checkEvent(value);
  assert.ok(!checked.ok, `${field} can be left out`);
  assert.deepEqual([checked.error.code, checked.error.field], ['missing_field', field]);
}

/** Paths of the schema that the value does not have; an array counts when any of its items has the path. */
function missing(schema: JsonSchema, value: unknown, path: string): string[] {
  if (value === undefined) return [path];
  const options = (schema['anyOf'] as JsonSchema[] | undefined) ?? [schema];
  const object = options.find((o) => o['properties'] !== undefined || o['items'] !== undefined);
  if (object === undefined || value === null) return [];
  if (object['items'] !== undefined) return Array.isArray(value) ? missing(object['items'] as JsonSchema, value[0], `${path}[]`) : [];
  if (typeof value !== 'object' || Array.isArray(value)) return [];
  const fields = Object.entries(object['properties'] as Record<string, JsonSchema>).filter(
    ([key]) => !(key === 'dtype' || key === 'shape'),
  );
  return fields.flatMap(([key, field]) => missing(field, (value as Record<string, unknown>)[key], `${path}.${key}`));
}
