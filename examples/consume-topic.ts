/**
 * Reads Tapedeck's topic with an ordinary Kafka consumer group: any program may, the topic is the product's public record.
 *
 *   node examples/consume-topic.ts --brokers 127.0.0.1:9092 --topic tapedeck.events [--group my-group] [--limit 100]
 *
 * Each record: the key is the id that chose the partition (rollout, else group, run, event), the value one event as a CBOR map. Delivery is at least once (a
 * client whose answer was lost sends again), so a program that counts keeps the `id` of events it has seen.
 */
import { parseArgs } from 'node:util';
import kafkajs from 'kafkajs';
import { decodeCbor } from '../events/codec/cbor-decode.ts';

const { values } = parseArgs({
  options: {
    brokers: { type: 'string', default: '127.0.0.1:9092' },
    topic: { type: 'string', default: 'tapedeck.events' },
    group: { type: 'string', default: 'tapedeck-example' },
    limit: { type: 'string' },
  },
});
const limit = Number(values.limit ?? Number.POSITIVE_INFINITY);

const kafka = new kafkajs.Kafka({ clientId: 'tapedeck-example', brokers: values.brokers.split(','), logLevel: kafkajs.logLevel.ERROR });
const consumer = kafka.consumer({ groupId: values.group });
const seen = new Set<string>();
const enough = Promise.withResolvers<void>();

await consumer.connect();
await consumer.subscribe({ topics: [values.topic], fromBeginning: true });
await consumer.run({
  eachMessage: async ({ partition, message }) => {
    const event = decodeCbor(message.value as Buffer) as { id: string; type: string; run?: string; rollout?: string };
    if (seen.has(event.id) || seen.size >= limit) return;
    seen.add(event.id);
    console.log(`${partition}:${message.offset} ${event.type} ${event.rollout ?? event.run ?? '-'} ${event.id}`);
    if (seen.size >= limit) enough.resolve();
  },
});
process.once('SIGINT', () => enough.resolve());
await enough.promise;
await consumer.disconnect();
