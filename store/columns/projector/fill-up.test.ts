import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fillUpMs } from './fill-up.ts';

test('a block waits its time', () => {
  assert.equal(fillUpMs(0, 0, 300), 300);
  assert.equal(fillUpMs(50, 100, 300), 200);
  assert.equal(fillUpMs(300, 300, 300), 0);
  assert.equal(fillUpMs(1_000_000, 10, 0), 0);
  assert.equal(fillUpMs(0, 0, 0), 0);
});

test('under load it waits longer, until it is large enough, and never beyond three times its time', () => {
  assert.equal(fillUpMs(750, 300, 300), 600);
  assert.equal(fillUpMs(1_500, 300, 300), 500); // 5,000 a second: 4,000 have gathered after 800 ms
  assert.equal(fillUpMs(2_000, 800, 300), 100);
  assert.equal(fillUpMs(4_000, 300, 300), 0);
  assert.equal(fillUpMs(2_000, 900, 300), 0);
  assert.equal(fillUpMs(3_000, 2_000, 300), 0);
});

test('waiting in steps comes to an end', () => {
  for (const perSecond of [100, 1_499, 1_501, 2_500, 5_000, 50_000]) {
    let elapsed = 0;
    for (let step = 0, wait = 1; wait > 0; step++) {
      wait = fillUpMs((perSecond * elapsed) / 1000, elapsed, 300);
      elapsed += wait;
      assert.ok(step < 10 && elapsed <= 900.001, `${perSecond}: ${elapsed} ms after ${step} steps`);
    }
    assert.ok(elapsed >= 299.999);
  }
});
