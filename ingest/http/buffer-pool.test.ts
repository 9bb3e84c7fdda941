import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteBudget } from '../../base/byte-budget.ts';
import { openBody } from './body-buffer.ts';
import { createBufferPool } from './buffer-pool.ts';
import { openClaim } from './claim.ts';

const KIB = 1024;
const limit = (bytes: number) => ({ bytes, code: 'body_too_large' as const, what: 'the body' });

test('the pool hands a given buffer out again, and keeps at most its limit', () => {
  const pool = createBufferPool(256 * KIB);
  const a = pool.take(100 * KIB);
  assert.equal(a.length, 128 * KIB);
  pool.give(a);
  assert.equal(pool.take(70 * KIB), a);
  for (let i = 0; i < 10; i++) pool.give(Buffer.alloc(64 * KIB));
  assert.equal(pool.freeBytes, 256 * KIB);
});

test('a body of known length is one buffer, one that grows keeps its bytes, and both give their memory back', () => {
  const pool = createBufferPool(1024 * KIB);
  const budget = new ByteBudget(1024 * KIB);
  for (const expected of [300 * KIB, null]) {
    const claim = openClaim(budget);
    const body = openBody(pool, claim, limit(400 * KIB), expected);
    const bytes = Buffer.alloc(300 * KIB, 'abcdefg');
    for (let at = 0; at < bytes.length; at += 7 * KIB) body.write(bytes.subarray(at, at + 7 * KIB));
    assert.ok(body.view().equals(bytes));
    assert.ok(budget.used >= 300 * KIB && budget.used <= 400 * KIB);
    body.release(true);
    body.release(true);
    assert.equal(budget.used, 0);
  }
});

test('the limit holds while growing and before reading', () => {
  const pool = createBufferPool(0);
  const budget = new ByteBudget(1024 * KIB);
  assert.throws(() => openBody(pool, openClaim(budget), limit(100), 101), { code: 'body_too_large', details: { limit: 100 } });
  const body = openBody(pool, openClaim(budget), limit(100), null);
  body.write(Buffer.alloc(100));
  assert.throws(() => body.write(Buffer.alloc(1)), { code: 'body_too_large' });
});

test('a claim beyond the budget is refused and keeps what it had; alone it may pass', () => {
  const budget = new ByteBudget(100);
  const other = openClaim(budget);
  other.grow(40);
  const claim = openClaim(budget);
  claim.grow(50);
  assert.throws(() => claim.grow(20), { code: 'overloaded' });
  assert.equal(budget.used, 90);
  other.release();
  claim.grow(200);
  assert.equal(budget.used, 250);
  claim.shrink(240);
  assert.equal(budget.used, 10);
  claim.release();
  claim.release();
  assert.equal(budget.used, 0);
});
