import { TapedeckError } from '../../base/errors.ts';
import type { TopicDescription, TopicSpec } from './kafka-client.ts';

export type TopicRules = {
  readonly topic: string;
  readonly partitions: number;
  readonly replication: number;
  readonly minIsr: number;
  /** Largest record, key and value. */
  readonly maxRecordBytes: number;
  /** How long records are kept; -1 = for ever. */
  readonly retentionMs: number;
};

/** What a broker adds around a record at most: headers of the batch and the record. */
const BATCH_OVERHEAD_BYTES = 4096;
const BROKER_DEFAULT_BATCH_BYTES = 1_048_588;

/** How the topic is created. */
export function topicSpec(rules: TopicRules): TopicSpec {
  return {
    topic: rules.topic,
    partitions: rules.partitions,
    replication: rules.replication,
    configs: {
      'cleanup.policy': 'delete',
      'retention.ms': String(rules.retentionMs),
      'retention.bytes': '-1',
      'min.insync.replicas': String(rules.minIsr),
      'unclean.leader.election.enable': 'false',
      'max.message.bytes': String(Math.max(BROKER_DEFAULT_BATCH_BYTES, rules.maxRecordBytes + BATCH_OVERHEAD_BYTES)),
    },
  };
}

/**
 * Refuses a topic with which acknowledged records could be lost or legal ones would not fit: `partition_count_changed` or `topic_misconfigured`, which
 * names every setting at once with what it is and what it must be.
 */
export function checkTopic(rules: TopicRules, found: TopicDescription): void {
  if (found.partitions !== rules.partitions) {
    throw new TapedeckError(
      'partition_count_changed',
      `topic ${rules.topic} has ${found.partitions} partitions and ${rules.partitions} are configured: keys would move, set them back`,
      { details: { topic: rules.topic, found: found.partitions, configured: rules.partitions } },
    );
  }
  const numberOf = (name: string): number => Number(found.configs[name] ?? Number.NaN);
  const settings: { name: string; found: string; needed: string; ok: boolean }[] = [
    {
      name: 'replication factor',
      found: String(found.replication),
      needed: `>= ${rules.replication}`,
      ok: found.replication >= rules.replication,
    },
    { name: 'cleanup.policy', ...textRule(found, 'cleanup.policy', 'delete') },
    { name: 'unclean.leader.election.enable', ...textRule(found, 'unclean.leader.election.enable', 'false') },
    { name: 'min.insync.replicas', ...numberRule(numberOf('min.insync.replicas'), rules.minIsr) },
    { name: 'retention.ms', ...keptLongEnough(numberOf('retention.ms'), rules.retentionMs) },
    { name: 'retention.bytes', ...textRule(found, 'retention.bytes', '-1') },
    { name: 'max.message.bytes', ...numberRule(numberOf('max.message.bytes'), rules.maxRecordBytes + BATCH_OVERHEAD_BYTES) },
  ];
  const wrong = settings.filter((setting) => !setting.ok);
  if (wrong.length === 0) return;
  const list = wrong.map((setting) => `${setting.name} is ${setting.found}, must be ${setting.needed}`).join('; ');
  throw new TapedeckError('topic_misconfigured', `topic ${rules.topic}: ${list}`, {
    details: { topic: rules.topic, settings: wrong.map((setting) => setting.name) },
  });
}

type Rule = { readonly found: string; readonly needed: string; readonly ok: boolean };

function textRule(description: TopicDescription, name: string, needed: string): Rule {
  const found = description.configs[name] ?? 'unknown';
  return { found, needed, ok: found === needed };
}

function numberRule(found: number, atLeast: number): Rule {
  return { found: String(found), needed: `>= ${atLeast}`, ok: found >= atLeast };
}

function keptLongEnough(found: number, wanted: number): Rule {
  const ok = found === -1 || (wanted !== -1 && found >= wanted);
  return { found: String(found), needed: wanted === -1 ? '-1' : `-1 or >= ${wanted}`, ok };
}

/** More brokers may be on their way, so this is waited for like brokers that do not answer; whoever gives up says it. */
export function tooFewBrokers({ topic, replication }: TopicSpec, cause: unknown): TapedeckError {
  const message = `topic ${topic} cannot have ${replication} replicas: the cluster has fewer brokers. Start more, or set TAPEDECK_KAFKA_REPLICATION (and TAPEDECK_KAFKA_MIN_ISR)`;
  return new TapedeckError('log_unavailable', message, { cause });
}
