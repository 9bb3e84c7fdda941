/** How log positions are numbered in the store: both topics share one space of partitions. */
import type { Topic } from '../../../events/registry.ts';

/** Partitions of the feeds topic are stored as 32768 + p, so that every table and every proof needs one partition column only. */
export const FEEDS_PARTITION_BASE = 0x8000;

/** The partition as the store knows it. A topic has at most 32,768 partitions. */
export function storePartition(topic: Topic, partition: number): number {
  if (!Number.isInteger(partition) || partition < 0 || partition >= FEEDS_PARTITION_BASE) {
    throw new RangeError(`partition ${partition} is not between 0 and ${FEEDS_PARTITION_BASE - 1}`);
  }
  return topic === 'feeds' ? FEEDS_PARTITION_BASE + partition : partition;
}

export function logPartition(stored: number): { readonly topic: Topic; readonly partition: number } {
  return stored >= FEEDS_PARTITION_BASE
    ? { topic: 'feeds', partition: stored - FEEDS_PARTITION_BASE }
    : { topic: 'events', partition: stored };
}

/** In key columns: "no node". Larger than any index (events/fields.ts). */
export const NO_NODE = 0xffff_ffff;
