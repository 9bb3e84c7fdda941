import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Access } from './access.contract.ts';
import { json } from './access.contract.ts';

export function load({ connect, target }: Access): void {
  describe('load', () => {
    test('many queries at once, each with its own answer', async () => {
      const many = connect({ max_open_connections: 30 });
      const sums = await Promise.all(
        Array.from(
          { length: 60 },
          async (_, i) => (await json(many, `SELECT sum(number + ${i}) AS s FROM numbers(${100_000 + i})`))[0]?.['s'],
        ),
      );
      sums.forEach((sum, i) => assert.equal(sum, String(((99_999 + i) * (100_000 + i)) / 2 + i * (100_000 + i))));
      await many.close();
    });

    test('400 MB pass through in bounded memory', async (t) => {
      const server = target();
      const residentBytes = (): number => server.residentBytes?.() ?? 0;
      if (server.residentBytes === undefined) return t.skip('the memory of a remote server cannot be seen');
      const reader = connect();
      const { stream } = await reader.exec({
        query: 'SELECT number, randomPrintableASCII(1000) AS s FROM numbers(400000) SETTINGS max_block_size = 5000 FORMAT Native',
      });
      const before = residentBytes();
      let size = 0;
      let largest = 0;
      for await (const part of stream) {
        size += (part as Uint8Array).length;
        largest = Math.max(largest, residentBytes());
      }
      assert.ok(size > 400e6, `${size} bytes`);
      assert.ok(largest - before < 200e6, `grew by ${largest - before} bytes`);
      await reader.close();
    });
  });
}
