import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventsDocument } from './docs.ts';
import { EVENTS_VERSION } from './envelope.ts';
import { schemaHash } from './json-schemas.ts';

/** The shape of all schemas, by version. A changed hash: additive -> pin the new one here; not additive -> a new version and a lift in upcast.ts. */
const PINNED: Readonly<Record<number, string>> = {
  1: 'd21a92a76c36111724e952e3e30cb3ca66245936e8ca3ef689ab38337051b46f',
};

test('the schemas are those of their version', () => {
  assert.equal(schemaHash(), PINNED[EVENTS_VERSION], 'schemas changed: see the comment above PINNED');
});

test('docs/events.md is fresh', () => {
  const written = readFileSync(new URL('../docs/events.md', import.meta.url), 'utf8');
  assert.ok(written === eventsDocument(), 'run: node events/docs.ts --write');
});
