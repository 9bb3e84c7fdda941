import assert from 'node:assert/strict';
import { mkdtemp, readdir, rename, rm, stat, writeFile, chmod } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../base/clock.ts';
import { seededRandom, systemRandom } from '../../base/random.ts';
import type { KeyRecord } from './key-record.ts';
import { projectIncludes, roleIncludes } from './key-record.ts';
import { openKeyRing } from './key-ring.ts';
import { changeKeysFile, readKeysFile } from './keys-file.ts';
import { hashOfToken, idOfToken, newToken } from './token.ts';
import { verifyToken } from './verify.ts';

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-keys-'));
});
after(() => rm(folder, { recursive: true, force: true }));

function made(seed: number, more: Partial<KeyRecord> = {}): { token: string; record: KeyRecord } {
  const { id, token } = newToken(seededRandom(seed));
  const record = {
    id,
    name: '',
    project: 'default',
    role: 'read' as const,
    hash: hashOfToken(token),
    created: 1,
    expires: null,
    revoked: null,
    limits: {},
  };
  return { token, record: { ...record, ...more } };
}
const table = (...records: KeyRecord[]): Map<string, KeyRecord> => new Map(records.map((record) => [record.id, record]));
const outcome = (keys: Map<string, KeyRecord>, token: string, now = 10): string => {
  const result = verifyToken(keys, token, now * 1e6);
  return result.ok ? result.value.id : `${result.error.code}: ${result.error.message}`;
};

test('the form of a key is what secret scanners look for, and no two are alike', () => {
  const tokens = Array.from({ length: 200 }, () => newToken(systemRandom));
  for (const { id, token } of tokens) {
    assert.match(token, /^td_[a-z2-7]{10}_[0-9A-Za-z]{49}$/);
    assert.deepEqual(idOfToken(token), { ok: true, value: id });
  }
  assert.equal(new Set(tokens.map(({ token }) => token)).size, 200);
  assert.equal(new Set(tokens.map(({ id }) => id)).size, 200);
});

test('a changed character is found by the checksum, before anything is looked up', () => {
  fc.assert(
    fc.property(fc.nat(58), fc.constantFrom('0', 'a', 'Z', '7'), (at, char) => {
      const { token } = newToken(seededRandom(at));
      const place = 14 + (at % 49);
      if (token[place] === char) return;
      const result = idOfToken(token.slice(0, place) + char + token.slice(place + 1));
      assert.ok(!result.ok && result.error.message.includes('checksum'));
      assert.ok(!result.error.message.includes(token.slice(14)));
    }),
  );
  for (const text of ['', 'td_', 'sk-td-x', 'x'.repeat(10_000), 'td_aaaaaaaaaa_' + '\u0000'.repeat(49)]) assert.ok(!idOfToken(text).ok);
});

test('only the very text of a key is one; revoked and expired keys say so, unknown ids do not tell', () => {
  const { token, record } = made(1);
  const other = newToken(seededRandom(2));
  assert.equal(outcome(table(record), token), record.id);
  assert.match(outcome(table(record), other.token), /^unauthorized: .*not known/);
  // a key of the right form with the id of another one
  const forged = made(3, { id: record.id });
  const borrowed = { ...record, hash: forged.record.hash };
  assert.equal(outcome(table(record), forged.token), outcome(table(), token));
  assert.match(outcome(table(borrowed), token), /not known/);
  assert.match(outcome(table({ ...record, revoked: 5 }), token), /revoked/);
  assert.equal(outcome(table({ ...record, expires: 11 }), token), record.id);
  assert.match(outcome(table({ ...record, expires: 10 }), token), /expired/);
});

test('roles include those below, projects only themselves, * all', () => {
  assert.ok(
    roleIncludes('admin', 'read') && roleIncludes('write', 'write') && !roleIncludes('read', 'write') && !roleIncludes('write', 'admin'),
  );
  assert.ok(projectIncludes('*', 'a') && projectIncludes('a', 'a') && !projectIncludes('a', 'A') && !projectIncludes('a', '*'));
});

test('the file holds no key, is for its owner only, and ten writers at once lose nothing', async () => {
  const file = join(folder, 'deep', 'keys.json');
  const keys = Array.from({ length: 10 }, (_, i) => made(100 + i));
  await Promise.all(keys.map(({ record }) => changeKeysFile(file, systemClock, (before) => [...before, record])));
  const read = await readKeysFile(file);
  assert.deepEqual(read?.map(({ id }) => id).toSorted(), keys.map(({ record }) => record.id).toSorted());
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  const text = JSON.stringify(read);
  for (const { token } of keys) assert.ok(!text.includes(token.slice(14)));
  assert.deepEqual(await readdir(join(folder, 'deep')), ['keys.json'], 'no drafts and no lock stay behind');
});

test('a file that is damaged, of another version, or writable by others is refused by name', async () => {
  assert.equal(await readKeysFile(join(folder, 'absent.json')), null);
  const { record } = made(1);
  for (const [text, pattern] of [
    ['{', /not JSON/],
    ['{"version":2,"keys":[]}', /version/],
    [JSON.stringify({ version: 1, keys: [{ ...record, role: 'root' }] }), /keys\.0\.role/],
    [JSON.stringify({ version: 1, keys: [{ ...record, more: 1 }] }), /more/],
    [JSON.stringify({ version: 1, keys: [record, record] }), /twice/],
  ] as const) {
    const file = join(folder, 'bad.json');
    await writeFile(file, text, { mode: 0o600 });
    await assert.rejects(readKeysFile(file), (error: Error) => pattern.test(error.message) && !error.message.includes(record.hash));
  }
  const file = join(folder, 'open.json');
  await writeFile(file, '{"version":1,"keys":[]}');
  await chmod(file, 0o662);
  await assert.rejects(readKeysFile(file), /chmod 600/);
});

test('a ring follows its file: made, revoked, damaged, gone', async () => {
  const file = join(folder, 'ring.json');
  const problems: unknown[] = [];
  const ring = await openKeyRing({ file, clock: systemClock, onProblem: (error) => problems.push(error), everyMs: 10 });
  const until = async (what: string, isSo: () => boolean): Promise<void> => {
    for (let left = 3_000; !isSo(); left--) {
      assert.ok(left > 0, what);
      await systemClock.sleep(10);
    }
  };
  try {
    assert.equal(ring.keys(), null, 'no file: open');
    const { token, record } = made(1);
    await changeKeysFile(file, systemClock, () => [record]);
    await until('the key is known', () => ring.keys()?.has(record.id) === true);
    await changeKeysFile(file, systemClock, (keys) => keys.map((key) => ({ ...key, revoked: 5 })));
    await until('it is revoked', () => outcome(ring.keys() as Map<string, KeyRecord>, token).includes('revoked'));
    await writeFile(file, 'half a fi');
    await until('the damage is told', () => problems.length > 0);
    assert.ok(ring.keys()?.has(record.id), 'the last good keys go on');
    await changeKeysFile(join(folder, 'next.json'), systemClock, () => [made(2).record]);
    await rename(join(folder, 'next.json'), file);
    await until('a mended file is read', () => ring.keys()?.has(made(2).record.id) === true);
    await rm(file);
    await until('a file that is gone closes the server', () => ring.keys()?.size === 0);
  } finally {
    await ring.close();
  }
});
