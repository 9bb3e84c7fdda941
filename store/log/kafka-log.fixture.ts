import { openKafkaLog } from './kafka-log.ts';
import { connectKafkajs } from './kafkajs-client.ts';
import { connectPlatformatic } from './platformatic-client.ts';
import type { OpenLog } from './contract-support.ts';

export const CLIENTS = { platformatic: connectPlatformatic, kafkajs: connectKafkajs } as const;

export type KafkaTarget = { brokers: readonly string[]; client: keyof typeof CLIENTS; replication: number };

/** Opens Kafka logs for the contract suite. */
export const openLog: OpenLog<KafkaTarget> = ({ brokers, client, replication }, options) =>
  openKafkaLog({
    connect: () => CLIENTS[client]({ brokers, clientId: 'contract' }),
    replication,
    minIsr: Math.max(1, replication - 1),
    ...options,
  });
