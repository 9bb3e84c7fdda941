/** Weights that a trainer elsewhere publishes as files: `policy-<version>.f64`, little-endian doubles. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FeedClient } from './feed-client.ts';
import type { Policy } from './play.ts';
import { firstWeights, WEIGHTS } from './policy.ts';

/** The newest policy that the feed has heard of, read once per version. Before the first it is version 0. */
export function weightsFolder(folder: string, feed: Pick<FeedClient, 'policyVersion'>): () => Promise<Policy> {
  let latest: Policy = { version: 0, weights: firstWeights() };
  return async () => {
    const version = (await feed.policyVersion()) ?? 0;
    if (version > latest.version) latest = { version, weights: await readWeights(join(folder, `policy-${version}.f64`)) };
    return latest;
  };
}

async function readWeights(path: string): Promise<Float64Array> {
  const bytes = await readFile(path);
  if (bytes.byteLength !== WEIGHTS * Float64Array.BYTES_PER_ELEMENT) throw new Error(`${path} does not hold ${WEIGHTS} doubles`);
  return new Float64Array(Uint8Array.from(bytes).buffer);
}
