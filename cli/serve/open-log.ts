/** The log that the settings name: embedded on this machine, or Kafka. */
import type { Clock } from '../../base/clock.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { Topic } from '../../events/registry.ts';
import { paths, type Config } from '../config.ts';

/** Opens one topic. `write` takes the embedded log's writer lock; `read` never does. */
export async function openLog(config: Config, topic: Topic, mode: 'write' | 'read', clock: Clock): Promise<EventLog> {
  return config.log === 'kafka' ? openKafka(config, topic, clock) : openEmbedded(config, topic, mode, clock);
}

async function openEmbedded(config: Config, topic: Topic, mode: 'write' | 'read', clock: Clock): Promise<EventLog> {
  const { openEmbeddedLog } = await import('../../store/log/embedded-log.ts');
  return openEmbeddedLog({
    directory: paths(config).log,
    topic,
    partitions: config.partitions,
    mode,
    maxRecordBytes: config.maxEventBytes + KEY_AND_FRAME_BYTES,
    compression: config.logCompression,
    clock,
  });
}

/** Room for the key and the frame around an event. */
const KEY_AND_FRAME_BYTES = 4096;

async function openKafka(config: Config, topic: Topic, clock: Clock): Promise<EventLog> {
  const { openKafkaLog } = await import('../../store/log/kafka-log.ts');
  const options = {
    brokers: config.kafkaBrokers,
    clientId: 'tapedeck',
    tls: config.kafkaTls,
    ...(config.kafkaSaslMechanism === undefined
      ? {}
      : {
          sasl: {
            mechanism: config.kafkaSaslMechanism,
            username: config.kafkaSaslUsername ?? '',
            password: config.kafkaSaslPassword ?? '',
          },
        }),
  };
  const connect =
    config.kafkaClient === 'kafkajs'
      ? (await import('../../store/log/kafkajs-client.ts')).connectKafkajs
      : (await import('../../store/log/platformatic-client.ts')).connectPlatformatic;
  return openKafkaLog({
    connect: () => connect(options),
    topic: `${config.kafkaTopicPrefix}.${topic}`,
    partitions: config.partitions,
    replication: config.kafkaReplication,
    minIsr: config.kafkaMinIsr,
    maxRecordBytes: config.maxEventBytes + KEY_AND_FRAME_BYTES,
    clock,
  });
}
