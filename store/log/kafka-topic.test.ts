import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TapedeckError } from '../../base/errors.ts';
import type { TopicDescription } from './kafka-client.ts';
import { checkTopic, topicSpec } from './kafka-topic.ts';

const rules = { topic: 'tapedeck.events', partitions: 4, replication: 3, minIsr: 2, maxRecordBytes: 2_000_000, retentionMs: -1 };

function found(changes: { partitions?: number; replication?: number; configs?: Record<string, string | null> } = {}): TopicDescription {
  const { partitions, replication, configs } = topicSpec(rules);
  return { partitions, replication, ...changes, configs: { ...configs, ...changes.configs } };
}

function refusal(description: TopicDescription, checked = rules): TapedeckError {
  try {
    checkTopic(checked, description);
  } catch (error) {
    if (error instanceof TapedeckError) return error;
  }
  return assert.fail('it was not refused');
}

test('the topic that we create is one that we accept', () => {
  checkTopic(rules, found());
  assert.equal(topicSpec(rules).configs['retention.ms'], '-1');
});

test('more safety than asked for is accepted', () => {
  checkTopic(rules, found({ replication: 5, configs: { 'min.insync.replicas': '3', 'max.message.bytes': '50000000' } }));
  checkTopic({ ...rules, retentionMs: 1000 }, found({ configs: { 'retention.ms': '5000' } }));
});

for (const [name, value] of [
  ['cleanup.policy', 'compact'],
  ['cleanup.policy', 'compact,delete'],
  ['unclean.leader.election.enable', 'true'],
  ['min.insync.replicas', '1'],
  ['retention.ms', '604800000'],
  ['retention.bytes', '1000000'],
  ['max.message.bytes', '1048588'],
] as const) {
  test(`${name}=${value} is refused by name`, () => {
    const error = refusal(found({ configs: { [name]: value } }));
    assert.equal(error.code, 'topic_misconfigured');
    assert.deepEqual(error.details['settings'], [name]);
    assert.match(error.message, new RegExp(`${name} is ${value}`));
  });
}

test('all wrong settings are named at once, also those that cannot be seen', () => {
  const error = refusal(found({ replication: 1, configs: { 'retention.ms': '5', 'min.insync.replicas': null } }));
  assert.deepEqual(error.details['settings'], ['replication factor', 'min.insync.replicas', 'retention.ms']);
});

test('another number of partitions has a code of its own', () => {
  assert.equal(refusal(found({ partitions: 5 })).code, 'partition_count_changed');
});
