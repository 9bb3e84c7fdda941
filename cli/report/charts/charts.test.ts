import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { barChart, binned } from './bar-chart.ts';
import { intervalChart } from './interval-chart.ts';
import { lineChart } from './line-chart.ts';
import { escapeText } from './markup.ts';
import { domainOf, niceTicks } from './scale.ts';
import { shareBar } from './share-bar.ts';

/** Tags open and close in order, and attributes hold no number that is none. */
function wellFormed(markup: string): void {
  assert.doesNotMatch(markup, /NaN|Infinity|undefined/);
  const open: string[] = [];
  for (const [, close, name, rest] of markup.matchAll(/<(\/?)([a-zA-Z]+)((?:"[^"]*"|[^">])*)>/g)) {
    if (close === '/') assert.equal(open.pop(), name);
    else if (!(rest as string).endsWith('/')) open.push(name as string);
  }
  assert.deepEqual(open, []);
}

const value = fc.oneof(fc.constant(null), fc.double({ min: -1e6, max: 1e6, noNaN: true }), fc.constantFrom(NaN, Infinity, -Infinity));

test('charts are well-formed whatever the values and names', () => {
  const point = fc.record({ x: fc.integer({ min: 1, max: 1000 }), y: value, low: value, high: value });
  fc.assert(
    fc.property(fc.array(point, { maxLength: 30 }), fc.string({ unit: 'binary' }), fc.boolean(), (points, name, isBinary) => {
      wellFormed(lineChart({ label: name, xLabel: name, yLabel: name, format: String, xScale: isBinary ? 'binary' : 'linear', series: [{ name, tone: 1, points }] }).replaceAll(/>[^<]*</g, '><'));
      const rows = points.map(({ y, low, high }) => ({ name, value: y, low, high, tone: 2 as const, text: name }));
      wellFormed(intervalChart({ label: name, rows, reference: 0, format: String }).replaceAll(/>[^<]*</g, '><'));
      wellFormed(barChart({ label: name, xLabel: name, yLabel: name, tones: [1], bins: points.map(({ x }) => ({ name, counts: [x] })) }).replaceAll(/>[^<]*</g, '><'));
      wellFormed(shareBar(name, points.map(({ x }) => ({ name, count: x, tone: 1 }))).replaceAll(/>[^<]*</g, '><'));
    }),
    { numRuns: 60 },
  );
}); // prettier-ignore

test('text is escaped, forbidden characters are shown', () => {
  assert.equal(escapeText('<script>"&\'\u0000\ud800\n'), '&lt;script&gt;&quot;&amp;&#39;\ufffd\ufffd\n');
});

test('ticks are round and inside the domain', () => {
  assert.deepEqual(niceTicks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(niceTicks(0, 97, 4), [0, 25, 50, 75]);
  assert.deepEqual(niceTicks(3, 3, 4), [3]);
  assert.deepEqual(domainOf([null, NaN, Infinity]), [0, 1]);
  const [low, high] = domainOf([5, 5]);
  assert.ok(low < 5 && high > 5);
});

test('bins count every value once', () => {
  assert.deepEqual(binned([0, 0.05, 0.5, 1], 0, 1, 10), [2, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
  assert.deepEqual(binned([3, 3], 3, 3, 2), [2, 0]);
});
