/**
 * Which partition a key belongs to, for both drivers: murmur2 (seed 0x9747b28c) of the key's bytes, the sign bit dropped, modulo the number of
 * partitions. That is what Kafka's own Java producer does with a key (org.apache.kafka.common.utils.Utils.murmur2), so any other producer of our topics
 * puts the same rollout into the same partition.
 */

const SEED = 0x9747b28c;
const M = 0x5bd1e995;
const R = 24;

/** The partition of a key, 0 to `partitions - 1`. A text key means its UTF-8 bytes. */
export function partitionOf(key: Uint8Array | string, partitions: number): number {
  const bytes = typeof key === 'string' ? Buffer.from(key, 'utf8') : key;
  return (murmur2(bytes) & 0x7fffffff) % partitions;
}

/** 32-bit murmur2 as Kafka computes it, as a signed integer. */
export function murmur2(bytes: Uint8Array): number {
  const { length } = bytes;
  let hash = SEED ^ length;
  const whole = length & ~3;
  for (let i = 0; i < whole; i += 4) {
    let word = byteAt(bytes, i) | (byteAt(bytes, i + 1) << 8) | (byteAt(bytes, i + 2) << 16) | (byteAt(bytes, i + 3) << 24);
    word = Math.imul(word, M);
    word ^= word >>> R;
    hash = Math.imul(hash, M) ^ Math.imul(word, M);
  }
  const rest = length - whole;
  if (rest > 2) hash ^= byteAt(bytes, whole + 2) << 16;
  if (rest > 1) hash ^= byteAt(bytes, whole + 1) << 8;
  if (rest > 0) hash = Math.imul(hash ^ byteAt(bytes, whole), M);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, M);
  return hash ^ (hash >>> 15);
}

function byteAt(bytes: Uint8Array, index: number): number {
  return bytes[index] as number;
}
