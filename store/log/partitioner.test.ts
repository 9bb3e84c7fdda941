import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { murmur2, partitionOf } from './partitioner.ts';

const require = createRequire(import.meta.url);

test('murmur2 gives the values of the tests of Kafka itself', () => {
  // org.apache.kafka.common.utils.UtilsTest.testMurmur2
  const cases: [string, number][] = [
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ];
  for (const [key, hash] of cases) assert.equal(murmur2(Buffer.from(key)), hash, key);
});

test('murmur2 agrees with the implementations inside both clients on any bytes', async () => {
  const kafkajs = require('kafkajs/src/producer/partitioners/default/murmur2.js') as (key: Buffer) => number;
  const platformatic = (await import(join(dirname(require.resolve('@platformatic/kafka')), 'protocol', 'murmur2.js'))) as {
    murmur2(key: Buffer): number;
  };
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70 }), (key) => {
      assert.equal(murmur2(key), kafkajs(Buffer.from(key)));
      assert.equal(murmur2(key), platformatic.murmur2(Buffer.from(key)) | 0);
    }),
  );
});

test('a key has one partition, in range, whether it comes as text or as bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 512 }), (key, partitions) => {
      const partition = partitionOf(key, partitions);
      assert.ok(Number.isInteger(partition) && partition >= 0 && partition < partitions);
      assert.equal(partitionOf(Buffer.from(key), partitions), partition);
    }),
  );
});

test('keys spread over the partitions', () => {
  const counts = [0, 0, 0, 0];
  for (let i = 0; i < 4000; i++) (counts[partitionOf(`rollout-${i}`, 4)] as number)++;
  for (const count of counts) assert.ok(count > 850 && count < 1150, String(counts));
});
