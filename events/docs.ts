/** Writes docs/events.md from the schemas and the golden fixtures. Run: node events/docs.ts --write */
import { readFileSync, writeFileSync } from 'node:fs';
import { MAX_BIGNUM_BYTES, MAX_DEPTH, TAG } from './codec/cbor-head.ts';
import { EVENTS_VERSION } from './envelope.ts';
import { jsonSchemas, type JsonSchema } from './json-schemas.ts';
import { EVENT_TYPES, type EventType } from './registry.ts';

const TARGET = new URL('../docs/events.md', import.meta.url);
const INTRODUCTION = new URL('docs-introduction.md', import.meta.url);

/** The whole document. */
export function eventsDocument(): string {
  const schemas = jsonSchemas();
  const facts: Record<string, string> = {
    VERSION: String(EVENTS_VERSION),
    MAX_DEPTH: String(MAX_DEPTH),
    MAX_BIGNUM_BYTES: String(MAX_BIGNUM_BYTES),
    BLOB_TAG: String(TAG.blob),
    WTF8_TAG: String(TAG.wtf8),
    ENVELOPE: fieldTable(schemas.envelope),
    TYPES: typeTable(),
  };
  const introduction = readFileSync(INTRODUCTION, 'utf8').replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => facts[name] ?? `{{${name}}}`);
  const sections = (Object.keys(EVENT_TYPES) as EventType[]).map((type) => section(type, schemas.data[type]));
  return `${introduction.trimEnd()}\n\n${sections.join('\n\n')}\n`;
}

function typeTable(): string {
  const rows = Object.entries(EVENT_TYPES).map(([type, { says, topic }]) => `| [\`${type}\`](#${type.replaceAll('.', '')}) | ${topic} | ${says} |`); // prettier-ignore
  return ['| type | topic | says |', '| --- | --- | --- |', ...rows].join('\n');
}

function section(type: EventType, schema: JsonSchema): string {
  const { requires, says, topic } = EVENT_TYPES[type];
  const ids =
    requires.length > 0 ? requires.map((id) => `\`${id}\``).join(', ') : topic === 'feeds' ? 'none (the feed is in `data.feed`)' : 'none';
  const scoped = isScoped(schema) ? '; with `scope`, the id of that entity (scope `node`: `trace`, and `data.node`)' : '';
  const example = readFileSync(new URL(`fixtures/v${EVENTS_VERSION}/${type}.json`, import.meta.url), 'utf8').trimEnd();
  return [`### ${type}`, says, `Envelope ids: ${ids}${scoped}.`, fieldTable(schema), `\`\`\`json\n${example}\n\`\`\``].join('\n\n');
}

function isScoped(schema: JsonSchema): boolean {
  return 'scope' in (schema['properties'] as object);
}

function fieldTable(schema: JsonSchema): string {
  return ['| field | type | limits | meaning |', '| --- | --- | --- | --- |', ...fieldRows(schema, '')].join('\n');
}

/** One row per field, nested ones after their parent; required fields in bold. */
function fieldRows(schema: JsonSchema, path: string): string[] {
  const required = new Set(schema['required'] as string[] | undefined);
  return Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>).flatMap(([name, field]) => {
    const inner = withoutNull(field);
    const full = `${path}${name}`;
    const label = required.has(name) ? `**${full}**` : full;
    const row = `| ${label} | ${typeText(field)} | ${limits(inner)} | ${(field['description'] ?? inner['description'] ?? '') as string} |`;
    return [row, ...nestedRows(inner, full)];
  });
}

function nestedRows(schema: JsonSchema, path: string): string[] {
  if (namedShape(schema) !== null) return [];
  const items = schema['items'] as JsonSchema | undefined;
  if (items !== undefined) return items['properties'] === undefined ? [] : fieldRows(items, `${path}[].`);
  return fieldRows(schema, `${path}.`);
}

/** Shapes that the introduction explains once. */
function namedShape(schema: JsonSchema): string | null {
  const keys = Object.keys((schema['properties'] ?? {}) as object).join();
  if (keys.startsWith('sha256,bytes,mediaType')) return 'blob handle';
  return keys === 'start,end' ? 'span' : null;
}

function withoutNull(schema: JsonSchema): JsonSchema {
  const options = schema['anyOf'] as JsonSchema[] | undefined;
  const given = options?.filter((o) => o['type'] !== 'null');
  return given?.length === 1 ? (given[0] as JsonSchema) : schema;
}

function typeText(schema: JsonSchema): string {
  const options = schema['anyOf'] as JsonSchema[] | undefined;
  if (options !== undefined) return options.map(typeText).join(' or ');
  const named = namedShape(schema);
  if (named !== null) return named;
  if (schema['const'] !== undefined) return JSON.stringify(schema['const']);
  if (schema['enum'] !== undefined) return (schema['enum'] as string[]).map((v) => `\`${v}\``).join(', ');
  if (schema['x-dtype'] !== undefined) return `stream of ${schema['x-dtype'] as string}`;
  const { type } = schema;
  if (type === 'array') return `array of ${typeText(schema['items'] as JsonSchema)}`;
  if (type === 'number') return 'float';
  const values = schema['additionalProperties'] as JsonSchema | undefined;
  if (type === 'object' && values !== undefined && values['type'] !== undefined) return `object of ${typeText(values)}`;
  return (type as string | undefined) ?? 'any';
}

function limits(schema: JsonSchema): string {
  const say: string[] = [];
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength, maxItems, pattern } = schema as Record<
    string,
    number | string | undefined
  >;
  if (maxLength !== undefined)
    say.push(`${minLength ?? 0} to ${maxLength} ${maxLength === 256 && minLength === 1 ? 'bytes' : 'characters'}`);
  if (maxItems !== undefined) say.push(`at most ${maxItems} entries`);
  if (exclusiveMinimum !== undefined) say.push(`above ${exclusiveMinimum}`);
  if (minimum !== undefined && Number(minimum) >= 0) say.push(Number(maximum) < Number.MAX_SAFE_INTEGER ? `${minimum} to ${maximum}` : `at least ${minimum}`); // prettier-ignore
  if (pattern !== undefined) say.push(`\`${pattern}\``);
  return say.join('; ');
}

if (import.meta.main) {
  if (process.argv.includes('--write')) writeFileSync(TARGET, eventsDocument());
  else process.stdout.write(eventsDocument());
}
