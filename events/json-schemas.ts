/** The event schemas as JSON Schema, for documents and for the hash that pins them. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { envelope } from './envelope.ts';
import { EVENT_TYPES, type EventType } from './registry.ts';

export type JsonSchema = { readonly [keyword: string]: unknown };

/** JSON Schema (2020-12) of the envelope without `data`, and of `data` by type. Streams carry the keyword `x-dtype`. */
export function jsonSchemas(): { envelope: JsonSchema; data: Record<EventType, JsonSchema> } {
  const types = Object.entries(EVENT_TYPES).map(([type, { schema }]) => [type, jsonSchemaOf(schema)] as const);
  return { envelope: jsonSchemaOf(envelope), data: Object.fromEntries(types) as Record<EventType, JsonSchema> };
}

function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { unrepresentable: 'any' });
}

/**
 * sha256 over the shape of all schemas and the ids each type requires. Wording may change freely; a change of shape must either lift old events
 * (upcast.ts) under a new EVENTS_VERSION, or be additive, and is pinned beside that version by a test.
 */
export function schemaHash(): string {
  const ids = Object.entries(EVENT_TYPES).map(([type, { requires, topic }]) => [type, requires, topic]);
  return createHash('sha256')
    .update(JSON.stringify(sorted([jsonSchemas(), ids])))
    .digest('hex');
}

/** Keys in order, descriptions left out. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([key, v]) => !(key === 'description' && typeof v === 'string'));
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, v]) => [key, sorted(v)]));
}
