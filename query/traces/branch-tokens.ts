import { DTYPES, PackedArray } from '../../events/packed-array.ts';
import { floatText } from './json-float.ts';
import type { BranchTokens } from './trace-answer.ts';

/** The streams of one node as stored: bytes of little-endian uint32, uint8 and float32. */
export type NodeStreams = { readonly node: number; readonly ids: Uint8Array; readonly mask: Uint8Array; readonly logprobs: Uint8Array };

type Joined = Pick<BranchTokens, 'tokens' | 'sampledTokens' | 'encoding' | 'ids' | 'mask' | 'logprobs' | 'segments'>;

/** Concatenates the streams of a path in its order. Tokens of a node are a delta, so this is exactly what the engine saw. */
export function joinStreams(nodes: readonly NodeStreams[], encoding: 'base64' | 'arrays'): Joined {
  const segments = nodes.map(({ node, ids, mask, logprobs }) => ({
    node,
    tokens: ids.length / DTYPES.u32,
    sampledTokens: countOnes(mask),
    logprobs: logprobs.length / DTYPES.f32,
  }));
  const ids = Buffer.concat(nodes.map((node) => node.ids));
  const mask = Buffer.concat(nodes.map((node) => node.mask));
  const logprobs = Buffer.concat(nodes.map((node) => node.logprobs));
  return {
    tokens: sum(segments.map((segment) => segment.tokens)),
    sampledTokens: sum(segments.map((segment) => segment.sampledTokens)),
    encoding,
    ...(encoding === 'base64'
      ? { ids: ids.toString('base64'), mask: mask.toString('base64'), logprobs: logprobs.toString('base64') }
      : {
          ids: [...new PackedArray('u32', ids).typed()],
          mask: [...mask],
          logprobs: Array.from(new PackedArray('f32', logprobs).typed(), floatText),
        }),
    segments,
  };
}

function countOnes(mask: Uint8Array): number {
  let ones = 0;
  for (const value of mask) ones += value === 1 ? 1 : 0;
  return ones;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
