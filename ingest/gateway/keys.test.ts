import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, chmod, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { isTapedeckError } from '../../base/errors.ts';
import { keyOfRequest, mintKey, readKey, type KeyClaims } from './keys.ts';
import { loadSecret } from './secret.ts';

const SECRET = Buffer.alloc(32, 7);
const NOW = 1_800_000_000_000_000;
const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 });
const claims: fc.Arbitrary<KeyClaims> = fc
  .record({ project: id, run: id, partition: fc.nat(1023), offset: fc.maxSafeNat(), expires: fc.integer({ min: NOW / 1e6 + 1, max: 4e9 }) })
  .chain((common) =>
    fc.oneof(
      fc.record({ rollout: id, trace: id }).map((ids) => ({ ...common, kind: 'rollout' as const, ...ids })),
      fc.uuid().map((grant) => ({ ...common, kind: 'run' as const, grant })),
    ),
  );

test('a key gives back what it was made for, and fits into a header and a path', () => {
  fc.assert(
    fc.property(claims, (given) => {
      const key = mintKey(SECRET, given);
      assert.match(key, /^sk-td-[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$/);
      assert.deepEqual(readKey(SECRET, key, NOW), { ok: true, value: given });
    }),
  );
});

test('a changed, foreign, expired or invented key is refused', () => {
  const good = mintKey(SECRET, {
    kind: 'rollout',
    project: 'p',
    run: 'r',
    rollout: 'a',
    trace: 't',
    partition: 1,
    offset: 5,
    expires: NOW / 1e6 + 1,
  });
  assert.ok(readKey(SECRET, good, NOW).ok);
  const refused = (key: string, secret = SECRET, now = NOW) => {
    const read = readKey(secret, key, now);
    assert.ok(!read.ok, key);
    assert.equal(read.error.code, 'unauthorized');
    return read.error.message;
  };
  assert.match(refused(good, Buffer.alloc(32, 8)), /not made here/);
  assert.match(refused(good, SECRET, NOW + 1e6), /expired/);
  for (let at = 6; at < good.length; at++) refused(good.slice(0, at) + (good[at] === 'A' ? 'B' : 'A') + good.slice(at + 1));
  for (const key of ['', 'sk-td-', 'sk-td-.', 'sk-proj-abc', good.slice(0, -1), `${good}x`, `${good}.`, good.replace('.', '')])
    refused(key);
});

test('the key is found in the path, as a bearer token, or as x-api-key', () => {
  assert.deepEqual(keyOfRequest({ authorization: 'Bearer a', 'x-api-key': 'b' }, 'c'), { ok: true, value: 'c' });
  assert.deepEqual(keyOfRequest({ authorization: 'bearer  a ', 'x-api-key': 'b' }, undefined), { ok: true, value: 'a' });
  assert.deepEqual(keyOfRequest({ authorization: 'Basic a', 'x-api-key': 'b' }, undefined), { ok: true, value: 'b' });
  for (const headers of [{}, { authorization: 'Bearer ' }, { 'x-api-key': '' }]) assert.equal(keyOfRequest(headers, undefined).ok, false);
});

test('the secret is made once, for its owner only, and read again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tapedeck-secret-'));
  try {
    const file = join(folder, 'deep', 'gateway.secret');
    const [a, b] = await Promise.all([loadSecret(file), loadSecret(file)]);
    assert.equal(a.length, 32);
    assert.deepEqual(a, b, 'two processes that start together');
    assert.deepEqual(await loadSecret(file), a);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(await loadSecret(file, 'a setting wins over the file, always'), Buffer.from('a setting wins over the file, always'));
    await chmod(file, 0o644);
    await assert.rejects(loadSecret(file), (e) => isTapedeckError(e, 'config_invalid') && e.message.includes('chmod 600'));
    await writeFile(file, 'short');
    await assert.rejects(loadSecret(file), (e) => isTapedeckError(e, 'config_invalid'));
    assert.equal(await readFile(file, 'utf8'), 'short');
  } finally {
    await rm(folder, { recursive: true });
  }
});
