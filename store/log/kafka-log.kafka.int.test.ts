import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startTestBroker } from '../../e2e/kafka/test-broker.ts';
import { logContract } from './contract.ts';

const warnings: Error[] = [];
process.on('warning', (warning) => warnings.push(warning));
const broker = await startTestBroker();
after(() => (typeof broker === 'string' ? undefined : broker.stop()));

test('a Kafka broker can be had', { skip: typeof broker === 'string' ? broker : false }, () => {});

for (const client of ['platformatic', 'kafkajs'] as const) {
  logContract(`Kafka through ${client}`, {
    fixture: new URL('./kafka-log.fixture.ts', import.meta.url),
    start: async () => (typeof broker === 'string' ? broker : { target: { ...broker, client }, stop: async () => {} }),
  });
}

test('no client makes the process warn', () => {
  assert.deepEqual(warnings.filter(({ name }) => name !== 'ExperimentalWarning'), []); // prettier-ignore
});
