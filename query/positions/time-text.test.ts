import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { microsOfText } from './time-text.ts';

test('every point in time reads as what was written, to the microsecond and in any zone', () => {
  const micros = fc.bigInt({ min: -62_135_596_800_000_000n, max: 253_402_300_799_999_999n });
  fc.assert(
    fc.property(micros, fc.integer({ min: -839, max: 839 }), (time, minutes) => {
      const local = time + BigInt(minutes) * 60_000_000n;
      fc.pre(local >= -62_135_596_800_000_000n && local <= 253_402_300_799_999_999n);
      const fraction = ((local % 1_000_000n) + 1_000_000n) % 1_000_000n;
      const seconds = new Date(Number((local - fraction) / 1000n)).toISOString().slice(0, 19);
      const zone = `${minutes < 0 ? '-' : '+'}${String(Math.floor(Math.abs(minutes) / 60)).padStart(2, '0')}:${String(Math.abs(minutes) % 60).padStart(2, '0')}`;
      assert.equal(microsOfText(`${seconds}.${String(fraction).padStart(6, '0')}${zone}`), time);
    }),
  );
  assert.equal(microsOfText('2026-01-31T12:00Z'), microsOfText('2026-01-31T12:00:00.000Z'));
});

test('what does not exist is no time', () => {
  for (const text of [
    '2026-13-45T00:00:00Z', '2026-00-01T00:00:00Z', '2026-02-30T00:00:00Z', '2025-02-29T00:00:00Z', '2026-04-31T00:00:00Z', '2026-01-01T25:00:00Z', '2026-01-01T00:60:00Z',
    '2026-01-01T00:00:60Z', '2026-01-01T00:00:00+99:99', '2026-01-01T00:00:00', '2026-01-01', '2026-01-01T00:00:00.1234567Z', ' 2026-01-01T00:00:00Z', '',
  ]) assert.equal(microsOfText(text), null, text);
  assert.notEqual(microsOfText('2024-02-29T00:00:00Z'), null);
}); // prettier-ignore
