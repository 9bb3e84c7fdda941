import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { throughInbox } from './clickhouse-http-inbox.ts';

test('a block of many pieces lies in the inbox whole while it is used, and not after', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tapedeck-inbox-'));
  const pieces = Array.from({ length: 2_000 }, (_, i) => Buffer.alloc(i % 7 === 0 ? 0 : (i * 37) % 5_000, i));
  let seen: Buffer | null = null;
  assert.equal(await throughInbox({ directory }, 'block', pieces, async () => void (seen = readFileSync(join(directory, 'block')))), true);
  assert.ok(Buffer.concat(pieces).equals(seen ?? Buffer.alloc(0)));
  assert.equal(existsSync(join(directory, 'block')), false);
  assert.equal(await throughInbox({ directory: join(directory, 'gone') }, 'block', pieces, async () => {}), false);
  rmSync(directory, { recursive: true });
});
