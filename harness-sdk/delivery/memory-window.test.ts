import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { memoryWindow } from './memory-window.ts';

test('it holds what was pushed and not dropped, by number, and knows its bytes', () => {
  const step = fc.oneof(fc.record({ push: fc.integer({ min: 1, max: 9 }) }), fc.record({ drop: fc.nat({ max: 5000 }) }), fc.record({ many: fc.integer({ min: 1, max: 3000 }) })); // prettier-ignore
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const window = memoryWindow();
      const all: Uint8Array[] = [];
      let start = 0;
      const push = (length: number): void => {
        const event = new Uint8Array(length).fill(all.length % 256);
        all.push(event);
        window.push(event);
      };
      for (const each of steps) {
        if ('push' in each) push(each.push);
        else if ('many' in each) for (let i = 0; i < each.many; i++) push(1);
        else {
          window.dropBefore(each.drop);
          start = Math.max(start, Math.min(each.drop, all.length));
        }
        assert.equal(window.start, start);
        assert.equal(window.end, all.length);
        assert.equal(window.bytes, all.slice(start).reduce((sum, { length }) => sum + length, 0)); // prettier-ignore
        for (let seq = start; seq < all.length; seq += 97) assert.equal(window.at(seq), all[seq]);
      }
    }),
    { numRuns: 60 },
  );
});
